// Attention, and the rotation of queries and keys by their positions.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/attention.h"

#include <cmath>
#include <limits>

namespace kiln::onnx {

using namespace client;  // NOLINT: the builder's functions are this room's words

absl::StatusOr<Tensor> Heads(Node& node, Tensor x, int64_t heads) {
  if (x.rank() == 4) return x;
  KILN_ASSIGN_OR_RETURN(const int64_t hidden, node.Dim(x, 2));
  if (x.rank() != 3 || heads < 1 || hidden % heads != 0)
    return node.Bad(absl::StrCat(ShapeText(x.sizes()), " has no ", heads, " heads"));
  return Permute(Reshape(x, {x.size(0), x.size(1), heads, hidden / heads}), {0, 2, 1, 3});
}

Tensor Beside(Tensor heads) {
  if (!heads.valid()) return heads;
  return Reshape(Permute(heads, {0, 2, 1, 3}), {heads.size(0), heads.size(2), heads.size(1) * heads.size(3)});
}

Tensor Shared(Tensor x, int64_t times) {
  if (times == 1 || !x.valid()) return x;
  const Sizes shape = {x.size(0), x.size(1), times, x.size(2), x.size(3)};
  return Reshape(BroadcastTo(Unsqueeze(x, 2), shape), {x.size(0), x.size(1) * times, x.size(2), x.size(3)});
}

Tensor Rotated(Tensor heads, Tensor cosine, Tensor sine, int64_t turned, bool interleaved) {
  const Tensor first = Part(heads, 3, 0, turned);
  const Tensor a = interleaved ? Slice(first, 3, 0, turned, 2) : Part(first, 3, 0, turned / 2);
  const Tensor b = interleaved ? Slice(first, 3, 1, turned, 2) : Part(first, 3, turned / 2, turned);
  const Tensor real = cosine * a - sine * b, imaginary = sine * a + cosine * b;
  const Tensor result =
      interleaved ? Reshape(Stack({real, imaginary}, -1), first.sizes()) : Joined({real, imaginary}, 3);
  return heads.size(3) != turned ? Joined({result, Part(heads, 3, turned, heads.size(3))}, 3) : result;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A mask that is shorter than the keys forbids the rest.
absl::StatusOr<Tensor> Bias(Node& node, Tensor mask, const Size& keys, v1::DType dtype) {
  if (mask.rank() < 1) return node.Bad("a mask has axes");
  AxisRanges more(static_cast<size_t>(mask.rank()), {0, 0});
  more.back().second = keys - mask.size(-1);
  if (mask.dtype() == v1::BOOL) {
    const Tensor allowed = mask.size(-1) == 1 ? mask : Pad(mask, more);
    return Where(allowed, node.graph().Constant(0, dtype), node.graph().Constant(-kInfinity, dtype));
  }
  return mask.size(-1) == 1 ? Cast(mask, dtype) : Cast(Pad(mask, more, -kInfinity), dtype);
}

// softmax(q k^T * scale + bias) v. A query that may see no key gets zeros.
Result Attention(Node& node) {
  const Tensor query = node.In(0);
  KILN_ASSIGN_OR_RETURN(Tensor q, Heads(node, query, node.Int("q_num_heads")));
  KILN_ASSIGN_OR_RETURN(Tensor k, Heads(node, node.In(1), node.Int("kv_num_heads")));
  KILN_ASSIGN_OR_RETURN(Tensor v, Heads(node, node.In(2), node.Int("kv_num_heads")));
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) return node.Bad("queries, keys and values are of rank 3 or 4");
  KILN_ASSIGN_OR_RETURN(const int64_t width, node.Dim(q, 3));
  KILN_ASSIGN_OR_RETURN(const int64_t heads, node.Dim(q, 1));
  KILN_ASSIGN_OR_RETURN(const int64_t kv_heads, node.Dim(k, 1));
  if (kv_heads < 1 || heads % kv_heads != 0)
    return node.Bad(absl::StrCat(heads, " heads of queries for ", kv_heads, " of keys"));
  const v1::DType dtype = query.dtype();
  Size past = 0;
  if (node.Has(4) && node.Has(5)) {
    past = node.In(4).size(2);
    k = Joined({node.In(4), k}, 2);
    v = Joined({node.In(5), v}, 2);
  }
  if (!k.valid() || !v.valid()) return k.valid() ? v : k;
  const Tensor present_key = k, present_value = v;
  const Size queries = q.size(2), keys = k.size(2);
  k = Widened(Shared(k, heads / kv_heads));
  v = Shared(v, heads / kv_heads);
  q = Widened(q);
  const v1::DType wide = q.dtype();
  const double scale = node.Float("scale", 1 / std::sqrt(static_cast<double>(width))), root = std::sqrt(scale);
  Tensor scores = Matmul(q * root, Transpose(k * root));
  const Tensor raw = scores;
  const double cap = node.Float("softcap");
  if (cap > 0) scores = Tanh(scores * (1 / cap)) * cap;
  const Tensor capped = scores;

  // What may be seen, as something to add: the mask, the causal frontier, the window, what is no padding.
  Graph& graph = node.graph();
  Tensor bias;
  const auto add = [&](Tensor more) { bias = bias.valid() ? bias + more : more; };
  const auto forbid = [&](Tensor allowed) {
    add(Where(allowed, graph.Constant(0, wide), graph.Constant(-kInfinity, wide)));
  };
  if (node.Has(3)) {
    KILN_ASSIGN_OR_RETURN(const Tensor mask, Bias(node, node.In(3), keys, wide));
    add(mask);
  }
  const Tensor at_key = graph.Arange(keys, v1::INT64);
  Tensor at_query = Unsqueeze(graph.Arange(queries, v1::INT64), 1);
  if (node.Has(6) && !node.Has(4)) {
    at_query = at_query + Along(Cast(node.In(6), v1::INT64), 0, 4) - graph.Number(queries, v1::INT64);
  } else {
    at_query = at_query + graph.Number(past, v1::INT64);
  }
  if (node.Int("is_causal") != 0) forbid(at_key <= at_query);
  const int64_t left = node.Int("left_window_size", -1), right = node.Int("right_window_size", -1);
  if (left >= 0) forbid(at_query - at_key <= left);
  if (right >= 0) forbid(at_key - at_query <= right);
  if (node.Has(6)) forbid(at_key < Along(Cast(node.In(6), v1::INT64), 0, 4));
  if (bias.valid()) scores = scores + bias;
  const Tensor biased = scores;
  if (node.HasAttribute("softmax_precision")) {
    KILN_ASSIGN_OR_RETURN(const v1::DType precise, DTypeOf(static_cast<int>(node.Int("softmax_precision"))));
    if (precise == v1::FLOAT64) scores = Cast(scores, precise);
  }
  Tensor shares = Cast(Softmax(scores, -1), wide);
  if (bias.valid()) shares = Where(BroadcastAs(Max(bias, -1, true), shares) == -kInfinity, Filled(shares, 0), shares);
  Tensor result = Cast(Matmul(shares, Widened(v)), dtype);
  if (query.rank() == 3) result = Beside(result);

  const int64_t mode = node.Int("qk_matmul_output_mode");
  const Tensor shown = mode == 1 ? capped : mode == 2 ? biased : mode == 3 ? shares : raw;
  return std::vector<Tensor>{result, present_key, present_value, Cast(shown, dtype)};
}

// Pairs of elements are turned by an angle; the rest of each head stays.
Result RotaryEmbedding(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(Tensor heads, Heads(node, x, node.Int("num_heads")));
  KILN_ASSIGN_OR_RETURN(const int64_t width, node.Dim(heads, 3));
  int64_t turned = node.Int("rotary_embedding_dim");
  if (turned == 0) turned = width;
  if (turned < 2 || turned > width || turned % 2 != 0)
    return node.Bad(absl::StrCat("the first ", turned, " of ", width, " are no pairs"));
  const auto angles = [&](size_t i) {
    Tensor cache = node.In(i);
    if (node.Has(3)) cache = Embedding(cache, node.In(3));
    return Unsqueeze(cache, 1);  // (batch, 1, length, pairs)
  };
  const Tensor result = Rotated(heads, angles(1), angles(2), turned, node.Int("interleaved") != 0);
  return x.rank() == 3 ? Beside(result) : result;
}

// A state (keys by values) instead of scores: each turn it decays, takes in its key and value, and is read by its
// query.
Result LinearAttention(Node& node) {
  const int64_t heads = node.Int("q_num_heads"), kv_heads = node.Int("kv_num_heads");
  const std::string rule = node.Text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") return node.Bad("update_rule is linear, gated, delta or gated_delta");
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
    return node.Bad(absl::StrCat(heads, " heads of queries for ", kv_heads, " of keys"));
  if (gated != node.Has(4) || delta != node.Has(5)) return node.Bad("decay and beta are there where the rule has them");
  KILN_ASSIGN_OR_RETURN(Tensor q, Heads(node, node.In(0), heads));
  KILN_ASSIGN_OR_RETURN(Tensor k, Heads(node, node.In(1), kv_heads));
  KILN_ASSIGN_OR_RETURN(Tensor v, Heads(node, node.In(2), kv_heads));
  KILN_ASSIGN_OR_RETURN(const int64_t length, node.Dim(q, 2));
  KILN_ASSIGN_OR_RETURN(const int64_t width, node.Dim(k, 3));
  KILN_RETURN_IF_ERROR(node.CheckTurns(length));
  q = Cast(q, v1::FLOAT32);
  k = Cast(k, v1::FLOAT32);
  v = Cast(v, v1::FLOAT32);
  Tensor decay, beta;
  if (gated) {
    KILN_ASSIGN_OR_RETURN(decay, Heads(node, node.In(4), kv_heads));
    decay = Exp(Cast(decay, v1::FLOAT32));
  }
  if (delta) {
    KILN_ASSIGN_OR_RETURN(const int64_t betas, node.Dim(node.In(5), 2));
    KILN_ASSIGN_OR_RETURN(beta, Heads(node, node.In(5), betas == 1 ? 1 : kv_heads));
    beta = Cast(beta, v1::FLOAT32);
  }
  const double given = node.Float("scale"), scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(width));
  Tensor state = node.Has(3) ? Cast(node.In(3), v1::FLOAT32)
                             : node.graph().Zeros({k.size(0), kv_heads, width, v.size(3)}, v1::FLOAT32);
  std::vector<Tensor> rows;
  for (int64_t turn = 0; turn < length; ++turn) {
    const auto at = [&](Tensor x) { return Part(x, 2, turn, turn + 1); };  // (batch, heads, 1, width)
    if (gated) state = state * Transpose(at(decay));
    Tensor value = at(v);
    if (delta) value = at(beta) * (value - Matmul(at(k), state));
    state = state + Transpose(at(k)) * value;
    rows.push_back(Matmul(at(q), Shared(state, heads / kv_heads)) * scale);
    KILN_RETURN_IF_ERROR(node.graph().status());
  }
  if (rows.empty()) return node.Refuse("a sequence of nothing");
  const Tensor result = Permute(Joined(rows, 2), {0, 2, 1, 3});
  const v1::DType kept = node.Has(3) ? node.In(3).dtype() : node.In(0).dtype();
  return std::vector<Tensor>{
      Cast(Reshape(result, {result.size(0), result.size(1), result.size(2) * result.size(3)}), node.In(0).dtype()),
      Cast(state, kept)};
}

