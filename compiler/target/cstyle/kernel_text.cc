#include "compiler/target/cstyle/kernel_text.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "compiler/ir/graph.h"
#include "compiler/program/list_rewrite.h"
#include "compiler/structure/code_text.h"
#include "compiler/target/cstyle/alu_text.h"
#include "compiler/target/cstyle/index_width.h"
#include "compiler/target/cstyle/inlining.h"
#include "compiler/target/cstyle/literal.h"

namespace kiln::compiler {
namespace {

// An expression longer than this gets a name: compilers bound how deep
// parentheses nest, and text must not grow with the square of a program.
constexpr size_t kLongestExpression = 200;

class KernelWriter {
 public:
  KernelWriter(Prelude& prelude, UOp* linear)
      : prelude_(prelude),
        dialect_(prelude.dialect()),
        linear_(linear),
        inlining_(linear),
        narrow_(NarrowIndices(linear)) {
    scopes_.emplace_back();
  }

  std::string Run(const std::string& symbol) {
    const std::string parameters = Parameters();
    std::map<std::string, const UOp*> coordinates;  // groups before items
    for (UOp* uop : linear_->src()) {
      if (uop->op() == Op::SPECIAL) coordinates.emplace(uop->arg_as<TextArg>().text, uop);
    }
    for (const auto& [name, special] : coordinates) DeclareSpecial(special);
    // Storage is there from the start, unless work items are loops: then it stands in them.
    const absl::flat_hash_set<const UOp*> listed(linear_->src().begin(), linear_->src().end());
    for (UOp* uop : Toposort(linear_)) {
      if (dialect_.HasWorkItems() || !listed.contains(uop)) DeclareBuffer(uop);
    }
    for (UOp* uop : linear_->src()) Write(uop);
    return absl::StrCat(dialect_.kernel_prefix, symbol, "(", parameters, ") {\n", body_, "}\n");
  }

 private:
  // -- Declarations

  using BufferKey = std::pair<AddrSpace, uint32_t>;
  static BufferKey KeyOf(const UOp* buffer) { return {buffer->addrspace(), buffer->arg_as<BufferArg>().slot}; }
  static std::string NameOf(const UOp* storage) { return absl::StrCat("data", storage->arg_as<BufferArg>().slot); }

  // bool has no one size among languages; in memory it is a byte.
  std::string MemoryType(DType dtype) { return prelude_.Type(dtype == DType::kBool ? DType::kUint8 : dtype); }

  std::string Parameters() {
    std::map<uint32_t, const UOp*> parameters;
    absl::flat_hash_set<uint32_t> written;
    for (UOp* uop : Toposort(linear_)) {
      if (uop->op() == Op::PARAM) parameters.emplace(uop->arg_as<BufferArg>().slot, uop);
      if (uop->op() != Op::STORE && uop->op() != Op::ATOMICADD) continue;
      const UOp* storage = PointedStorage(uop->src(0));
      if (storage != nullptr && storage->op() == Op::PARAM) written.insert(storage->arg_as<BufferArg>().slot);
    }
    std::vector<std::string> texts;
    for (const auto& [slot, param] : parameters) {
      if (param->addrspace() == AddrSpace::kAlu) {
        texts.push_back(
            absl::StrReplaceAll(dialect_.variable, {{"$T", prelude_.Type(param->dtype())}, {"$n", NameOf(param)}}));
        continue;
      }
      texts.push_back(absl::StrCat(written.contains(slot) ? "" : "const ", dialect_.global, MemoryType(param->dtype()),
                                   "* ", NameOf(param)));
    }
    if (!dialect_.last_params.empty()) texts.emplace_back(dialect_.last_params);
    return absl::StrJoin(texts, ", ");
  }

  void DeclareSpecial(const UOp* uop) {
    const std::string& name = uop->arg_as<TextArg>().text;
    const auto& spellings = absl::StartsWith(name, "g")   ? dialect_.group_id
                            : absl::StartsWith(name, "l") ? dialect_.item_id
                                                          : dialect_.global_id;
    const UOp* bound = uop->src(0);
    const std::string comment = bound->IsConst() ? absl::StrCat(" /* ", bound->const_int(), " */") : "";
    Line(absl::StrCat(TypeOf(uop), " ", name, " = ", spellings[static_cast<size_t>(name.back() - '0')], ";", comment));
    names_[uop] = {name, Printed(uop)};
  }

