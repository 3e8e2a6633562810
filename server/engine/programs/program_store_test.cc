#include "server/engine/programs/program_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace kiln::server {
namespace {

TEST(WeightOf, SmallModulesCountAsWhatTheyTakeOfTheirNumber) {
  constexpr uint64_t kLimit = uint64_t{1} << 30;
  EXPECT_EQ(WeightOf(100 << 20, 1, kLimit), 100u << 20);
  EXPECT_EQ(WeightOf(10, 1, kLimit), kLimit / kMaxModules);
  EXPECT_EQ(WeightOf(10, 7, kLimit), 7 * (kLimit / kMaxModules));
  EXPECT_EQ(WeightOf(10, 0, kLimit), 10u);
}

TEST(WeightOf, ACacheKeepsNoMoreModulesThanTheSystemHasMappingsFor) {
  constexpr uint64_t kLimit = uint64_t{1} << 30;
  runtime::ProgramCache<int> cache(kLimit);
  for (uint64_t i = 0; i < 3 * kMaxModules; ++i) {
    // A digest's first byte says which of the cache's parts it is for.
    Digest key;
    key.bytes[0] = static_cast<uint8_t>(i);
    std::memcpy(&key.bytes[8], &i, sizeof(i));
    cache.Put(key, {std::make_shared<int>(1), WeightOf(2000, 1, kLimit)});
  }
  EXPECT_LE(cache.List().size(), kMaxModules + 64);
  EXPECT_GE(cache.List().size(), kMaxModules - 64);
}

}  // namespace
}  // namespace kiln::server
