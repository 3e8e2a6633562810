// Compiled for the CPU, a row that runs with others has the very bits that it has alone. The interpreter has its turn
// in random_rows_test.cc; here, sums in another order would differ.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/options/options.h"
#include "tests/batch/row_models.h"
#include "tests/batch/scheduled.h"
#include "tests/support/arguments.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

using compiler::HostTensors;

constexpr int64_t kTokensGiven = 3;

// Floats of many digits in place of integers.
void Spread(HostTensors& tensors, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (auto& [slot, tensor] : tensors) {
    if (tensor.dtype != compiler::DType::kFloat32) continue;
    for (size_t i = 0; i < tensor.bytes.size(); i += sizeof(float)) {
      const float value = (static_cast<float>(random() >> 40) / static_cast<float>(1 << 24) - 0.5f) * 3;
      std::memcpy(tensor.bytes.data() + i, &value, sizeof(value));
    }
  }
}

class CompiledRows : public ::testing::Test {
 protected:
  // What differs if each row runs alone, or a few together, in place of all `rows`.
  std::string Difference(const v1::Graph& graph, int64_t rows) {
    auto program = engine_.Load(graph, {});
    if (!program.ok()) return std::string(program.status().message());
    const auto arguments = [&](int64_t count) {
      return *RandomArguments(graph, 1, {{kBatch, count}, {kTokens, kTokensGiven}});
    };
    const auto run = [&](const HostTensors& given, int64_t count) {
      auto result = engine_.RunLoaded(*program, given, {{kBatch, count}, {kTokens, kTokensGiven}});
      EXPECT_TRUE(result.ok()) << result.status();
      return result.ok() ? result->results : std::vector<compiler::HostTensor>();
    };
    HostTensors all = arguments(rows);
    Spread(all, 2);
    const auto whole = run(all, rows);
    for (const int64_t count : {int64_t{1}, int64_t{3}, rows / 2}) {
      HostTensors some = arguments(count);
      for (int64_t first = 0; first + count <= rows; first += count) {
        for (auto& [slot, mine] : some) {
          const std::string& from = all.at(slot).bytes;
          const bool varies = mine.bytes.size() != from.size();
          mine.bytes = varies ? from.substr(from.size() / rows * first, mine.bytes.size()) : from;
        }
        const auto part = run(some, count);
        for (size_t i = 0; i < whole.size(); ++i) {
          const std::string& from = whole.at(i).bytes;
          const bool varies = part.at(i).bytes.size() != from.size();
          if (part.at(i).bytes != (varies ? from.substr(from.size() / rows * first, part.at(i).bytes.size()) : from))
            return absl::StrCat("result ", i, " of rows ", first, " to ", first + count - 1, " of ", rows);
        }
      }
    }
    return "";
  }

  CpuEngine engine_;
};

TEST_F(CompiledRows, OfModelsHaveTheBitsThatTheyHaveAlone) {
  for (const RowModel& model : RowModels()) {
    const v1::Graph graph = GraphOf(model);
    for (const int64_t rows : {6, 17, 64}) EXPECT_EQ(Difference(graph, rows), "") << model.name;
  }
}

TEST_F(CompiledRows, OfRandomProgramsHaveTheBitsThatTheyHaveAlone) {
  int allowed = 0;
  for (uint64_t seed = 0; allowed < 40; ++seed) {
    const v1::Graph graph = MakeRowGraph(seed, static_cast<int>(seed % 3), false);
    if (!Scheduled(graph).BatchingOf(kBatch).row_wise()) continue;
    ++allowed;
    EXPECT_EQ(Difference(graph, 6), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace kiln::testing
