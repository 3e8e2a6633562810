#include "client/play/handles.h"

#include <gtest/gtest.h>

namespace kiln::play {
namespace {

// A hash as hex, which no string keeps within itself.
std::string Program(uint64_t number) { return std::string(48, 'a') + std::to_string(number); }

TEST(HandlesTest, ACopyIsOfTheSameProgramHoweverManyThereAre) {
  Handles handles;
  handles.content(1).program = Program(1);
  for (uint64_t to = 2; to < 2000; ++to) {  // the table grows as each is noted
    handles.NoteCopy(to - 1, to);
    ASSERT_EQ(handles.content(to).program, Program(1));
  }
  handles.NoteCopy(5000, 1);
  EXPECT_EQ(handles.content(1).program, "");
}

}  // namespace
}  // namespace kiln::play
