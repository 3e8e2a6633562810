#include "client/cli/text/chrome_trace.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

// What the format calls processes: groups of lines.
constexpr int kCalls = 1, kDevices = 2;

std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
      quoted += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned char>(letter));
    } else {
      quoted += letter;
    }
  }
  return quoted + "\"";
}

// The format counts in microseconds.
std::string Micros(int64_t nanos) { return absl::StrFormat("%d.%03d", nanos / 1000, nanos % 1000); }

class Writer {
 public:
  explicit Writer(int64_t origin_ns) : origin_ns_(origin_ns) {}

  // `arguments`: pairs of JSON without the braces; may be empty.
  void Event(int group, int line, absl::string_view name, int64_t begin_ns, int64_t end_ns,
             absl::string_view arguments) {
    Add(absl::StrCat("{\"ph\":\"X\",\"cat\":\"kiln\",\"pid\":", group, ",\"tid\":", line, ",\"name\":", Quoted(name),
                     ",\"ts\":", Micros(begin_ns - origin_ns_),
                     ",\"dur\":", Micros(std::max<int64_t>(end_ns - begin_ns, 0)), ",\"args\":{", arguments, "}}"));
  }
  void NameGroup(int group, absl::string_view name) { Name("process_name", group, 0, name); }
  void NameLine(int group, int line, absl::string_view name) { Name("thread_name", group, line, name); }

  std::string Text() && { return absl::StrCat("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", events_, "\n]}\n"); }

 private:
  void Name(absl::string_view kind, int group, int line, absl::string_view name) {
    Add(absl::StrCat("{\"ph\":\"M\",\"cat\":\"__metadata\",\"ts\":0,\"pid\":", group, ",\"tid\":", line, ",\"name\":\"",
                     kind, "\",\"args\":{\"name\":", Quoted(name), "}}"));
  }
  void Add(absl::string_view event) { absl::StrAppend(&events_, events_.empty() ? "" : ",\n", event); }

  const int64_t origin_ns_;
  std::string events_;
};

int64_t FirstBegin(const v1::TraceResponse& trace) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const auto& call : trace.calls()) first = std::min<int64_t>(first, call.begin_ns());
  for (const auto& run : trace.runs()) first = std::min<int64_t>(first, run.begin_ns());
  return first;
}

std::string ArgumentsOf(const v1::TraceResponse::Call& call) {
  std::string text =
      absl::StrCat("\"status\":", call.status(), ",\"trace_id\":\"", absl::BytesToHexString(call.trace_id()),
                   "\",\"span_id\":\"", absl::BytesToHexString(call.span_id()), "\"");
  if (!call.parent_span_id().empty())
    absl::StrAppend(&text, ",\"parent_span_id\":\"", absl::BytesToHexString(call.parent_span_id()), "\"");
  if (!call.tenant().empty()) absl::StrAppend(&text, ",\"tenant\":", Quoted(call.tenant()));
  if (!call.device().empty()) absl::StrAppend(&text, ",\"device\":", Quoted(call.device()));
  return text;
}

// The first line that is free when the call begins; `ends` has what each line's last one ends at.
int LineFor(const v1::TraceResponse::Call& call, std::vector<int64_t>& ends) {
  size_t line = 0;
  while (line < ends.size() && ends[line] > call.begin_ns()) ++line;
  if (line == ends.size()) ends.push_back(0);
  ends[line] = call.end_ns();
  return static_cast<int>(line) + 1;
}

using Part = v1::TraceResponse::Part;

// What lies within another must do so to the nanosecond, or is drawn beside it. `drawn` is told of each part that is.
void WriteWithin(int64_t begin_ns, int64_t end_ns, const google::protobuf::RepeatedPtrField<Part>& parts, int line,
                 Writer& writer, absl::FunctionRef<void(const Part&, int64_t begin, int64_t end)> drawn) {
  for (const Part& part : parts) {
    const int64_t begin = std::max<int64_t>(part.begin_ns(), begin_ns), end = std::min<int64_t>(part.end_ns(), end_ns);
    if (end <= begin) continue;
    writer.Event(kCalls, line, part.name(), begin, end, part.failed() ? "\"failed\":true" : "");
    drawn(part, begin, end);
    begin_ns = end;
  }
}

void WriteCalls(const v1::TraceResponse& trace, Writer& writer) {
  std::vector<const v1::TraceResponse::Call*> calls;
  for (const auto& call : trace.calls()) calls.push_back(&call);
  std::sort(calls.begin(), calls.end(), [](const auto* a, const auto* b) { return a->begin_ns() < b->begin_ns(); });
  std::vector<int64_t> ends;
  for (const auto* call : calls) {
    const int line = LineFor(*call, ends);
    writer.Event(kCalls, line, call->method(), call->begin_ns(), call->end_ns(), ArgumentsOf(*call));
    const auto nothing = [](const Part&, int64_t, int64_t) {};
    WriteWithin(call->begin_ns(), call->end_ns(), call->parts(), line, writer,
                [&](const Part& part, int64_t begin, int64_t end) {
                  if (part.name() == "compile") WriteWithin(begin, end, call->stages(), line, writer, nothing);
                });
  }
  for (size_t line = 0; line < ends.size(); ++line)
    writer.NameLine(kCalls, static_cast<int>(line) + 1, absl::StrCat("calls ", line + 1));
}

void WriteRuns(const v1::TraceResponse& trace, Writer& writer) {
  struct Line {
    int number;
    int64_t end_ns = 0;
  };
  std::map<std::string, Line> lines;
  for (const auto& run : trace.runs()) {
    const std::string name = run.kernel().empty() ? run.device() : absl::StrCat(run.device(), " kernels");
    Line& line = lines.try_emplace(name, Line{static_cast<int>(lines.size()) + 1}).first->second;
    std::string arguments = absl::StrCat("\"launches\":", run.launches());
    if (!run.tenant().empty()) absl::StrAppend(&arguments, ",\"tenant\":", Quoted(run.tenant()));
    // A device tells of a run when it has ended, so two in a row may seem to overlap.
    const int64_t begin = std::min<int64_t>(std::max<int64_t>(run.begin_ns(), line.end_ns), run.end_ns());
    writer.Event(kDevices, line.number, run.kernel().empty() ? "run" : run.kernel(), begin, run.end_ns(), arguments);
    line.end_ns = run.end_ns();
  }
  for (const auto& [name, line] : lines) writer.NameLine(kDevices, line.number, name);
}

}  // namespace

std::string ChromeTrace(const v1::TraceResponse& trace) {
  Writer writer(FirstBegin(trace));
  writer.NameGroup(kCalls, "calls");
  writer.NameGroup(kDevices, "devices");
  WriteCalls(trace, writer);
  WriteRuns(trace, writer);
  return std::move(writer).Text();
}

}  // namespace kiln::cli
