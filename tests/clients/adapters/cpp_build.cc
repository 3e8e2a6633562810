// `build`: a graph by the client's functions that make tensors of tensors. A call is [name, argument…]; {"value": 2} is
// what call 2 made.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype_names.h"
#include "base/error.h"
#include "client/cpp/ops.h"
#include "tests/clients/adapters/cpp_adapter.h"

namespace kiln::adapter {
namespace {

using client::AxisRanges;
using client::Operand;
using client::Shape;
using client::Tensor;

// One call: what it is given, and what it makes of that.
class Builder {
 public:
  explicit Builder(const Json& calls) : calls_(calls) {}

  Answer Built() {
    for (const Json& call : calls_) {
      const auto found = Functions().find(call[0].get<std::string>());
      if (found == Functions().end()) return Bad(absl::StrCat("build has no ", call[0].get<std::string>()));
      call_ = &call;
      values_.push_back((this->*found->second)());
    }
    KILN_ASSIGN_OR_RETURN(const v1::Graph graph, graph_.Build());
    return Json{{"graph", Encoded(graph.SerializeAsString())}};
  }

 private:
  using Function = Tensor (Builder::*)();

  static const std::map<std::string, Function>& Functions() {
    static const auto* const functions = new std::map<std::string, Function>{
        {"param", &Builder::Param}, {"output", &Builder::Output}, {"update", &Builder::Update},
        {"cast", &Builder::Cast}, {"reshape", &Builder::Reshape}, {"permute", &Builder::Permute},
        {"broadcast", &Builder::Broadcast}, {"pad", &Builder::Pad}, {"shrink", &Builder::Shrink},
        {"flip", &Builder::Flip}, {"sum", &Builder::Sum}, {"max", &Builder::Max}, {"softmax", &Builder::Softmax},
        {"where", &Builder::Where}, {"matmul", &Builder::Of<&client::Matmul>}, {"negative", &Builder::Of<&client::Neg>},
        {"exp", &Builder::Of<&client::Exp>}, {"log", &Builder::Of<&client::Log>}, {"sqrt", &Builder::Of<&client::Sqrt>},
        {"sin", &Builder::Of<&client::Sin>}, {"reciprocal", &Builder::Of<&client::Reciprocal>},
        {"relu", &Builder::Of<&client::Relu>}, {"tanh", &Builder::Of<&client::Tanh>},
        {"add", &Builder::Of<&client::operator+ >}, {"subtract", &Builder::Of<&client::Sub>},
        {"multiply", &Builder::Of<&client::operator*>}, {"divide", &Builder::Of<&client::Div>},
        {"maximum", &Builder::Of<&client::Maximum>},
        {"less", &Builder::Of < &client::operator<> },
         {
             "equal",
             &Builder::Of < &client::operator==> },
        };
    return *functions;
  }

  template <Tensor (*function)(Tensor)>
  Tensor Of() {
    return function(ValueAt(1));
  }
  template <Tensor (*function)(Tensor, Tensor)>
  Tensor Of() {
    return function(ValueAt(1), ValueAt(2));
  }
  template <Tensor (*function)(const Operand&, const Operand&)>
  Tensor Of() {
    return function(OperandAt(1), OperandAt(2));
  }

  const Json& At(size_t at) const { return (*call_)[at]; }
  Tensor ValueAt(size_t at) const { return values_[At(at)["value"].get<size_t>()]; }
  Operand OperandAt(size_t at) const {
    if (At(at).is_object()) return ValueAt(at);
    if (At(at).is_number_integer()) return At(at).get<int64_t>();
    return At(at).get<double>();
  }
  Shape ShapeAt(size_t at) const { return At(at).get<Shape>(); }
  AxisRanges RangesAt(size_t at) const {
    AxisRanges ranges;
    for (const Json& row : At(at)) ranges.emplace_back(row[0].get<int64_t>(), row[1].get<int64_t>());
    return ranges;
  }
  v1::DType DTypeAt(size_t at) const { return ParseDType(At(at).get<std::string>()).value_or(v1::DTYPE_UNSPECIFIED); }

  Tensor Param() { return graph_.Param(params_++, DTypeAt(3), ShapeAt(2), At(1).get<std::string>()); }
  Tensor Output() {
    graph_.Output(ValueAt(1));
    return Tensor();
  }
  Tensor Update() {
    graph_.Update(ValueAt(1), ValueAt(2));
    return Tensor();
  }
  Tensor Cast() { return client::Cast(ValueAt(1), DTypeAt(2)); }
  Tensor Reshape() { return client::Reshape(ValueAt(1), ShapeAt(2)); }
  Tensor Permute() { return client::Permute(ValueAt(1), ShapeAt(2)); }
  Tensor Broadcast() { return client::BroadcastTo(ValueAt(1), ShapeAt(2)); }
  Tensor Pad() { return client::Pad(ValueAt(1), RangesAt(2), At(3).get<int64_t>()); }
  Tensor Shrink() { return client::Shrink(ValueAt(1), RangesAt(2)); }
  Tensor Flip() { return client::Flip(ValueAt(1), {At(2).get<int64_t>()}); }
  Tensor Sum() { return client::Sum(ValueAt(1), ShapeAt(2)); }
  Tensor Max() { return client::Max(ValueAt(1), ShapeAt(2)); }
  Tensor Softmax() { return client::Softmax(ValueAt(1), At(2).get<int64_t>()); }
  Tensor Where() { return client::Where(ValueAt(1), OperandAt(2), OperandAt(3)); }

  const Json& calls_;
  const Json* call_ = nullptr;
  client::Graph graph_;
  uint32_t params_ = 0;
  std::vector<Tensor> values_;
};

}  // namespace

Answer Build(const Json& ask) { return Builder(ask["calls"]).Built(); }

}  // namespace kiln::adapter