// A graph of the node's that makes one tensor of one, of the same shape and dtype. Without such an attribute nothing
// happens.
absl::StatusOr<Tensor> Modified(Node& node, absl::string_view name, Tensor x) {
  if (!node.HasAttribute(name)) return x;
  KILN_ASSIGN_OR_RETURN(const auto* graph, node.GraphOf(name));
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> made, node.Run(*graph, {Value(x)}));
  const Tensor result = made.size() == 1 ? made[0].tensor : Tensor();
  if (!result.valid() || result.sizes() != x.sizes())
    return node.Bad(absl::StrCat("its graph ", name, " gives no tensor of ", ShapeText(x.sizes())));
  return Cast(result, x.dtype());
}

// ai.onnx.preview: attention whose scores, and then shares, go through graphs of the node's own.
Result FlexAttention(Node& node) {
  const Tensor q = node.In(0), k = node.In(1), v = node.In(2);
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) return node.Bad("takes (batch, heads, length, size)");
  KILN_ASSIGN_OR_RETURN(const int64_t width, node.Dim(q, 3));
  KILN_ASSIGN_OR_RETURN(const int64_t heads, node.Dim(q, 1));
  KILN_ASSIGN_OR_RETURN(const int64_t kv_heads, node.Dim(k, 1));
  if (kv_heads < 1 || heads % kv_heads != 0)
    return node.Bad(absl::StrCat(heads, " heads of queries for ", kv_heads, " of keys"));
  v1::DType precise = Widened(q).dtype();
  if (node.HasAttribute("softmax_precision")) {
    KILN_ASSIGN_OR_RETURN(precise, DTypeOf(static_cast<int>(node.Int("softmax_precision"))));
  }
  if (!IsFloat(precise) || !IsFloat(q.dtype())) return node.Bad("takes floats, and softmax_precision is one of them");
  const int64_t times = heads / kv_heads;
  const double root = std::sqrt(node.Float("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, width)))));
  const Tensor product = Matmul(Widened(q) * root, Transpose(Shared(Widened(k) * root, times)));
  KILN_ASSIGN_OR_RETURN(const Tensor scores, Modified(node, "score_mod", Cast(Cast(product, q.dtype()), precise)));
  KILN_ASSIGN_OR_RETURN(const Tensor shares, Modified(node, "prob_mod", Cast(Softmax(Widened(scores), -1), precise)));
  return Cast(Matmul(Widened(Cast(shares, q.dtype())), Shared(Widened(v), times)), q.dtype());
}

constexpr OpRow kRows[] = {
    {"LinearAttention", 27, LinearAttention, 3, 6},
    {"Attention", 23, Attention, 3, 7},
    {"FlexAttention", 1, FlexAttention, 3, 3, kPreview},
    {"RotaryEmbedding", 23, RotaryEmbedding, 3, 4},
};

}  // namespace

OpRows AttentionOps() { return kRows; }

}  // namespace kiln::onnx
