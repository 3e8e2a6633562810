#include "compiler/target/llvm/values/strided_load.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"

namespace kiln::compiler {
namespace {

// Shuffles of more than one register's worth are taken apart badly by LLVM.
constexpr unsigned kPieceBits = 512;
constexpr int kAnything = -1;  // in a shuffle

class StridedLoad {
 public:
  StridedLoad(llvm::IRBuilder<>& builder, llvm::Type* scalar, int64_t step, llvm::Align align)
      : builder_(builder), scalar_(scalar), step_(step), align_(align) {}

  // `lanes` of them, which one register holds; `gate` may be null.
  llvm::Value* Piece(llvm::Value* address, int lanes, llvm::Value* gate) {
    const auto stride = static_cast<int>(std::abs(step_));
    const int span = (lanes - 1) * stride + 1;  // elements from the first in memory to the last
    if (step_ < 0) address = At(address, -(span - 1));
    llvm::Value* result = nullptr;
    for (int part = 0; part < stride; ++part) {
      // The last vector ends where the last element does, not behind it.
      const int from = part + 1 < stride ? part * lanes : span - lanes;
      std::vector<int> picks(static_cast<size_t>(lanes), kAnything), wanted_by(static_cast<size_t>(lanes), lanes);
      for (int lane = 0; lane < lanes; ++lane) {
        const int place = (step_ < 0 ? lanes - 1 - lane : lane) * stride;
        if (place / lanes < part) picks[static_cast<size_t>(lane)] = lane;  // it is there already
        if (place / lanes != part) continue;
        picks[static_cast<size_t>(lane)] = (part == 0 ? 0 : lanes) + place - from;
        wanted_by[static_cast<size_t>(place - from)] = lane;
      }
      llvm::Value* loaded = Load(At(address, from), lanes, gate, wanted_by);
      result = builder_.CreateShuffleVector(result == nullptr ? loaded : result, loaded, picks);
    }
    return result;
  }

 private:
  llvm::Value* At(llvm::Value* address, int64_t elements) {
    return elements == 0 ? address : builder_.CreateConstGEP1_64(scalar_, address, static_cast<uint64_t>(elements));
  }

  // One vector; of a gated one, only elements that are wanted by a lane whose gate holds.
  llvm::Value* Load(llvm::Value* address, int lanes, llvm::Value* gate, const std::vector<int>& wanted_by) {
    auto* type = llvm::FixedVectorType::get(scalar_, static_cast<unsigned>(lanes));
    if (gate == nullptr) return builder_.CreateAlignedLoad(type, address, align_);
    llvm::Value* none = llvm::Constant::getNullValue(gate->getType());
    return builder_.CreateMaskedLoad(type, address, align_, builder_.CreateShuffleVector(gate, none, wanted_by),
                                     llvm::PoisonValue::get(type));
  }

  llvm::IRBuilder<>& builder_;
  llvm::Type* const scalar_;
  const int64_t step_;
  const llvm::Align align_;
};

std::vector<int> Count(int from, int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = from + i;
  return numbers;
}

}  // namespace

bool IsShortStep(int64_t step) { return step == -1 || (std::abs(step) >= 2 && std::abs(step) <= 4); }

llvm::Value* LoadStrided(llvm::IRBuilder<>& builder, llvm::Type* scalar, llvm::Value* address, int64_t step,
                         int64_t lanes, llvm::Align align, llvm::Value* gate, llvm::Value* otherwise) {
  StridedLoad load(builder, scalar, step, align);
  const auto all = static_cast<int>(lanes);
  const auto most = static_cast<int>(kPieceBits / static_cast<unsigned>(scalar->getPrimitiveSizeInBits()));
  llvm::Value* result = nullptr;
  for (int done = 0; done < all; done += most) {
    const int count = std::min(most, all - done);
    llvm::Value* first =
        done == 0 ? address : builder.CreateConstGEP1_64(scalar, address, static_cast<uint64_t>(done * step));
    llvm::Value* part_of_gate =
        gate == nullptr || count == all ? gate : builder.CreateShuffleVector(gate, Count(done, count));
    llvm::Value* piece = load.Piece(first, count, part_of_gate);
    if (done == 0) {
      result = piece;
      continue;
    }
    // Behind what is there: shuffles need equal lengths.
    std::vector<int> longer = Count(0, count), both = Count(0, done + count);
    longer.resize(static_cast<size_t>(done), kAnything);
    result = builder.CreateShuffleVector(result, builder.CreateShuffleVector(piece, longer), both);
  }
  return gate == nullptr ? result : builder.CreateSelect(gate, result, otherwise);
}

}  // namespace kiln::compiler
