// Tests that launch a kernel: it adds two rows of floats, and is compiled for the row's devices.
#ifndef KILN_TESTS_HAL_KERNEL_TEST_H_
#define KILN_TESTS_HAL_KERNEL_TEST_H_

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/ops.h"
#include "runtime/hal/module.h"
#include "tests/hal/hal_test.h"

namespace kiln::testing {

class KernelTest : public HalTest {
 protected:
  using HalTest::HalTest;

  // result 0 = parameter 0 + parameter 1, `count` floats each.
  v1::Executable Sum(int64_t count = 1000) {
    client::Graph graph;
    graph.Output(graph.Param(0, v1::FLOAT32, {count}) + graph.Param(1, v1::FLOAT32, {count}));
    const auto built = graph.Build();
    EXPECT_TRUE(built.ok()) << built.status();
    auto executable = machine_->Compile(*built, device().target());
    EXPECT_TRUE(executable.ok()) << executable.status();
    EXPECT_EQ(executable->kernels_size(), 1);
    return *std::move(executable);
  }
  std::unique_ptr<runtime::hal::Module> Load(const v1::Executable& executable, size_t number = 0) {
    auto module = device(number).LoadModule(executable);
    EXPECT_TRUE(module.ok()) << module.status();
    return module.ok() ? *std::move(module) : nullptr;
  }
  // The operands of a launch of Sum's only step.
  static std::vector<void*> Operands(const v1::Executable& sum, const BufferSlice& result, const BufferSlice& a,
                                     const BufferSlice& b) {
    std::vector<void*> operands;
    for (const v1::Operand& operand : sum.steps(0).operands()) {
      const bool is_result = operand.space() == v1::Operand::RESULT;
      operands.push_back((is_result ? result : operand.index() == 0 ? a : b).device_data());
    }
    return operands;
  }

  // Launches kernel 0 `times` times, as a program's run does; `launched_` counts those that ended well.
  absl::Status Launch(runtime::hal::Module& module, const std::vector<void*>& operands, uint32_t times = 1,
                      const runtime::hal::LaunchControl& control = {}, size_t number = 0) {
    const std::vector<runtime::hal::LaunchStep> steps(times, {0, 0, static_cast<uint32_t>(operands.size())});
    launched_ = 0;
    absl::Status status;
    InQueue(
        [&] {
          status = module.LaunchAll(steps, operands.data(), control, launched_);
          status.Update(device(number).FinishLaunches());
        },
        number);
    return status;
  }

  BufferSlice NewFloats(const std::vector<float>& values, size_t number = 0) {
    std::string bytes(4 * values.size(), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return NewWith(bytes, number);
  }
  std::vector<float> FloatsOf(const BufferSlice& slice, size_t number = 0) {
    const std::string bytes = BytesOf(slice, number);
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  // Checks a kernel's result, on devices that compute.
  void ExpectComputed(const BufferSlice& slice, const std::vector<float>& values) {
    if (Lacks(Feature::kCode) == nullptr) {
      EXPECT_TRUE(FloatsOf(slice) == values) << FloatsOf(slice)[0] << ", not " << values[0];
    }
  }
  // first, first + step, ...; all exact.
  static std::vector<float> Row(float first, float step, size_t count = 1000) {
    std::vector<float> row;
    for (size_t i = 0; i < count; ++i) row.push_back(first + step * static_cast<float>(i));
    return row;
  }

  uint32_t launched_ = 0;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_HAL_KERNEL_TEST_H_
