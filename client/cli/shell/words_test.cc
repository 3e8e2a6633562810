#include "client/cli/shell/words.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kiln::cli {
namespace {

using Words = std::vector<std::string>;

class WordsTest : public ::testing::Test {
 protected:
  WordsTest() : app_("", "kiln") {
    app_.add_option("--server", text_);
    CLI::App* run = app_.add_subcommand("run", "");
    run->add_option("graph", text_);
    run->add_option("--input,-i", text_);
    run->add_flag("--random", flag_);
    CLI::App* graph = app_.add_subcommand("graph", "");
    graph->add_subcommand("print", "");
    graph->add_subcommand("hash", "");
    app_.add_subcommand("devices", "");
    app_.add_subcommand("hidden", "")->group("");
  }

  Words Complete(const Words& words) const { return Completions(app_, words); }
  std::string Meant(const Words& words) const { return Nearest(app_, words); }

  std::string text_;
  bool flag_ = false;
  CLI::App app_;
};

TEST_F(WordsTest, CommandsAndOptionsComeNext) {
  EXPECT_EQ(Complete({""}), (Words{"devices", "graph", "run"}));
  EXPECT_EQ(Complete({"d"}), Words{"devices"});
  EXPECT_EQ(Complete({"--s"}), Words{"--server"});
  EXPECT_EQ(Complete({"graph", ""}), (Words{"hash", "print"}));
  EXPECT_EQ(Complete({"--server", "a:1", "graph", "p"}), Words{"print"});
  EXPECT_EQ(Complete({"--server=a:1", "gr"}), Words{"graph"});
  EXPECT_EQ(Complete({"run", "-"}), (Words{"--help", "--input", "--random", "--server", "-h", "-i"}));
  EXPECT_EQ(Complete({"run", "model.pb", "--r"}), Words{"--random"});
}

TEST_F(WordsTest, WhereAValueOrAFileIsDueNothingIsSaid) {
  EXPECT_EQ(Complete({}), Words());
  EXPECT_EQ(Complete({"run", ""}), Words());
  EXPECT_EQ(Complete({"run", "--input", ""}), Words());
  EXPECT_EQ(Complete({"--server", "d"}), Words());
  EXPECT_EQ(Complete({"--server", "=", "d"}), Words());
  EXPECT_EQ(Complete({"--server", "=", "a", "d"}), Words{"devices"});
  EXPECT_EQ(Complete({"nonsense"}), Words());
}

TEST_F(WordsTest, WhatWasMeant) {
  EXPECT_EQ(Meant({"devcies"}), "devices");
  EXPECT_EQ(Meant({"--server", "x", "rn"}), "run");
  EXPECT_EQ(Meant({"graph", "prnt"}), "print");
  EXPECT_EQ(Meant({"run", "--ramdom"}), "--random");
  EXPECT_EQ(Meant({"run", "--sever=a:1"}), "--server");
  EXPECT_EQ(Meant({"run", "--random", "file"}), "");
  EXPECT_EQ(Meant({"something"}), "");
  EXPECT_EQ(Meant({}), "");
}

TEST(EditDistanceTest, CountsChanges) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("abc", "abc"), 0u);
  EXPECT_EQ(EditDistance("abc", "acb"), 1u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

}  // namespace
}  // namespace kiln::cli
