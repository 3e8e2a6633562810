// The table of all ops (op_table.txt) is complete and true, and docs/ops.md says
// the same. With KILN_BLESS set to the source tree, this writes docs/ops.md.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

constexpr char kTable[] = "tests/conformance/op_table.txt";
constexpr char kDocument[] = "docs/ops.md";

struct Row {
  std::string op, entry, how, file, words, test_file, test;
};

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<Row> ReadTable() {
  std::vector<Row> rows;
  for (absl::string_view line : absl::StrSplit(ReadFile(kTable), '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "#")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    EXPECT_EQ(cells.size(), 7u) << line;
    if (cells.size() == 7) rows.push_back({cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6]});
  }
  return rows;
}

v1::Op OpOf(const Row& row) {
  v1::Op op = v1::OP_UNSPECIFIED;
  EXPECT_TRUE(v1::Op_Parse(row.op, &op)) << row.op;
  return op;
}

std::string DocumentOf(const std::vector<Row>& rows) {
  std::string text =
      "# Every op, and how a graph may use it\n\n"
      "Written by `./dev bless` from `tests/conformance/op_table.txt`, which `tests/conformance/op_table_test.cc` "
      "holds "
      "true. **core**: an op of the compiler's IR (`compiler/ir/ops.def`). **spelling**: read as core ops. "
      "**refused**: "
      "answered with an error that names it.\n\n"
      "| op | enters | as, or why not | the test that shows it |\n|---|---|---|---|\n";
  for (const Row& row : rows) {
    absl::StrAppend(&text, "| ", row.op, " | ", row.entry, " | ", row.how, " | `", row.test_file, "`: ", row.test,
                    " |\n");
  }
  return text;
}

TEST(OpTable, EveryOpHasOneRow) {
  std::multiset<std::string> rows;
  for (const Row& row : ReadTable()) rows.insert(row.op);
  for (int number = 1; number < v1::Op_ARRAYSIZE; ++number) {
    if (v1::Op_IsValid(number)) {
      EXPECT_EQ(rows.count(v1::Op_Name(static_cast<v1::Op>(number))), 1u) << number;
    }
  }
}

TEST(OpTable, CoreOpsAreThoseOfTheIr) {
  for (const Row& row : ReadTable()) {
    EXPECT_EQ(row.entry == "core", IsCoreOp(OpOf(row))) << row.op;
    EXPECT_TRUE(row.entry == "core" || row.entry == "spelling" || row.entry == "refused") << row.op;
  }
}

// By any number of sources, with or without an argument of some form.
TEST(OpTable, WhatIsRefusedIsRefused) {
  for (const Row& row : ReadTable()) {
    if (row.entry != "refused") continue;
    for (int sources = 0; sources <= 2; ++sources) {
      v1::Graph wire;
      v1::UOp* constant = wire.add_nodes();
      constant->set_op(v1::CONST);
      constant->mutable_constant()->set_dtype(v1::INT32);
      constant->mutable_constant()->set_i(1);
      v1::UOp* node = wire.add_nodes();
      node->set_op(OpOf(row));
      for (int k = 0; k < sources; ++k) node->add_src(0);
      Graph graph;
      const auto read = FromWire(wire, Limits(), graph);
      ASSERT_FALSE(read.ok()) << row.op << " with " << sources << " sources";
      EXPECT_TRUE(DetailOf(read.status()).has_value()) << row.op;
    }
  }
}

TEST(OpTable, EachTestExistsAndUsesTheOp) {
  for (const Row& row : ReadTable()) {
    EXPECT_TRUE(absl::StrContains(ReadFile(row.file), row.words))
        << row.op << ": no \"" << row.words << "\" in " << row.file;
    const std::vector<std::string> name = absl::StrSplit(row.test, '.');
    ASSERT_EQ(name.size(), 2u) << row.op;
    EXPECT_TRUE(absl::StrContains(ReadFile(row.test_file), absl::StrCat("(", name[0], ", ", name[1], ")")))
        << row.op << ": no test " << row.test << " in " << row.test_file;
  }
}

TEST(OpTable, TheDocumentSaysTheSame) {
  const std::string document = DocumentOf(ReadTable());
  if (const char* source_tree = std::getenv("KILN_BLESS")) {
    std::ofstream(absl::StrCat(source_tree, "/", kDocument)) << document;
    return;
  }
  EXPECT_EQ(ReadFile(kDocument), document) << "./dev bless writes it anew";
}

}  // namespace
}  // namespace kiln::compiler
