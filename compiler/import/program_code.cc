// Code of a client's own at import: refused, or taken where the server's owner allows
// it.
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/import/program_importer.h"
#include "compiler/import/weak.h"
#include "compiler/structure/code_text.h"

namespace kiln::compiler {
namespace {

// Ops that a client would have run code of its own by.
bool IsNativeCode(v1::Op op) {
  return op == v1::CUSTOM || op == v1::CUSTOMI || op == v1::INS || op == v1::SOURCE || op == v1::CUSTOM_FUNCTION;
}

}  // namespace

absl::Status ProgramImporter::RefuseCode(uint32_t index) const {
  const v1::Op op = wire(index).op();
  if (!IsNativeCode(op)) return absl::OkStatus();
  if (!limits_.allow_native_code) {
    return MakeError(v1::NOT_ALLOWED, absl::StrCat(v1::Op_Name(op),
                                                   " carries code of the client's own, which this server does not run; "
                                                   "one started with --allow_native_code might"));
  }
  if (op == v1::CUSTOM_FUNCTION) return MakeError(v1::NOT_ALLOWED, "this server lists no function of that name");
  if (has_list_ || op == v1::SOURCE) return absl::OkStatus();
  return MakeError(v1::UNSUPPORTED_OP, absl::StrCat(v1::Op_Name(op), " is an instruction of a LINEAR program alone"));
}

absl::StatusOr<UOp*> ProgramImporter::Code(uint32_t index, std::vector<UOp*> src) {
  const v1::UOp& node = wire(index);
  const auto bad = [&](absl::string_view text) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat(v1::Op_Name(node.op()), text));
  };
  if (node.arg_case() != v1::UOp::kText) return bad(" wants its code, a text");
  if (node.text().size() > kMaxCode) return bad(absl::StrCat(" has more than ", kMaxCode, " bytes of code"));
  if (!FillCode(node.text(), std::vector<std::string>(src.size())).has_value())
    return bad(absl::StrCat(" names a source beyond the ", src.size(), " that it has"));
  DType dtype = node.dtype() == v1::DTYPE_UNSPECIFIED ? DType::kVoid : FromWire(node.dtype());
  if (dtype == DType::kVoid && node.op() == v1::CUSTOMI) return bad(" wants a dtype: nothing else says it");
  if (dtype != DType::kVoid && (IsWeak(dtype) || !Info(dtype).supported))
    return bad(absl::StrCat(" of dtype ", Name(dtype)));
  for (UOp*& source : src) {
    KILN_ASSIGN_OR_RETURN(source, StrengthenByDefault(graph_, source));
  }
  return graph_.TryMake(dtype == DType::kVoid ? Op::CUSTOM : Op::CUSTOMI, src, CodeArg{dtype, node.text()});
}

absl::StatusOr<UOp*> ProgramImporter::Program(uint32_t index, const std::vector<UOp*>& src) {
  const v1::UOp& node = wire(index);
  UOp *linear = nullptr, *sink = nullptr;
  const v1::UOp* source = nullptr;
  for (int k = 0; k < node.src_size(); ++k) {
    const v1::UOp& part = wire(node.src(k));
    if (part.op() == v1::LINEAR) linear = src[k];
    if (part.op() == v1::SINK) sink = src[k];
    if (part.op() == v1::SOURCE) source = &part;
    if (part.op() == v1::BINARY) {
      return MakeError(limits_.allow_native_code ? v1::UNSUPPORTED_OP : v1::NOT_ALLOWED,
                       "PROGRAM with machine code (BINARY), which this server does not take; its LINEAR alone, or with "
                       "its SOURCE where that is allowed, is compiled here");
    }
  }
  const auto bad = [](absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); };
  if (linear == nullptr && sink == nullptr) return bad("PROGRAM wants a LINEAR, or a SINK, among its sources");
  if (source == nullptr) return linear == nullptr ? sink : linear;
  if (linear == nullptr)
    return bad("PROGRAM with a SOURCE wants a LINEAR, too: it says what the text takes and writes");
  if (index + 1 != static_cast<uint32_t>(wire_.nodes_size()))
    return bad("PROGRAM with a SOURCE is to be the graph's root");
  if (source->arg_case() != v1::UOp::kText || source->text().empty() || source->text().size() > kMaxSource)
    return bad(absl::StrCat("SOURCE wants its text, of at most ", kMaxSource, " bytes"));
  const auto* info = std::get_if<KernelArg>(&linear->arg());
  if (info == nullptr || info->name.empty()) return bad("the LINEAR of a PROGRAM with a SOURCE wants a name");
  KernelArg arg = *info;
  arg.source = source->text();
  return graph_.TryMake(Op::LINEAR, linear->src(), std::move(arg));
}

}  // namespace kiln::compiler
