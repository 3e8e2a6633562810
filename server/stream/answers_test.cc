#include "server/stream/answers.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

AnswerPtr Of(uint64_t id, size_t bytes) {
  auto answer = std::make_shared<Answer>();
  answer->message.set_command_id(id);
  answer->message.set_data(std::string(bytes, 'x'));
  return answer;
}

uint64_t IdOf(const AnswerPtr& answer) { return answer == nullptr ? 0 : answer->message.command_id(); }

TEST(AnswersTest, TakenOnceAndForgotten) {
  Answers answers(/*keep=*/false, 1000);
  answers.Add(Of(1, 10));
  answers.Add(Of(2, 20));
  EXPECT_GE(answers.bytes(), 30u);
  EXPECT_EQ(IdOf(answers.Take()), 1u);
  EXPECT_EQ(IdOf(answers.Take()), 2u);
  EXPECT_EQ(answers.bytes(), 0u);
  answers.Rewind();
  EXPECT_EQ(answers.Take(), nullptr);
}

TEST(AnswersTest, KeptUntilAcknowledged) {
  Answers answers(/*keep=*/true, 1 << 20);
  for (uint64_t id = 1; id <= 4; ++id) answers.Add(Of(id, 10));
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(IdOf(answers.Take()), id);
  answers.Acknowledge(2);
  answers.Acknowledge(4);  // 4 has not been taken
  answers.Rewind();
  EXPECT_EQ(IdOf(answers.Take()), 4u);
  answers.Rewind();
  EXPECT_EQ(IdOf(answers.Take()), 4u);
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(answers.lost(), 0u);
}

TEST(AnswersTest, TheOldestGoesWhenTheyAreTooMany) {
  Answers answers(/*keep=*/true, 2 * Of(1, 100)->bytes());
  for (uint64_t id = 1; id <= 3; ++id) answers.Add(Of(id, 100));
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(IdOf(answers.Take()), id);
  EXPECT_EQ(answers.lost(), 1u);
  answers.Rewind();
  EXPECT_EQ(IdOf(answers.Take()), 2u);
}

}  // namespace
}  // namespace kiln::server
