#include "client/load/mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln::load {
namespace {

using ::testing::HasSubstr;

TEST(Mix, EveryFieldIsRead) {
  const auto mix = ParseMix(R"(
# Two tenants.
tenant web token_file=web.token connections=4
tenant batch
class lookup tenant=web graph=l.uop rate=2000.5 deadline=20ms arrivals=constant outstanding=8 arguments=inline
class feed	tenant=batch kind=upload bytes=4M   # tabs and comments
class fresh kind=compile graph=g.uop
)",
                            "m.load");
  ASSERT_TRUE(mix.ok()) << mix.status();
  EXPECT_TRUE(CheckMix(*mix).ok()) << CheckMix(*mix);
  ASSERT_EQ(mix->tenants.size(), 2u);
  EXPECT_EQ(mix->tenants[0].name, "web");
  EXPECT_EQ(mix->tenants[0].token_file, "web.token");
  EXPECT_EQ(mix->tenants[0].connections, 4u);
  EXPECT_EQ(mix->tenants[1].connections, 1u);
  ASSERT_EQ(mix->classes.size(), 3u);
  const ClassSpec& lookup = mix->classes[0];
  EXPECT_EQ(lookup.kind, Kind::kExecute);
  EXPECT_EQ(lookup.tenant, "web");
  EXPECT_EQ(lookup.graph, "l.uop");
  EXPECT_EQ(lookup.rate, 2000.5);
  EXPECT_EQ(lookup.deadline, absl::Milliseconds(20));
  EXPECT_EQ(lookup.spacing, Spacing::kConstant);
  EXPECT_EQ(lookup.outstanding, 8u);
  EXPECT_TRUE(lookup.inline_arguments);
  EXPECT_EQ(lookup.where, "m.load:5");
  EXPECT_EQ(mix->classes[1].kind, Kind::kUpload);
  EXPECT_EQ(mix->classes[1].bytes, 4u << 20);
  EXPECT_EQ(mix->classes[1].spacing, Spacing::kPoisson);
  EXPECT_EQ(mix->classes[2].deadline, absl::InfiniteDuration());
  EXPECT_EQ(mix->rate(), 2000.5 + 100 + 100);
}

// A bad line, and what its error says.
struct Bad {
  const char* line;
  const char* field;
  const char* says;
};

TEST(Mix, ErrorsNameTheFileTheLineAndTheField) {
  for (const Bad& bad : std::vector<Bad>{
           {"class a graph=g rate=fast", "rate", "m.load:3: rate: \"fast\" is not requests a second"},
           {"class a graph=g rate=0", "rate", "more than 0"},
           {"class a graph=g rate=inf", "rate", "at most 1000000"},
           {"class a graph=g speed=3", "speed", "m.load:3: speed: there is no such field; there are kind, graph"},
           {"class a graph=g rate=1 rate=2", "rate", "it is there twice"},
           {"class a graph=", "graph", "\"\" is not the name of a file"},
           {"class a graph=g deadline=20", "deadline", "a time, such as 20ms"},
           {"class a graph=g deadline=-1s", "deadline", "a time"},
           {"class a kind=upload bytes=4T", "bytes", "64K or 4M"},
           {"class a kind=upload bytes=99999999G", "bytes", "a number"},
           {"class a kind=guess", "kind", "\"guess\" is not execute, upload or compile"},
           {"class a outstanding=0", "outstanding", "from 1 to 65536"},
           {"tenant t connections=-1", "connections", "from 1 to 1024"},
           {"tenant t token=secret", "token", "there are token_file, connections"},
           {"class a graph", "", "graph: write FIELD=VALUE"},
           {"class graph=g", "", "the class has no name"},
           {"class <b> graph=g", "", "the name \"<b>\": write letters, digits"},
           {"class", "", "the class has no name"},
           {"tenants a", "", "m.load:3: a line begins with the word tenant or class"},
       }) {
    const auto mix = ParseMix(std::string("# first\n\n") + bad.line + "\n", "m.load");
    ASSERT_FALSE(mix.ok()) << bad.line;
    EXPECT_EQ(mix.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(DetailOf(mix.status())->field(), bad.field) << mix.status();
    EXPECT_THAT(std::string(mix.status().message()), HasSubstr(bad.says));
    EXPECT_THAT(std::string(mix.status().message()), HasSubstr("m.load:3"));
  }
}

TEST(Mix, WhatDoesNotGoTogetherIsRefused) {
  for (const Bad& bad : std::vector<Bad>{
           {"", "", "it has no class"},
           {"class a graph=g tenant=t", "tenant", "m.load:1: tenant: there is no line \"tenant t"},
           {"class a graph=g\nclass a graph=h", "", "m.load:2: the name a is taken"},
           {"tenant t\ntenant t\nclass a graph=g", "", "tenant t: the name is taken"},
           {"class a", "graph", "m.load:1: graph: it is missing"},
           {"class a kind=compile", "graph", "it is missing"},
           {"class a kind=upload graph=g", "graph", "an upload has none"},
       }) {
    const auto mix = ParseMix(bad.line, "m.load");
    ASSERT_TRUE(mix.ok()) << mix.status();
    const absl::Status status = CheckMix(*mix);
    ASSERT_FALSE(status.ok()) << bad.line;
    EXPECT_EQ(DetailOf(status)->field(), bad.field) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.says));
  }
}

TEST(Mix, AFileIsNamedWithoutItsFolderAndItsEnding) {
  EXPECT_EQ(NameOf("models/add.v2.uop"), "add.v2");
  EXPECT_EQ(NameOf("add"), "add");
  EXPECT_EQ(NameOf("a <b>.pb"), "a__b_");
}

}  // namespace
}  // namespace kiln::load
