#include "server/engine/programs/combine_graph.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/dtype_names.h"
#include "base/graph/graph_text.h"

namespace kiln::server {
namespace {

using runtime::collective::Combination;
using runtime::collective::ReduceOp;

constexpr int64_t kItems = 256;  // of a group
constexpr int64_t kVectorBytes = 16;

// What the elements are stored as, and combined as.
struct Types {
  std::string item, accumulator;
  int64_t bytes;
};
Types TypesOf(v1::DType dtype) {
  const DTypeRow& row = RowOf(dtype);
  const int64_t bytes = row.bits / 8;
  // Any byte but 0 is true, so it is not loaded as a bool.
  if (row.kind == DTypeClass::kBool) return {"uint8", "bool", 1};
  const bool widened = row.kind == DTypeClass::kFloat && bytes < 4;
  return {std::string(row.name), widened ? "float32" : std::string(row.name), bytes};
}

class Builder {
 public:
  Builder(const Combination& combination, int64_t groups)
      : combination_(combination), types_(TypesOf(combination.dtype)), groups_(groups) {}

  v1::Graph Build() {
    const int64_t lanes = kVectorBytes / types_.bytes, items = groups_ * kItems;
    const int elements = Node(absl::StrCat("PARAM [", Node("STACK []"), "] slot=0 dtype=int64 space=ALU ",
                                           "name=\"elements\" min=0 max=", kMaxCombined));
    // An iteration of all items may begin with the last vector.
    const int shape = Node(absl::StrCat("STACK [", Weak(kMaxCombined + items * lanes), "]"));
    const auto storage = [&](uint32_t slot) {
      return Node(absl::StrCat("PARAM [", shape, "] slot=", slot, " dtype=", types_.item));
    };
    for (uint32_t i = 0; i < combination_.outputs; ++i) outputs_.push_back(storage(1 + i));
    for (uint32_t i = 0; i < combination_.inputs; ++i) inputs_.push_back(storage(1 + combination_.outputs + i));

    const int group = Do("SPECIAL", {Int(groups_)}, "special=\"gidx0\"");
    const int item = Do("ADD", {Do("MUL", {group, Int(kItems)}), Do("SPECIAL", {Int(kItems)}, "special=\"lidx0\"")});
    const int vectors = Do("FLOORDIV", {elements, Int(lanes)});
    const int iterations = Do("FLOORDIV", {Do("ADD", {vectors, Int(items - 1)}), Int(items)});
    const int iteration = Do("RANGE", {iterations}, "range=(0) type=LOOP");
    const int vector = Do("ADD", {Do("MUL", {iteration, Int(items)}), item});
    const int whole = Do("IF", {Do("CMPLT", {vector, vectors})});
    const int first = Do("MUL", {vector, Int(lanes)}), count = Weak(lanes);
    Combine([&](int of) { return Node(absl::StrCat("SHRINK [", of, ", ", first, ", ", count, "]")); });
    Do("ENDIF", {whole});
    Do("END", {whole, iteration});
    const int last = Do("ADD", {Do("MUL", {vectors, Int(lanes)}), item});
    const int left = Do("IF", {Do("CMPLT", {last, elements})});
    Combine([&](int of) { return Node(absl::StrCat("INDEX [", of, ", ", last, "]")); });
    Do("ENDIF", {left});

    const auto graph =
        ParseGraph(absl::StrCat(text_, nodes_, " LINEAR [", absl::StrJoin(list_, ", "), "] kernel name=\"combine\"\n"));
    KILN_CHECK(graph.ok());
    return *graph;
  }

 private:
  int Node(const std::string& node) {
    absl::StrAppend(&text_, nodes_, " ", node, "\n");
    return nodes_++;
  }
  // An instruction.
  int Do(const std::string& op, const std::vector<int>& sources, const std::string& arg = "") {
    list_.push_back(Node(absl::StrCat(op, " [", absl::StrJoin(sources, ", "), "] ", arg)));
    return list_.back();
  }
  int Int(int64_t value) { return Node(absl::StrCat("CONST [] int64 ", value)); }
  int Weak(int64_t value) { return Node(absl::StrCat("CONST [] weakint ", value)); }

  // What lies at `place(storage)` of all inputs, to all outputs.
  template <typename Place>
  void Combine(const Place& place) {
    int result = -1;
    for (const int input : inputs_) {
      const int next = Widened(Do("LOAD", {Listed(place(input))}));
      result = result < 0 ? next : Of(result, next);
    }
    result = types_.accumulator == types_.item ? result : Do("CAST", {result}, absl::StrCat("to=", types_.item));
    for (const int output : outputs_) Do("STORE", {Listed(place(output)), result});
  }
  int Listed(int node) {
    list_.push_back(node);
    return node;
  }
  int Widened(int loaded) {
    if (types_.accumulator == types_.item) return loaded;
    return Do("CAST", {loaded}, absl::StrCat("to=", types_.accumulator));
  }
  int Of(int a, int b) {
    const bool is_bool = types_.accumulator == "bool";
    switch (combination_.op) {
      case ReduceOp::kSum: return Do(is_bool ? "OR" : "ADD", {a, b});
      case ReduceOp::kProd: return Do(is_bool ? "AND" : "MUL", {a, b});
      case ReduceOp::kMax: break;
    }
    if (is_bool) return Do("OR", {a, b});
    // As the host's loops have it, word by word: MAX may give either zero of two, and another NaN.
    const int greater = Do("WHERE", {Do("CMPLT", {b, a}), a, b});
    if (RowOf(combination_.dtype).kind != DTypeClass::kFloat) return greater;
    return Do("WHERE", {Do("CMPNE", {a, a}), a, greater});
  }

  const Combination& combination_;
  const Types types_;
  const int64_t groups_;
  std::string text_;
  int nodes_ = 0;
  std::vector<int> list_, outputs_, inputs_;
};

}  // namespace

v1::Graph CombineGraph(const Combination& combination, uint32_t groups) { return Builder(combination, groups).Build(); }

}  // namespace kiln::server
