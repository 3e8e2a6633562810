// Code does not depend on what the process has compiled before: LLVM's options and lld's state are the process's.
#include <gtest/gtest.h>

#include <string>

#include "client/cpp/graph.h"
#include "client/cpp/nn.h"
#include "compiler/compile.h"
#include "runtime/drivers/cpu/probe_target.h"
#include "tests/conformance/gpu/products.h"

namespace kiln::testing {
namespace {

std::string CodeOf(const v1::Target& target) {
  Made made;
  made.graph.Output(Wide(made.Param(v1::FLOAT16, {128, 96}), made.Param(v1::FLOAT16, {96, 128})));
  const auto compiled = compiler::Compile(made.graph.Build().value(), target, {});
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return compiled.ok() ? compiled->object() : "";
}

TEST(SameCode, BeforeAndAfterACodeObjectWasLinked) {
  const v1::Target targets[] = {runtime::cpu::HostTarget(1).value(), TargetOf("sm_90a", 1), TargetOf("gfx942", 1)};
  std::string before[2];
  for (int i = 0; i < 2; ++i) before[i] = CodeOf(targets[i]);
  const std::string linked = CodeOf(targets[2]);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(CodeOf(targets[i]) == before[i]) << targets[i].arch();
  EXPECT_TRUE(CodeOf(targets[2]) == linked);
}

}  // namespace
}  // namespace kiln::testing
