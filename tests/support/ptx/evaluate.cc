#include "tests/support/ptx/evaluate.h"

#include "absl/strings/str_cat.h"

namespace kiln::testing::ptx {
namespace {

std::string Register(const char* row, int bits) {
  return absl::StrCat(bits == 1 ? "%p" : bits == 16 ? "%h" : bits == 32 ? "%r" : "%d", row);
}

}  // namespace

std::string KernelOf(const std::string& body) {
  return absl::StrCat(R"(
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(
	.param .u64 .ptr .global .align 16 k_param_0,
	.param .u64 .ptr .global .align 16 k_param_1
)
{
	.reg .pred 	%p<20>;
	.reg .b16 	%h<20>;
	.reg .b32 	%r<60>;
	.reg .b64 	%d<40>;
	.reg .b64 	%out, %in;
	.shared .align 16 .b8 memory[1024];
	ld.param.b64 	%out, [k_param_0];
	ld.param.b64 	%in, [k_param_1];
	mov.u32 	%r0, %tid.x;
)",
                      body, "\n\tret;\n}\n");
}

absl::Status RunBody(const std::string& body, uint32_t items, std::vector<uint32_t>& out,
                     const std::vector<uint32_t>& in, const LaunchLimits& limits) {
  const auto module = Module::Parse(KernelOf(body));
  if (!module.ok()) return module.status();
  const auto out_address = reinterpret_cast<uint64_t>(out.data()), in_address = reinterpret_cast<uint64_t>(in.data());
  LaunchShape shape;
  shape.items[0] = items;
  shape.dynamic_shared_bytes = 1024;
  return (*module)->Launch(*(*module)->Find("k"), shape, {&out_address, &in_address},
                           {{out_address, out.size() * 4, true}, {in_address, in.size() * 4, false}}, limits);
}

absl::StatusOr<uint64_t> Evaluate(const std::string& opcode, int bits, const std::vector<Value>& sources) {
  std::string body, instruction = absl::StrCat(opcode, " ", Register("0", bits));
  for (size_t n = 0; n < sources.size(); ++n) {
    const std::string number = absl::StrCat(n + 1), name = Register(number.c_str(), sources[n].bits);
    absl::StrAppend(&instruction, ", ", name);
    if (sources[n].bits == 1) {
      absl::StrAppend(&body, "setp.ne.b32 ", name, ", ", sources[n].value, ", 0;\n");
    } else {
      absl::StrAppend(&body, "mov.b", sources[n].bits, " ", name, ", ", sources[n].value, ";\n");
    }
  }
  absl::StrAppend(&body, instruction, ";\n");
  if (bits == 1) {
    absl::StrAppend(&body, "selp.b64 %d0, 1, 0, %p0;\n");
  } else if (bits == 16) {
    absl::StrAppend(&body, "cvt.u64.u16 %d0, %h0;\n");
  } else if (bits == 32) {
    absl::StrAppend(&body, "cvt.u64.u32 %d0, %r0;\n");
  }
  absl::StrAppend(&body, "st.global.b64 [%out], %d0;");
  std::vector<uint32_t> out(4);
  const absl::Status ran = RunBody(body, 1, out);
  if (!ran.ok()) return ran;
  return uint64_t{out[1]} << 32 | out[0];
}

}  // namespace kiln::testing::ptx
