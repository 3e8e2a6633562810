// hash_cases.txt and hash_vectors.json say the same, and what they say holds.
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "base/graph/graph_text.h"
#include "base/graph/hash_cases.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file) << path;
  return text.str();
}

std::vector<HashCase> Cases() {
  const auto cases = ParseHashCases(Read("tests/conformance/hash_cases.txt"));
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.ok() ? *cases : std::vector<HashCase>();
}

TEST(HashVectors, TheFileIsUpToDate) {
  const auto json = HashVectorsJson(Cases());
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json, Read("tests/conformance/hash_vectors.json")) << "after a wanted change: ./dev bless";
}

TEST(HashVectors, EqualExactlyWhereSaid) {
  std::map<std::string, GraphHash> by_name;
  std::map<GraphHash, std::string> first;
  for (const HashCase& item : Cases()) {
    if (!item.error.empty()) continue;
    const auto hash = HashGraph(item.graph);
    ASSERT_TRUE(hash.ok()) << item.name << ": " << hash.status();
    EXPECT_TRUE(by_name.emplace(item.name, *hash).second) << "two cases are called " << item.name;
    if (item.same_as.empty()) {
      EXPECT_TRUE(first.emplace(*hash, item.name).second) << item.name << " equals " << first[*hash];
    } else {
      ASSERT_TRUE(by_name.contains(item.same_as)) << item.name;
      EXPECT_EQ(hash->Hex(), by_name[item.same_as].Hex()) << item.name;
    }
  }
  EXPECT_GE(first.size(), 30u);
}

TEST(HashVectors, WhatHasNoHashIsRefusedAsSaid) {
  int refused = 0;
  for (const HashCase& item : Cases()) {
    if (item.error.empty()) continue;
    ++refused;
    const auto hash = HashGraph(item.graph);
    ASSERT_FALSE(hash.ok()) << item.name;
    EXPECT_EQ(v1::ErrorCode_Name(DetailOf(hash.status())->code()), item.error) << item.name << ": " << hash.status();
  }
  EXPECT_GE(refused, 30);
}

TEST(HashVectors, EveryCasePrintsAndParsesBack) {
  for (const HashCase& item : Cases()) {
    const auto back = ParseGraph(PrintGraph(item.graph));
    ASSERT_TRUE(back.ok()) << item.name << ": " << back.status();
    // Bytes, not fields: NaN differs from itself.
    EXPECT_EQ(back->SerializeAsString(), item.graph.SerializeAsString()) << item.name;
  }
}

}  // namespace
}  // namespace kiln
