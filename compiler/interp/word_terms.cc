// Tested by tests/conformance/schedules/core_products_test.cc.
#include "compiler/interp/word_terms.h"

#include <string>

#include "compiler/interp/scalar.h"
#include "compiler/interp/tensor.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {

std::vector<uint64_t> WordsOf(absl::Span<const uint64_t> lanes, DType from, DType to) {
  std::string bytes(lanes.size() * static_cast<size_t>(ItemSize(from)), '\0');
  char* into = bytes.data();
  for (const uint64_t lane : lanes) {
    StoreElement(from, lane, into);
    into += ItemSize(from);
  }
  std::vector<uint64_t> words;
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(ItemSize(to)))
    words.push_back(LoadElement(to, bytes.data() + at));
  return words;
}

uint64_t TermOfWord(uint64_t word, int64_t t, DType narrow, DType wide) {
  const uint64_t bits = word >> (t * 8 * ItemSize(narrow));
  return EvalScalar(Op::CAST, narrow, wide, {WrapInt(narrow == DType::kBfloat16 ? DType::kUint16 : narrow, bits)});
}

uint64_t DotOfBytes(uint64_t u, uint64_t s, uint64_t sum) {
  for (int bits = 0; bits < 32; bits += 8)
    sum += static_cast<uint64_t>(int64_t{static_cast<uint8_t>(u >> bits)} * static_cast<int8_t>(s >> bits));
  return sum;
}

uint64_t DotOfBfloats(uint64_t u, uint64_t s, uint64_t sum) {
  const DType wide = DType::kFloat32;
  const auto at = [&](uint64_t word, int64_t t) { return TermOfWord(word, t, DType::kBfloat16, wide); };
  for (int64_t t : {0, 1})
    sum = EvalScalar(Op::ADD, wide, wide, {sum, EvalScalar(Op::MUL, wide, wide, {at(u, t), at(s, t)})});
  return sum;
}

}  // namespace kiln::compiler
