#include "tests/reduce/trial.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "compiler/spec/program_spec.h"
#include "compiler/structure/entry.h"
#include "tests/fuzz/laws.h"
#include "tests/reduce/child.h"
#include "tests/support/arguments.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/guarded_buffer.h"

namespace kiln::testing {
namespace {

constexpr size_t kMaxResults = 10'000;

std::string CodeOf(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() ? v1::ErrorCode_Name(detail->code()) : std::string("NO_DETAIL");
}

// "slot decompose": what was broken, and by which pass.
std::string KindOfFault(const std::string& fault) {
  const std::string what = fault.substr(0, fault.find_first_of(" :\n"));
  const size_t end = fault.find(" made of\n");
  if (end == std::string::npos) return what;
  const size_t begin = fault.rfind(": ", end);
  return absl::StrCat(what, " ", begin == std::string::npos ? "" : fault.substr(begin + 2, end - begin - 2));
}

void Fit(const compiler::HostTensors& given, compiler::HostTensors& arguments) {
  for (auto& [slot, tensor] : arguments) {
    const auto found = given.find(slot);
    if (found == given.end() || found->second.dtype != tensor.dtype || found->second.bytes.empty()) continue;
    const std::string& bytes = found->second.bytes;
    for (size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = bytes[i % bytes.size()];
  }
}

// Compiles and runs between guard pages; what only one side of the buffers shows, the
// other run does.
absl::StatusOr<compiler::InterpResult> RunGuarded(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                                  bool& intact) {
  CpuEngine cpu(1);
  std::vector<std::shared_ptr<GuardedBuffer>> buffers;
  GuardedBuffer::Side side = GuardedBuffer::Side::kEnd;
  cpu.set_buffers([&](runtime::hal::Device& device, uint64_t bytes) {
    buffers.push_back(std::make_shared<GuardedBuffer>(&device, bytes, side));
    return buffers.back();
  });
  KILN_ASSIGN_OR_RETURN(const auto program, cpu.Load(graph, ExactOptions()));
  KILN_RETURN_IF_ERROR(cpu.RunLoaded(program, arguments).status());
  side = GuardedBuffer::Side::kBegin;
  auto result = cpu.RunLoaded(program, arguments);
  for (const auto& buffer : buffers) intact &= buffer->Intact();
  return result;
}

// What the child has to say of the candidate.
std::string Try(const v1::Graph& graph, const Trial& trial) {
  if (trial.question == Question::kFails) {
    const absl::Status status = CpuEngine(1).Load(graph, ExactOptions()).status();
    return status.ok() ? "" : absl::StrCat(CodeOf(status), "\n", status.message());
  }
  auto arguments = RandomArguments(graph, trial.seed);
  if (!arguments.ok()) return "";
  Fit(trial.arguments, *arguments);
  if (trial.question == Question::kBreaksLaws) {
    const std::string fault = LawFuzzer().CheckPassesOn(graph, *arguments, std::vector(kMaxResults, trial.tolerance));
    return KindOfFault(fault);
  }
  bool intact = true;
  const auto got = RunGuarded(graph, *arguments, intact);
  const auto want = RunInterpreted(graph, *arguments);
  if (trial.question == Question::kCrashes) return intact ? "" : "a write outside its buffers";
  if (trial.question != Question::kDiffers || (!got.ok() && !want.ok())) return "";
  if (!got.ok()) return absl::StrCat("the CPU alone fails: ", CodeOf(got.status()));
  if (!want.ok()) return absl::StrCat("the interpreter alone fails: ", CodeOf(want.status()));
  return CompareOutcomes(*got, *want, trial.tolerance).empty() ? "" : "values";
}

}  // namespace

std::string Answer(const v1::Graph& graph, const Trial& trial) {
  const ChildEnd end = RunInChild(
      [&](int descriptor) {
        WriteAll(descriptor, Try(graph, trial));
        return 0;
      },
      trial.seconds);
  switch (end.kind) {
    case ChildEnd::kTimedOut: return trial.question == Question::kHangs ? "not done in time" : "";
    case ChildEnd::kSignalled: return trial.question == Question::kCrashes ? absl::StrCat("signal ", end.code) : "";
    case ChildEnd::kExited: return end.output;
  }
  return "";
}

Property PropertyOf(const v1::Graph& whole, const Trial& trial) {
  const auto kind = [trial](const std::string& answer) {
    return trial.question == Question::kFails ? answer.substr(0, answer.find('\n')) : answer;
  };
  if (!trial.wanted.empty()) {
    return [trial, kind](const v1::Graph& graph) {
      const std::string answer = Answer(graph, trial);
      return kind(answer) == trial.wanted || answer.find(trial.wanted) != std::string::npos;
    };
  }
  const std::string first = kind(Answer(whole, trial));
  return [trial, kind, first](const v1::Graph& graph) { return !first.empty() && kind(Answer(graph, trial)) == first; };
}

Property PropertyOfCommand(const std::string& command, const std::string& file, double seconds) {
  const bool placed = command.find("{}") != std::string::npos;
  const std::string script = placed ? absl::StrReplaceAll(command, {{"{}", "\"$1\""}}) : command + " \"$1\"";
  return [=](const v1::Graph& graph) {
    std::ofstream(file) << PrintGraph(graph);
    const ChildEnd end = RunInChild(
        [&](int) {
          execl("/bin/sh", "sh", "-c", script.c_str(), "kiln_reduce", file.c_str(), nullptr);
          return 127;
        },
        seconds);
    return end.kind == ChildEnd::kExited && end.code == 0;
  };
}

namespace {

bool IsLegal(const v1::Graph& graph, double seconds) {
  const ChildEnd end = RunInChild(
      [&](int) {
        compiler::Graph nodes;
        const auto root = compiler::FromWire(graph, compiler::Limits(), nodes);
        if (!root.ok()) return 1;
        if (compiler::LevelOf(*root) != compiler::EntryLevel::kProgram) return 0;
        return compiler::VerifyProgram(*root, compiler::Limits(), &nodes).ok() ? 0 : 1;
      },
      seconds);
  return end.kind == ChildEnd::kExited && end.code == 0;
}

}  // namespace

Property AmongLegal(const v1::Graph& whole, Property property, double seconds) {
  if (!IsLegal(whole, seconds)) return property;
  return [=](const v1::Graph& graph) { return IsLegal(graph, seconds) && property(graph); };
}

std::vector<NodeType> DeriveTypesApart(const v1::Graph& graph, double seconds) {
  const ChildEnd end = RunInChild(
      [&](int descriptor) {
        for (const NodeType& type : DeriveTypes(graph))
          WriteAll(descriptor, absl::StrCat(static_cast<int>(type.dtype), " ", absl::StrJoin(type.shape, " "), "\n"));
        return 0;
      },
      seconds);
  std::vector<NodeType> types;
  if (end.kind != ChildEnd::kExited) return types;
  for (absl::string_view line : absl::StrSplit(end.output, '\n', absl::SkipEmpty())) {
    NodeType& type = types.emplace_back();
    int dtype = 0;
    for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      int64_t number = 0;
      if (!absl::SimpleAtoi(word, &number)) continue;
      if (word.data() == line.data()) {
        dtype = static_cast<int>(number);
      } else {
        type.shape.push_back(number);
      }
    }
    type.dtype = static_cast<v1::DType>(dtype);
  }
  return types;
}

}  // namespace kiln::testing
