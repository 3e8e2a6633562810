#include "tests/support/fake_hip/code_object_program.h"

#include <elf.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/amd/machine.h"
#include "tests/support/code_object.h"

namespace kiln::testing {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kUsualLanes = 64;

class CodeObject final : public fake_gpu::Program {
 public:
  CodeObject(std::string bytes, std::unique_ptr<amd::Module> code, std::map<std::string, Kernel> kernels)
      : bytes_(std::move(bytes)), code_(std::move(code)), kernels_(std::move(kernels)) {}

  const Kernel* Find(const std::string& name) const override {
    if (const auto found = kernels_.find(name); found != kernels_.end()) return &found->second;
    // A kernel is a descriptor that is called like it, with ".kd" behind.
    const std::string descriptor = std::string(1, '\0') + name + ".kd" + std::string(1, '\0');
    return bytes_.find(descriptor) == std::string::npos ? nullptr : &unknown_;
  }

  int Run(const std::string& name, const fake_gpu::Launch& launch, const std::vector<std::vector<char>>& parameters,
          const std::vector<fake_gpu::Range>&) const override {
    if (code_ == nullptr) return fake_gpu::kSuccess;
    std::vector<uint64_t> arguments(parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) std::memcpy(&arguments[i], parameters[i].data(), sizeof(uint64_t));
    const absl::Status status = code_->Launch(name, {launch.groups, launch.items}, arguments);
    if (status.ok()) return fake_gpu::kSuccess;
    // A card would say less.
    std::fprintf(stderr, "fake card: %s\n", status.ToString().c_str());
    return absl::IsOutOfRange(status) ? fake_gpu::kIllegalAddress : fake_gpu::kLaunchFailed;
  }

 private:
  const std::string bytes_;
  const std::unique_ptr<amd::Module> code_;
  const std::map<std::string, Kernel> kernels_;
  const Kernel unknown_;
};

// Nobody says how long it is: the table of sections ends it. Empty if it is no shared ELF of AMD's.
std::string BytesOf(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  constexpr uint16_t kAmdGpu = 224;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != kAmdGpu || header.e_type != ET_DYN) {
    return "";
  }
  return std::string(static_cast<const char*>(image), header.e_shoff + uint64_t{header.e_shentsize} * header.e_shnum);
}

std::string Read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The IR that `bytes` were made from, or nothing.
std::string FindIr(const std::string& bytes, const std::string& folder) {
  if (folder.empty()) return "";
  for (const fs::directory_entry& object : fs::recursive_directory_iterator(folder)) {
    if (!absl::EndsWith(object.path().string(), "object.o") || Read(object.path()) != bytes) continue;
    for (const fs::directory_entry& beside : fs::directory_iterator(object.path().parent_path())) {
      if (absl::EndsWith(beside.path().string(), "llvm.ll")) return Read(beside.path());
    }
  }
  return "";
}

using Kernels = std::map<std::string, fake_gpu::Program::Kernel>;

// As the IR has them, where the code object (`described`) says the same; what it does not describe, it need not.
absl::StatusOr<Kernels> Agreed(const std::map<std::string, amd::KernelNeeds>& written,
                               const std::map<std::string, KernelDescriptor>& described) {
  Kernels kernels;
  for (const auto& [name, needs] : written) {
    fake_gpu::Program::Kernel& kernel = kernels[name];
    kernel.parameter_bytes.assign(needs.parameters, sizeof(uint64_t));
    kernel.static_shared_bytes = static_cast<uint32_t>(needs.shared_bytes);
    if (needs.items != 0) kernel.max_items = needs.items;
    const auto found = described.find(name);
    if (found == described.end()) continue;
    if (found->second.arguments != needs.parameters * sizeof(uint64_t))
      return absl::InvalidArgumentError(absl::StrCat(name, " has other parameters than its IR"));
    if (found->second.group_segment < needs.shared_bytes)
      return absl::InvalidArgumentError(absl::StrCat(name, " has less shared memory than its IR"));
    kernel.static_shared_bytes = found->second.group_segment;
  }
  for (const auto& [name, descriptor] : described) {
    if (!kernels.contains(name)) return absl::InvalidArgumentError(absl::StrCat(name, " is not in the IR"));
  }
  return kernels;
}

absl::StatusOr<std::unique_ptr<fake_gpu::Program>> Load(std::string bytes, const std::string& ir) {
  if (ir.empty()) return std::make_unique<CodeObject>(std::move(bytes), nullptr, Kernels());
  // Of the least object that tests of the drivers make up, nothing can be read.
  const auto described = ReadKernelDescriptors(bytes).value_or(std::map<std::string, KernelDescriptor>());
  auto code = amd::Module::Load(ir, described.empty() ? kUsualLanes : described.begin()->second.lanes);
  if (!code.ok()) return code.status();
  auto kernels = Agreed((*code)->Kernels(), described);
  if (!kernels.ok()) return kernels.status();
  return std::make_unique<CodeObject>(std::move(bytes), *std::move(code), *std::move(kernels));
}

}  // namespace

std::unique_ptr<fake_gpu::Program> LoadCodeObject(const void* image, const std::string& folder, std::string& fault) {
  std::string bytes = BytesOf(image);
  if (bytes.empty()) {
    fault = "this is no shared object for AMD's GPUs";
    return nullptr;
  }
  const std::string ir = FindIr(bytes, folder);
  auto program = Load(std::move(bytes), ir);
  if (program.ok()) return *std::move(program);
  fault = std::string(program.status().message());
  return nullptr;
}

}  // namespace kiln::testing
