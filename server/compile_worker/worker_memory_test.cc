#include "server/compile_worker/worker_memory.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

using Verdict = WorkerMemory::Verdict;

TrustDomain Of(const char* name) { return DomainOf("secret", name); }

TEST(WorkerMemory, WhatFitsGoesOn) {
  WorkerMemory memory(100);
  memory.Add(1, Of("a"));
  memory.Add(2, Of("b"));
  EXPECT_EQ(memory.Works(1, 60), Verdict::kGoOn);
  EXPECT_EQ(memory.Works(2, 40), Verdict::kGoOn);
  EXPECT_EQ(memory.used(), 100u);
  memory.Remove(1);
  EXPECT_EQ(memory.used(), 40u);
  EXPECT_EQ(memory.Works(2, 100), Verdict::kGoOn);
}

TEST(WorkerMemory, TheLargestOfWhoHasTheMostEnds) {
  WorkerMemory memory(100);
  for (uint64_t number : {1, 2, 3}) memory.Add(number, Of("many"));
  memory.Add(4, Of("one"));
  EXPECT_EQ(memory.Works(1, 20), Verdict::kGoOn);
  EXPECT_EQ(memory.Works(2, 30), Verdict::kGoOn);
  EXPECT_EQ(memory.Works(3, 10), Verdict::kGoOn);
  // The one that is too much goes on: its domain has less, though it is the largest of all.
  EXPECT_EQ(memory.Works(4, 50), Verdict::kGoOn);
  EXPECT_EQ(memory.Works(1, 20), Verdict::kGoOn);
  EXPECT_EQ(memory.Works(2, 30), Verdict::kEnd);
  // What it has counts no more, and it is told again until it is gone.
  EXPECT_EQ(memory.Works(4, 60), Verdict::kGoOn);
  EXPECT_EQ(memory.Works(2, 31), Verdict::kEnd);
  memory.Remove(2);
  EXPECT_EQ(memory.Works(4, 71), Verdict::kEnd);
}

TEST(WorkerMemory, WhoTakesTooMuchAloneEnds) {
  WorkerMemory memory(100);
  memory.Add(1, Of("a"));
  EXPECT_EQ(memory.Works(1, 101), Verdict::kEnd);
}

TEST(WorkerMemory, IdleOnesGoFirst) {
  WorkerMemory memory(100);
  memory.Add(1, Of("a"));
  memory.Add(2, Of("b"));
  EXPECT_EQ(memory.Works(2, 30), Verdict::kGoOn);
  memory.Waits(2, 30);
  EXPECT_EQ(memory.Works(1, 71), Verdict::kEndIdle);
  EXPECT_EQ(memory.Works(1, 71), Verdict::kEndIdle);
  memory.Remove(2);
  EXPECT_EQ(memory.Works(1, 71), Verdict::kGoOn);
}

// Jobs so short that nobody looks at them save nobody else.
TEST(WorkerMemory, WhoHasJustBegunIsNotIdle) {
  WorkerMemory memory(100);
  memory.Add(1, Of("a"));
  memory.Add(2, Of("b"));
  EXPECT_EQ(memory.Works(1, 101), Verdict::kEnd);
  memory.Remove(1);
  memory.Waits(2, 10);
  memory.Begins(2);
  memory.Add(3, Of("a"));
  EXPECT_EQ(memory.Works(3, 91), Verdict::kEnd);
}

TEST(WorkerMemory, OneThatDoesTheNextJobIsToEndNoMore) {
  WorkerMemory memory(100);
  memory.Add(1, Of("a"));
  memory.Add(2, Of("b"));
  EXPECT_EQ(memory.Works(1, 60), Verdict::kGoOn);
  EXPECT_EQ(memory.Works(2, 50), Verdict::kGoOn);
  // It was done before it was told.
  memory.Waits(1, 60);
  memory.Begins(1);
  memory.Remove(2);
  EXPECT_EQ(memory.Works(1, 60), Verdict::kGoOn);
}

TEST(WorkerMemory, WithoutALimitAllGoOn) {
  WorkerMemory memory(0);
  memory.Add(1, Of("a"));
  EXPECT_EQ(memory.Works(1, UINT64_MAX), Verdict::kGoOn);
}

}  // namespace
}  // namespace kiln::server