  // Storage of a work item begins as zeros; a group's is zeroed by instructions.
  void DeclareBuffer(const UOp* uop) {
    if (uop->op() != Op::BUFFER || !buffers_.emplace(KeyOf(uop), "").second) return;
    const bool local = uop->addrspace() == AddrSpace::kLocal;
    std::string& name = buffers_[KeyOf(uop)];
    name = absl::StrCat(local ? "temp" : "acc", buffers_.size() - 1);
    std::string text = absl::StrCat(local ? dialect_.local : "", MemoryType(uop->dtype()), " ", name);
    if (!uop->shape().empty()) absl::StrAppend(&text, "[", std::max<int64_t>(NumElements(uop->shape()), 1), "]");
    const bool zeroed = !local || dialect_.local.empty();
    if (zeroed) absl::StrAppend(&text, uop->shape().empty() ? " = 0" : " = {0}");
    Line(text + ";");
  }

  // -- Text

  void Line(const std::string& text) { absl::StrAppend(&body_, std::string(2 * scopes_.size(), ' '), text, "\n"); }

  DType Printed(const UOp* uop) const { return narrow_.contains(uop) ? DType::kInt32 : uop->dtype(); }
  std::string TypeOf(const UOp* uop) { return prelude_.Type(Printed(uop)); }

  std::string Fresh(const char* stem) { return absl::StrCat(stem, numbers_[stem]++); }

  void Open(const std::string& text) {
    Line(text + " {");
    scopes_.emplace_back();
  }
  void Close() {
    for (const UOp* uop : scopes_.back()) names_.erase(uop);
    scopes_.pop_back();
    Line("}");
  }

  // `uop`'s value where it is used.
  Expression Value(const UOp* uop) {
    if (uop->op() == Op::CONST)
      return {LiteralText(prelude_, Printed(uop), uop->arg_as<ConstArg>().bits), Printed(uop)};
    if (uop->op() == Op::PARAM) return {NameOf(uop), uop->dtype()};
    auto known = names_.find(uop);
    KILN_CHECK(known != names_.end());
    return known->second;
  }

  // Gives `uop` the value: a new name, its old one again, or none at all.
  void Define(const UOp* uop, Expression value, const char* stem, bool named, const std::string& type) {
    if (!named && value.text.size() <= kLongestExpression) {
      Remember(uop, std::move(value));
      return;
    }
    if (auto known = names_.find(uop); known != names_.end() && inlining_.IsRelisted(uop)) {
      Line(absl::StrCat(known->second.text, " = ", value.text, ";"));
      return;
    }
    const std::string name = Fresh(stem);
    Line(absl::StrCat(type, " ", name, " = ", value.text, ";"));
    Remember(uop, {name, value.dtype});
  }

  void Remember(const UOp* uop, Expression value) {
    names_[uop] = std::move(value);
    scopes_.back().push_back(uop);
  }

  // -- Places

  // "(data0+lidx0)", or the name of a scalar register.
  std::string Pointer(UOp* uop) {
    while (uop->op() == Op::AFTER) uop = uop->src(0);
    if (uop->op() == Op::BUFFER) return buffers_.at(KeyOf(uop));
    if (uop->op() == Op::PARAM) return NameOf(uop);
    return Value(uop).text;
  }

  void WritePointer(UOp* uop) {
    const UOp* offset = uop->src(1);
    if (!offset->shape().empty() && offset->op() == Op::STACK) offset = offset->src(0);
    if (uop->op() == Op::INDEX && !uop->src(1)->shape().empty()) return;  // its lanes have pointers of their own
    Expression value = Value(offset);
    if (inlining_.IsPassing(uop)) {
      const std::string name = Fresh("alu");
      Line(absl::StrCat(TypeOf(offset), " ", name, " = ", value.text, ";"));
      value.text = name;
    }
    Remember(uop, {absl::StrCat("(", Pointer(uop->src(0)), "+", value.text, ")"), uop->dtype()});
  }

