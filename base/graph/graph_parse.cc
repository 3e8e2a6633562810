#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/const_text.h"
#include "base/graph/enum_text.h"
#include "base/graph/graph_text.h"
#include "base/graph/text_scanner.h"

namespace kiln {
namespace {

template <typename Repeated>
void Ints(TextScanner& in, Repeated* values) {
  in.List("(", ")", [&] { values->Add(in.Signed("an integer")); });
}

template <typename Repeated>
void Strings(TextScanner& in, Repeated* values) {
  in.List("(", ")", [&] { values->Add(in.Quoted("a string in quotes")); });
}

v1::AddrSpace Space(TextScanner& in) { return ParseEnum<v1::AddrSpace>(in, "GLOBAL, LOCAL, REG or ALU"); }
v1::Op Operation(TextScanner& in) { return ParseEnum<v1::Op>(in, "an op's name"); }

// `check` stands in for a dtype that is not said.
void Constant(TextScanner& in, v1::DType check, v1::ConstArg* arg) {
  v1::DType dtype = check;
  TakeDType(in, dtype);
  arg->set_dtype(dtype);
  ParseConstValue(in, *arg);
}

void Buffer(TextScanner& in, v1::DType check, v1::BufferArg* arg) {
  arg->set_slot(in.Unsigned32("a slot number"));
  arg->set_dtype(in.Take("dtype=") ? ExpectDType(in) : check);
  if (in.Take("device=")) Strings(in, arg->mutable_device());
  if (in.Take("space=")) arg->set_addrspace(Space(in));
  if (in.Take("name=")) arg->set_name(in.Quoted("a name in quotes"));
  if (in.Take("min=")) arg->set_min_value(in.Signed("an integer"));
  if (in.Take("max=")) arg->set_max_value(in.Signed("an integer"));
}

void Load(TextScanner& in, v1::LoadArg* arg) {
  if (in.Take("device=")) Strings(in, arg->mutable_device());
  if (in.Take("space=")) arg->set_addrspace(Space(in));
}

void Range(TextScanner& in, v1::RangeArg* arg) {
  Ints(in, arg->mutable_axis_id());
  if (in.Take("type=")) arg->set_type(ParseEnum<v1::AxisType>(in, "an axis type (GLOBAL, LOOP, REDUCE, …)", "AXIS_"));
}

void Opt(TextScanner& in, v1::OptOp* opt) {
  opt->set_kind(ParseEnum<v1::OptOp::Kind>(in, EnumNames<v1::OptOp::Kind>()));
  opt->set_axis(in.Signed("an axis"));
  Ints(in, opt->mutable_arg());
}

void Kernel(TextScanner& in, v1::KernelInfo* arg) {
  if (in.Take("name=")) arg->set_name(in.Quoted("a name in quotes"));
  if (in.Take("opts=")) in.List("(", ")", [&] { Opt(in, arg->add_opts()); });
  if (in.Take("nolocals")) arg->set_dont_use_locals(true);
}

void Wmma(TextScanner& in, v1::WmmaArg* arg) {
  in.Expect("(");
  arg->set_n(in.Signed("N"));
  in.Expect(",");
  arg->set_m(in.Signed("M"));
  in.Expect(",");
  arg->set_k(in.Signed("K"));
  in.Expect(")");
  if (in.Take("in=")) arg->set_dtype_in(ExpectDType(in));
  if (in.Take("out=")) arg->set_dtype_out(ExpectDType(in));
  if (in.Take("threads=")) arg->set_threads(in.Signed("a number of threads"));
  if (in.Take("upcast=")) in.List("(", ")", [&] { Ints(in, arg->add_upcast_axes()->mutable_axis()); });
  if (in.Take("reduce=")) Ints(in, arg->mutable_reduce_axes());
}

void View(TextScanner& in, v1::ViewArg::View* view) {
  in.Expect("{");
  in.Expect("shape=");
  Ints(in, view->mutable_shape());
  in.Expect("stride=");
  Ints(in, view->mutable_stride());
  in.Expect("offset=");
  view->set_offset(in.Signed("an offset"));
  if (in.Take("begin=")) Ints(in, view->mutable_mask_begin());
  if (in.Take("end=")) Ints(in, view->mutable_mask_end());
  in.Expect("}");
}

// ADD axes=(1)
bool AtReduction(TextScanner ahead) {
  ahead.Word("an op's name");
  return ahead.Take("axes=");
}

// What follows the sources: a form is told by its first word.
void Arg(TextScanner& in, v1::UOp& uop) {
  if (in.Take("slot=")) {
    Buffer(in, uop.dtype(), uop.mutable_buffer());
  } else if (in.Take("axes=")) {
    Ints(in, uop.mutable_axes()->mutable_axis());
  } else if (in.Take("flip=")) {
    v1::FlipArg* flip = uop.mutable_flip();
    in.List("(", ")", [&] { flip->add_axis(in.Take("1") || (in.Expect("0"), false)); });
  } else if (in.Take("fill=")) {
    v1::PadArg* pad = uop.mutable_pad();
    if (!in.PeekWord().empty()) Constant(in, uop.dtype(), pad->mutable_fill());
  } else if (in.Take("to=")) {
    uop.set_cast_to(ExpectDType(in));
  } else if (in.Take("index=")) {
    uop.set_index(in.Signed("an integer"));
  } else if (in.Take("load")) {
    Load(in, uop.mutable_load());
  } else if (in.Take("range=")) {
    Range(in, uop.mutable_range());
  } else if (in.Take("special=")) {
    uop.mutable_special()->set_name(in.Quoted("a name in quotes"));
  } else if (in.Take("kernel")) {
    Kernel(in, uop.mutable_kernel());
  } else if (in.Take("wmma=")) {
    Wmma(in, uop.mutable_wmma());
  } else if (in.Take("text=")) {
    uop.set_text(in.Quoted("text in quotes"));
  } else if (in.Take("data=")) {
    uop.set_data(in.QuotedBytes("bytes in quotes"));
  } else if (in.Take("views=")) {
    v1::ViewArg* views = uop.mutable_view();
    in.List("(", ")", [&] { View(in, views->add_view()); });
  } else if (in.Take("allreduce=")) {
    uop.mutable_all_reduce()->set_op(Operation(in));
    if (in.Take("device=")) Strings(in, uop.mutable_all_reduce()->mutable_device());
  } else if (in.Take("opt=")) {
    Opt(in, uop.mutable_opt());
  } else if (AtReduction(in)) {
    uop.mutable_reduce()->set_op(Operation(in));
    in.Expect("axes=");
    Ints(in, uop.mutable_reduce()->mutable_axis());
  } else {
    Constant(in, uop.dtype(), uop.mutable_constant());
  }
}

void Node(TextScanner& in, int index, v1::UOp& uop) {
  const std::string expected = absl::StrCat("node index ", index);
  TextScanner ahead = in;
  if (ahead.Unsigned32(expected) != static_cast<uint32_t>(index) || !ahead.ok()) {
    in.Fail(expected);
    return;
  }
  in.Unsigned32(expected);
  uop.set_op(Operation(in));
  if (in.Take(":")) uop.set_dtype(ExpectDType(in));
  if (in.Take("[")) {
    while (in.ok() && !in.Take("]")) {
      if (!uop.src().empty()) in.Expect(",");
      uop.add_src(in.Unsigned32("a source's node index"));
    }
  }
  if (in.ok() && !in.AtEnd() && !in.PeekIs('@')) Arg(in, uop);
  if (in.Take("@")) uop.set_tag(in.Quoted("a tag in quotes"));
}

absl::Status AtLine(size_t line, absl::string_view what) {
  return MakeError(v1::MALFORMED_MESSAGE, absl::StrCat("graph text, line ", line, ", ", what));
}

}  // namespace

absl::StatusOr<v1::Graph> ParseGraph(absl::string_view text) {
  if (text.size() > kMaxGraphText) {
    return TooLarge("graph text bytes", kMaxGraphText, text.size(),
                    absl::StrCat("graph text of ", text.size(), " bytes; the limit is ", kMaxGraphText));
  }
  v1::Graph graph;
  size_t line = 0;
  while (!text.empty()) {
    ++line;
    const size_t length = std::min(text.find('\n'), text.size());
    TextScanner in(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
    if (in.AtEnd()) continue;
    if (graph.nodes().empty() && in.Take("dialect")) {
      graph.set_dialect(ParseEnum<v1::Dialect>(in, "TINYSPEC_2026 or LEGACY_2025"));
    } else {
      const int index = graph.nodes_size();
      Node(in, index, *graph.add_nodes());
    }
    if (in.ok() && !in.AtEnd()) in.Fail("the end of the line, '@' and a tag, or '#' and a comment");
    if (!in.ok()) return AtLine(line, in.error());
  }
  return graph;
}

}  // namespace kiln
