// Damaged object code is refused, or linked; whoever reads it does not crash, nor write beside what it has.
//   --objects=N   how many (50000)
//   --seed=S      of the first (1)
// `./dev fuzz objects --objects=100000` runs it under AddressSanitizer. Nothing of what is linked is called.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "runtime/drivers/cpu/linker.h"
#include "runtime/drivers/cpu/probe_target.h"
#include "runtime/testing/programs.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

int objects = 50'000;
uint64_t first_seed = 1;

struct Object {
  std::string bytes;
  std::vector<std::string> symbols;
};

// A product of matrices, an exponential and a sine: loops, constants, calls.
constexpr char kGraph[] = R"(
  0 CONST [] weakint 64
  1 STACK [0, 0]
  2 PARAM : float32 [1] slot=0
  3 SIN [2]
  4 EXP2 [3]
  5 ADD [4, 2]
  6 TUPLE [5]
)";

std::vector<Object> Objects() {
  std::vector<Object> found = {{runtime::testing::KernelsObject(), {"add", "double_it", "trunc_of", "spin"}}};
  const auto compiled = compiler::Compile(*ParseGraph(kGraph), runtime::cpu::ProbeTarget(2), compiler::Options());
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return found;
  Object& object = found.emplace_back(Object{compiled->object(), {}});
  for (const v1::Kernel& kernel : compiled->kernels()) object.symbols.push_back(kernel.symbol());
  return found;
}

uint64_t OddNumber(Random& random, const std::string& bytes) {
  return random.Pick<uint64_t>({0,
                                1,
                                2,
                                3,
                                4,
                                7,
                                8,
                                9,
                                24,
                                64,
                                0xff,
                                0xfff1,
                                0xffff,
                                1u << 31,
                                0xffffffff,
                                1ull << 40,
                                1ull << 62,
                                ~0ull,
                                ~0ull - 7,
                                bytes.size(),
                                bytes.size() - 1,
                                bytes.size() + 1,
                                random.Below(bytes.size()),
                                random.Bits()});
}

// A number, which is some field's, becomes another.
void ChangeNumber(std::string& bytes, uint64_t at, uint64_t width, Random& random) {
  const uint64_t number = OddNumber(random, bytes);
  if (at + width <= bytes.size()) std::memcpy(&bytes[at], &number, width);
}

// One of the header, of a section's, of a symbol or of a relocation: the places where a fault is not noise.
void ChangeField(std::string& bytes, Random& random) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof(header)) return;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (random.OneIn(8)) return ChangeNumber(bytes, 16 + 2 * random.Below(24), random.Pick<uint64_t>({2, 4, 8}), random);
  const uint64_t at = header.e_shoff + sizeof(Elf64_Shdr) * random.Below(std::max<uint64_t>(1, header.e_shnum));
  if (at > bytes.size() || bytes.size() - at < sizeof(Elf64_Shdr)) return;
  if (random.OneIn(2)) {
    return ChangeNumber(bytes, at + random.Pick<uint64_t>({0, 4, 8, 16, 24, 32, 40, 44, 48, 56}),
                        random.Pick<uint64_t>({1, 4, 8}), random);
  }
  Elf64_Shdr section;
  std::memcpy(&section, &bytes[at], sizeof(section));
  if (section.sh_offset >= bytes.size() || section.sh_size == 0) return;
  const uint64_t entry = section.sh_type == SHT_SYMTAB || section.sh_type == SHT_RELA ? 24 : 1;
  const uint64_t number = random.Below(std::max<uint64_t>(1, section.sh_size / entry));
  ChangeNumber(bytes,
               section.sh_offset + entry * number + (entry == 1 ? 0 : random.Pick<uint64_t>({0, 4, 5, 6, 8, 12, 16})),
               random.Pick<uint64_t>({1, 2, 4, 8}), random);
}

// A section's head from another place, of this object or of the other.
void Splice(std::string& bytes, const std::string& other, Random& random) {
  const uint64_t length = random.Pick<uint64_t>({8, 24, 64, 128, 512});
  if (bytes.size() < length || other.size() < length) return;
  std::memcpy(&bytes[random.Below((bytes.size() - length) / 8 + 1) * 8],
              &other[random.Below((other.size() - length) / 8 + 1) * 8], length);
}

std::string Damaged(const std::string& whole, const std::string& other, Random& random) {
  std::string bytes = whole;
  for (uint64_t faults = random.OneIn(2) ? 1 : 2 + random.Below(6); faults > 0; --faults) {
    switch (random.Below(10)) {
      case 0: bytes[random.Below(bytes.size())] ^= static_cast<char>(1 << random.Below(8)); break;
      case 1: MutateBytes(bytes, random); break;
      case 2: bytes.resize(random.Below(bytes.size()) + 1); break;
      case 3: Splice(bytes, other, random); break;
      case 4: Splice(bytes, std::string(bytes), random); break;
      default: ChangeField(bytes, random); break;
    }
    if (bytes.empty()) bytes.push_back('\x7f');
  }
  return bytes;
}

TEST(DamagedObjects, AreRefusedOrLinked) {
  const std::vector<Object> whole = Objects();
  const auto linker = runtime::cpu::CreateLinker(/*profile=*/false);
  ASSERT_TRUE(linker.ok()) << linker.status();
  for (const Object& object : whole) {
    const auto linked = (*linker)->Link(object.bytes, object.symbols);
    ASSERT_TRUE(linked.ok()) << linked.status();
  }
  int linked = 0, refused = 0;
  for (int i = 0; i < objects; ++i) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    Random random(seed);
    const size_t which = seed % whole.size();
    const std::string bytes = Damaged(whole[which].bytes, whole[1 - which].bytes, random);
    const auto outcome = (*linker)->Link(bytes, whole[which].symbols);
    ++(outcome.ok() ? linked : refused);
    if (outcome.ok()) continue;
    EXPECT_EQ(DetailOf(outcome.status())->code(), v1::INTERNAL_FAULT) << outcome.status();
    EXPECT_FALSE(outcome.status().message().empty());
  }
  std::printf("%d linked, %d refused\n", linked, refused);
  // Some change nothing that is looked at, most do.
  EXPECT_GT(linked, objects / 100);
  EXPECT_GT(refused, objects / 3);
}

}  // namespace
}  // namespace kiln::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (absl::ConsumePrefix(&flag, "--objects=") && absl::SimpleAtoi(flag, &kiln::testing::objects)) continue;
    if (absl::ConsumePrefix(&flag, "--seed=") && absl::SimpleAtoi(flag, &kiln::testing::first_seed)) continue;
    std::fprintf(stderr, "objects takes --objects=N and --seed=S, not %s\n", argv[i]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