  std::string Place(UOp* pointer, bool is_read) {
    UOp* bare = pointer;
    while (bare->op() == Op::AFTER) bare = bare->src(0);
    if (bare->op() == Op::BUFFER && bare->shape().empty()) return Pointer(bare);
    if (bare->op() == Op::BUFFER || bare->op() == Op::PARAM) return absl::StrCat("*(", Pointer(bare), "+0)");
    if (bare->shape().empty()) return absl::StrCat("*", Pointer(bare));
    return absl::StrCat("*((", is_read ? "const " : "", dialect_.global, VectorType(bare), "*)", Pointer(bare), ")");
  }

  std::string VectorType(const UOp* uop) {
    return absl::StrReplaceAll(dialect_.vector_type,
                               {{"$T", prelude_.Type(uop->dtype())}, {"$n", absl::StrCat(int64_t{uop->shape()[0]})}});
  }

  void WriteLoad(const UOp* uop) {
    if (inlining_.Uses(uop) == 0) return;
    std::string text = Place(uop->src(0), true);
    if (uop->dtype() == DType::kBool) text = absl::StrCat("(", text, "!=0)");
    if (uop->src().size() > 2)
      text = absl::StrCat("(", Value(uop->src(2)).text, "?", text, ":", Value(uop->src(1)).text, ")");
    const std::string type = uop->shape().empty() ? prelude_.Type(uop->dtype()) : VectorType(uop);
    Define(uop, {text, uop->dtype()}, "val", !inlining_.IsInlined(uop), type);
  }

  void WriteEffect(const UOp* uop) {
    const bool gated = uop->op() == Op::STORE && uop->src().size() > 2;
    if (gated) Open(absl::StrCat("if (", Value(uop->src(2)).text, ")"));
    const std::string value = Value(uop->src(1)).text;
    if (uop->op() == Op::STORE) {
      Line(absl::StrCat(Place(uop->src(0), false), " = ", value, ";"));
    } else {
      const bool local = PointedStorage(uop->src(0))->addrspace() == AddrSpace::kLocal;
      const absl::string_view space = local ? dialect_.local : dialect_.global;
      const std::string place = Pointer(uop->src(0));
      Line(absl::StrReplaceAll(dialect_.AtomicOf(uop->src(1)->dtype())->pattern,
                               {{"$0", place}, {"$1", value}, {"$s ", space}}));
    }
    if (gated) Close();
  }

  // -- Instructions

  void Write(UOp* uop) {
    if (IsElementwise(uop->op())) return WriteAlu(uop);
    switch (As<ProgramOp>(uop->op())) {
      case ProgramOp::BUFFER: return DeclareBuffer(uop);
      case ProgramOp::INDEX:
      case ProgramOp::SHRINK:
        if (inlining_.Uses(uop) == 0) return;
        return PointedStorage(uop) != nullptr ? WritePointer(uop) : WriteLane(uop);
      case ProgramOp::STACK: return WriteStack(uop);
      case ProgramOp::BITCAST: return WriteBitcast(uop);
      case ProgramOp::LOAD: return WriteLoad(uop);
      case ProgramOp::STORE:
      case ProgramOp::ATOMICADD: return WriteEffect(uop);
      case ProgramOp::RANGE: {
        const std::string name = Fresh("ridx");
        Open(absl::StrCat("for (", TypeOf(uop), " ", name, " = 0; ", name, " < ", Value(uop->src(0)).text, "; ", name,
                          "++)"));
        Remember(uop, {name, Printed(uop)});
        return;
      }
      case ProgramOp::END:
        for (size_t k = 1; k < uop->src().size(); ++k) Close();
        return;
      case ProgramOp::IF: return Open(absl::StrCat("if (", Value(uop->src(0)).text, ")"));
      case ProgramOp::ENDIF: return Close();
      case ProgramOp::BARRIER:
        if (!dialect_.barrier.empty()) Line(std::string(dialect_.barrier));
        return;
      case ProgramOp::CUSTOM:
      case ProgramOp::CUSTOMI: return WriteCode(uop);
      case ProgramOp::AFTER:  // what follows it in the list comes after it
      case ProgramOp::CONST:
      case ProgramOp::PARAM:
      case ProgramOp::SPECIAL:
      case ProgramOp::GROUP:
      case ProgramOp::SINK: return;
      // In no program as it is listed for this writer.
      case ProgramOp::PERMUTE:
      case ProgramOp::FLIP:
      case ProgramOp::RESHAPE:
      case ProgramOp::EXPAND:
      case ProgramOp::PAD:
      case ProgramOp::REPLICATED:
      case ProgramOp::REDUCE:
      case ProgramOp::LINEAR:
      case ProgramOp::WMMA: break;
    }
    KILN_CHECK(false);
  }

