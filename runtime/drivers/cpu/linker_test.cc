#include "runtime/drivers/cpu/linker.h"

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderGDB.h"
#include "runtime/drivers/cpu/symbols.h"
#include "runtime/testing/compile_ir.h"
#include "runtime/testing/programs.h"

// What gdb reads; LLVM defines it.
extern "C" jit_descriptor __jit_debug_descriptor;

namespace kiln::runtime::cpu {
namespace {

using KernelFn = void (*)(void* const*, int64_t, int64_t, const uint8_t* const* stop);

std::shared_ptr<Linker> NewLinker(bool profile = false) {
  auto linker = CreateLinker(profile);
  EXPECT_TRUE(linker.ok()) << linker.status();
  return *linker;
}

// Runs "add" of a linked KernelsObject.
float Add(const LinkedObject& object, float a, float b) {
  float out = 0;
  void* const buffers[] = {&out, &a, &b};
  reinterpret_cast<KernelFn>(object.addresses()[0])(buffers, 0, 1, nullptr);
  return out;
}

TEST(Linker, LinkedCodeRuns) {
  auto object = NewLinker()->Link(testing::KernelsObject(), {"add", "trunc_of"});
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(Add(**object, 2, 3), 5);
  float in = -5.75, out = 0;
  void* const buffers[] = {&out, &in};
  reinterpret_cast<KernelFn>((*object)->addresses()[1])(buffers, 0, 1, nullptr);
  EXPECT_EQ(out, -5);
}

TEST(Linker, ObjectsWithEqualSymbolsLiveSideBySide) {
  const std::shared_ptr<Linker> linker = NewLinker();
  auto first = linker->Link(testing::KernelsObject(), {"add"});
  auto second = linker->Link(testing::KernelsObject(), {"add"});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first)->addresses()[0], (*second)->addresses()[0]);
  first->reset();
  EXPECT_EQ(Add(**second, 1, 2), 3);
}

TEST(Linker, ObjectOutlivesTheLastReferenceToItsLinker) {
  std::shared_ptr<Linker> linker = NewLinker();
  auto object = linker->Link(testing::KernelsObject(), {"add"});
  linker.reset();
  EXPECT_EQ(Add(**object, 4, 4), 8);
}

TEST(Linker, RefusesMissingKernel) {
  auto object = NewLinker()->Link(testing::KernelsObject(), {"add", "nothing"});
  EXPECT_EQ(DetailOf(object.status())->code(), v1::INTERNAL_FAULT);
  EXPECT_TRUE(absl::StrContains(object.status().message(), "nothing")) << object.status();
}

TEST(Linker, RefusesBytesThatAreNoObject) {
  const std::shared_ptr<Linker> linker = NewLinker();
  for (const std::string& bytes :
       {std::string(), std::string("not an object"), testing::KernelsObject().substr(0, 70)}) {
    auto object = linker->Link(bytes, {"add"});
    EXPECT_EQ(DetailOf(object.status())->code(), v1::INTERNAL_FAULT) << bytes.size();
  }
  EXPECT_TRUE(linker->Link(testing::KernelsObject(), {"add"}).ok());
}

TEST(Linker, RefusesAFunctionThatIsNotAllowed) {
  // `system` is in this process, and exactly for that must not be found.
  const std::string object = testing::CompileIr(R"(
    declare i32 @system(ptr)
    define void @bad(ptr %b, i64 %begin, i64 %end, ptr %stop) {
      %r = call i32 @system(ptr %b)
      ret void
    })");
  auto linked = NewLinker()->Link(object, {"bad"});
  EXPECT_EQ(DetailOf(linked.status())->code(), v1::INTERNAL_FAULT);
  EXPECT_TRUE(absl::StrContains(linked.status().message(), "system")) << linked.status();
}

TEST(Linker, HalfConversionsLink) {
  // Without -mf16c these conversions are calls into libgcc.
  const std::string object = testing::CompileIr(R"(
    define void @round_trip(ptr %b, i64 %begin, i64 %end, ptr %stop) {
      %p = load ptr, ptr %b
      %x = load float, ptr %p
      %h = fptrunc float %x to half
      %y = fpext half %h to float
      store float %y, ptr %p
      ret void
    })");
  auto linked = NewLinker()->Link(object, {"round_trip"});
  ASSERT_TRUE(linked.ok()) << linked.status();
  float x = 1.0f + 1.0f / 4096;
  void* const buffers[] = {&x};
  reinterpret_cast<KernelFn>((*linked)->addresses()[0])(buffers, 0, 1, nullptr);
  EXPECT_EQ(x, 1.0f);
}

TEST(Linker, EveryHostSymbolHasAnAddress) {
  for (const HostSymbol& symbol : HostSymbols()) EXPECT_NE(symbol.address, nullptr) << symbol.name;
}

TEST(Linker, LinksAndUnloadsFromManyThreadsAtOnce) {
  const std::shared_ptr<Linker> linker = NewLinker();
  testing::KernelsObject();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        auto object = linker->Link(testing::KernelsObject(), {"add"});
        ASSERT_TRUE(object.ok()) << object.status();
        ASSERT_EQ(Add(**object, t, i), t + i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Linker, ProfiledCodeIsKnownToPerfAndGdb) {
  const std::string folder = ::testing::TempDir() + "/jitdump";
  setenv("JITDUMPDIR", folder.c_str(), 1);  // else the file goes to the home folder
  auto object = NewLinker(/*profile=*/true)->Link(testing::KernelsObject(), {"add"});
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(Add(**object, 2, 2), 4);
  EXPECT_NE(__jit_debug_descriptor.first_entry, nullptr);
  bool dumped = false;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    dumped |= entry.path().extension() == ".dump";
  }
  EXPECT_TRUE(dumped);
}

}  // namespace
}  // namespace kiln::runtime::cpu