  void WriteAlu(const UOp* uop) {
    if (inlining_.Uses(uop) == 0) return;
    std::vector<Expression> operands;
    for (const UOp* source : uop->src()) operands.push_back(Value(source));
    // A conversion to the type that its operand has in the text is that operand.
    const bool same = uop->op() == Op::CAST && operands[0].dtype == Printed(uop) && inlining_.IsStable(uop->src(0));
    if (same && !inlining_.IsRelisted(uop)) return Remember(uop, operands[0]);
    Define(uop, AluText(prelude_, *uop, Printed(uop), operands), "alu", !inlining_.IsInlined(uop), TypeOf(uop));
  }

  // A client's own statement, or expression: that has a name, so that it is computed once.
  void WriteCode(const UOp* uop) {
    const bool statement = uop->op() == Op::CUSTOM;
    if (!statement && inlining_.Uses(uop) == 0) return;
    std::vector<std::string> sources;
    for (const UOp* source : uop->src()) {
      const std::string cast =
          Printed(source) == source->dtype() ? "" : absl::StrCat("(", prelude_.Type(source->dtype()), ")");
      sources.push_back(absl::StrCat("(", cast, Value(source).text, ")"));
    }
    const std::string text = *FillCode(uop->arg_as<CodeArg>().text, sources);
    if (statement) return Line(text + ";");
    Define(uop, {absl::StrCat("(", text, ")"), uop->dtype()}, "alu", true, TypeOf(uop));
  }

  void WriteBitcast(const UOp* uop) {
    if (inlining_.Uses(uop) == 0) return;
    const std::string name = Fresh("precast");
    Line(absl::StrCat(prelude_.Type(uop->src(0)->dtype()), " ", name, " = ", Value(uop->src(0)).text, ";"));
    Define(uop, {prelude_.Bitcast(uop->dtype(), name), uop->dtype()}, "alu", !inlining_.IsInlined(uop), TypeOf(uop));
  }

  void WriteLane(const UOp* uop) {
    const int64_t lane = uop->src(1)->const_int();
    KILN_CHECK(lane >= 0 && lane < 4);
    const std::string text = absl::StrCat(Value(uop->src(0)).text, ".", std::string(1, "xyzw"[lane]));
    Define(uop, {text, uop->dtype()}, "alu", inlining_.IsPassing(uop), prelude_.Type(uop->dtype()));
  }

  void WriteStack(const UOp* uop) {
    if (inlining_.Uses(uop) == 0 || IsWeak(uop->dtype())) return;
    std::vector<std::string> lanes;
    for (const UOp* source : uop->src()) lanes.push_back(Value(source).text);
    const std::string count = absl::StrCat(lanes.size());
    const std::string text =
        absl::StrReplaceAll(dialect_.vector_literal,
                            {{"$T", prelude_.Type(uop->dtype())}, {"$n", count}, {"$v", absl::StrJoin(lanes, ",")}});
    Define(uop, {text, uop->dtype()}, "alu", inlining_.IsPassing(uop), VectorType(uop));
  }

  Prelude& prelude_;
  const Dialect& dialect_;
  UOp* linear_;
  const Inlining inlining_;
  const absl::flat_hash_set<const UOp*> narrow_;
  std::string body_;
  std::vector<std::vector<const UOp*>> scopes_;  // what each open scope has named
  absl::flat_hash_map<const UOp*, Expression> names_;
  std::map<BufferKey, std::string> buffers_;
  std::map<std::string, int> numbers_;
};

}  // namespace

std::string KernelText(Prelude& prelude, UOp* linear, const std::string& symbol) {
  return KernelWriter(prelude, linear).Run(symbol);
}

}  // namespace kiln::compiler
