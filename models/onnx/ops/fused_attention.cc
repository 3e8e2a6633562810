// Attention as onnxruntime's optimizer writes it: com.microsoft's ops for what exporters made of a dozen standard ones.
//
// All of them are softmax(q k^T * scale + bias) v, and differ in where q, k and v come from and in how a caller says
// which keys a query may see. What is masked gets `mask_filter_value` added, a number that is far below all scores but
// no infinity: of a row in which all is masked, softmax then makes what the scores alone would give, and no NaN.
//
// Tested by tests/onnx/fused_test.py.
#include <cmath>
#include <limits>

#include "models/onnx/ops/attention.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Of heads, and of the pairs that a head is turned by: more than any row has elements are a mistake, and products with
// them must not overflow.
constexpr int64_t kMaxHeads = int64_t{1} << 20;

bool AreHeads(int64_t heads) { return heads >= 1 && heads <= kMaxHeads; }

struct Scoring {
  double scale;
  Tensor bias = {};  // float32 or float64, broadcast to the scores; invalid where there is none
  double cap = 0;
  // One score a head for a key without a value: it takes its share of the softmax and gives nothing.
  Tensor sink = {};
};

// All are (batch, heads, length, size), and so is the result.
Tensor Attended(Tensor q, Tensor k, Tensor v, const Scoring& scoring) {
  Tensor scores = Matmul(Widened(q) * scoring.scale, Transpose(Widened(k)));
  if (scoring.cap > 0) scores = Tanh(scores * (1 / scoring.cap)) * scoring.cap;
  if (scoring.bias.valid()) scores = scores + scoring.bias;
  if (!scoring.sink.valid()) return Cast(Matmul(Softmax(scores, -1), Widened(v)), q.dtype());
  const Tensor most = Maximum(Max(scores, -1, true), scoring.sink), shares = Exp(scores - most);
  return Cast(Matmul(shares / (Sum(shares, -1, true) + Exp(scoring.sink - most)), Widened(v)), q.dtype());
}

// The attribute `scale`, where 0 stands for what it is by itself.
double ScaleOf(Node& node, int64_t size) {
  const double given = node.Float("scale");
  return given != 0 ? given : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, size)));
}

// 0 where `seen`, else so much less.
Tensor Less(Tensor seen, double amount, v1::DType dtype) {
  if (!seen.valid()) return seen;
  return Where(seen, seen.graph()->Constant(0, dtype), seen.graph()->Constant(amount, dtype));
}

// Keys that are no padding, as something to add to scores of (batch, heads, queries, keys): by how many there are
// (batch), by where they end and then where they begin (2 * batch), or one by one (batch, keys), (batch, queries,
// keys).
absl::StatusOr<Tensor> Padding(Node& node, Tensor mask, const Size& batch, const Size& keys, v1::DType dtype) {
  const double less = node.Float("mask_filter_value", -10000);
  const Tensor given = Cast(mask, v1::INT64);
  if (mask.rank() == 2) return Less(Unsqueeze(Unsqueeze(given, 1), 1) > 0, less, dtype);
  if (mask.rank() == 3) return Less(Unsqueeze(given, 1) > 0, less, dtype);
  if (mask.rank() != 1)
    return node.Refuse(absl::StrCat("a mask of ", ShapeText(mask.sizes()), "; rank 1, 2 or 3 is taken"));
  const Tensor at = node.graph().Arange(keys, v1::INT64);
  if (mask.size(0) == batch) return Less(at < Along(given, 0, 4), less, dtype);
  if (mask.size(0) != batch * 2)
    return node.Refuse(absl::StrCat("a mask of ", ShapeText(mask.sizes()), " for a batch of ", batch.Text()));
  const Tensor end = Part(given, 0, 0, batch), begin = Part(given, 0, batch, batch * 2);
  // A beginning after the last key is there where a row is empty.
  return Less((at < Along(end, 0, 4)) & (at >= Along(begin, 0, 4)), less, dtype);
}

// What is left to do once queries, keys and values are heads: the op's mask, its bias, and the causal frontier.
struct Inputs {
  Tensor q, k, v, mask, bias;
  Size past = 0;
};

absl::StatusOr<Tensor> Masked(Node& node, const Inputs& in) {
  if (!in.q.valid() || !in.k.valid() || !in.v.valid()) return Tensor();
  KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(in.q, 3));
  const v1::DType wide = IsNarrow(in.q.dtype()) ? v1::FLOAT32 : in.q.dtype();
  const Size queries = in.q.size(2), keys = in.k.size(2);
  Scoring scoring{.scale = ScaleOf(node, size)};
  const auto add = [&](Tensor more) { scoring.bias = scoring.bias.valid() ? scoring.bias + more : more; };
  if (in.mask.valid()) {
    KILN_ASSIGN_OR_RETURN(const Tensor padding, Padding(node, in.mask, in.q.size(0), keys, wide));
    add(padding);
  }
  if (in.bias.valid()) {
    if (in.bias.rank() != 4) return node.Bad("attention_bias is (batch, heads, queries, keys)");
    add(Cast(in.bias, wide));
  }
  if (node.Int("unidirectional") != 0) {
    const Tensor at = Unsqueeze(node.graph().Arange(queries, v1::INT64), 1) + node.graph().Number(in.past, v1::INT64);
    add(Less(node.graph().Arange(keys, v1::INT64) <= at, -kInfinity, wide));
  }
  return Beside(Attended(in.q, in.k, in.v, scoring));
}

// Rows that were projected to queries, keys and values beside each other, (batch, length, q + k + v).
Result OfProjected(Node& node, Tensor projected, Tensor mask, Tensor past, Tensor bias) {
  if (!projected.valid()) return projected;
  const int64_t heads = node.Int("num_heads");
  if (!AreHeads(heads)) return node.Bad(absl::StrCat("num_heads is from 1 to ", kMaxHeads));
  if (node.Int("do_rotary") != 0)
    return node.Refuse("do_rotary without angles; RotaryEmbedding and MultiHeadAttention");
  KILN_ASSIGN_OR_RETURN(const int64_t width, node.Dim(projected, 2));
  const std::vector<int64_t> sizes = node.Ints("qkv_hidden_sizes", std::vector<int64_t>(3, width / 3));
  if (sizes.size() != 3) return node.Bad("qkv_hidden_sizes are three");
  for (const int64_t size : sizes) {
    if (size < 1 || size > width) return node.Bad(absl::StrCat("qkv_hidden_sizes are from 1 to ", width));
  }
  if (sizes[0] != sizes[1] || Size(sizes[0]) + sizes[1] + sizes[2] != width)
    return node.Bad(absl::StrCat("qkv_hidden_sizes of ", ShapeText(sizes), " for a weight of ", width, " columns"));
  Inputs in{.mask = mask, .bias = bias};
  KILN_ASSIGN_OR_RETURN(in.q, Heads(node, Part(projected, 2, 0, sizes[0]), heads));
  KILN_ASSIGN_OR_RETURN(in.k, Heads(node, Part(projected, 2, sizes[0], 2 * sizes[0]), heads));
  KILN_ASSIGN_OR_RETURN(in.v, Heads(node, Part(projected, 2, 2 * sizes[0], width), heads));
  if (past.valid()) {
    if (past.rank() != 5 || past.size(0) != 2) return node.Bad("past is (2, batch, heads, length, size)");
    in.past = past.size(3);
    in.k = Joined({Squeeze(Part(past, 0, 0, 1), 0), in.k}, 2);
    in.v = Joined({Squeeze(Part(past, 0, 1, 2), 0), in.v}, 2);
  }
  KILN_ASSIGN_OR_RETURN(const Tensor result, Masked(node, in));
  if (!node.Wants(1)) return result;
  if (sizes[0] != sizes[2]) return node.Refuse("keys and values of other sizes in one tensor `present`");
  return std::vector<Tensor>{result, Stack({in.k, in.v})};
}

// Input, weight and bias: the projection is a part of the op.
Result Attention(Node& node) {
  const Tensor x = node.In(0), weight = node.In(1);
  if (x.rank() != 3 || weight.rank() != 2) return node.Bad("takes (batch, length, in) and (in, q + k + v)");
  if (node.Has(6)) return node.Refuse("past_sequence_length: a cache that is changed in place");
  Tensor projected = Cast(Matmul(Widened(x), Widened(weight)), x.dtype());
  if (node.Has(2)) projected = projected + node.In(2);
  return OfProjected(node, projected, node.In(3), node.In(4), node.In(5));
}

// The same of 8-bit integers, which stand for (q - zero point) * scale; what is projected is float.
Result QuantizedAttention(Node& node) {
  const Tensor x = node.In(0), weight = node.In(1);
  if (x.rank() != 3 || weight.rank() != 2) return node.Bad("takes (batch, length, in) and (in, q + k + v)");
  const auto centred = [&](Tensor whole, size_t zero) {
    const Tensor wide = Cast(whole, v1::INT32);
    return node.Has(zero) ? wide - Cast(node.In(zero), v1::INT32) : wide;
  };
  const Tensor sum = Matmul(centred(x, 6), centred(weight, 7));
  const Tensor projected = Cast(sum, v1::FLOAT32) * (node.In(3) * node.In(4)) + node.In(2);
  return OfProjected(node, projected, node.In(5), node.In(8), Tensor());
}

// One of those that lie beside each other, (batch, length, heads, count, size), as heads.
Tensor Unpacked(Tensor packed, int64_t i) { return Permute(Squeeze(Part(packed, 3, i, i + 1), 3), {0, 2, 1, 3}); }

// Queries, keys and values were projected before.
Result MultiHeadAttention(Node& node) {
  const int64_t heads = node.Int("num_heads");
  if (!AreHeads(heads)) return node.Bad(absl::StrCat("num_heads is from 1 to ", kMaxHeads));
  if (node.Has(8) || node.Has(9))
    return node.Refuse("a cache that is changed in place; past_key and past_value are taken");
  const Tensor query = node.In(0), key = node.In(1), value = node.In(2), bias = node.In(3);
  Inputs in{.mask = node.In(4), .bias = node.In(5)};
  const auto packed = [&](Tensor x, int64_t count) {
    return x.rank() == 5 && x.size(2) == heads && x.size(3) == count;
  };
  if (packed(query, 3) && !key.valid()) {
    in = {Unpacked(query, 0), Unpacked(query, 1), Unpacked(query, 2), in.mask, in.bias};
  } else if (query.rank() != 3 || !key.valid()) {
    return node.Bad("takes queries and keys of rank 3, or both and values as (batch, length, num_heads, 3, size)");
  } else {
    KILN_ASSIGN_OR_RETURN(in.q, Heads(node, query, heads));
    if (packed(key, 2) && !value.valid()) {
      in.k = Unpacked(key, 0);
      in.v = Unpacked(key, 1);
    } else if (!value.valid()) {
      return node.Bad("there are no values, and keys are not (batch, length, num_heads, 2, size)");
    } else {
      KILN_ASSIGN_OR_RETURN(in.k, Heads(node, key, heads));
      KILN_ASSIGN_OR_RETURN(in.v, Heads(node, value, heads));
    }
  }
  if (!in.q.valid() || !in.k.valid() || !in.v.valid()) return Tensor();
  if (in.k.rank() != 4 || in.v.rank() != 4) return node.Bad("keys and values are of rank 3 or 4");
  if (bias.valid()) {
    // In the order of q, k and v, each as long as a row of it.
    KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(in.q, 3));
    KILN_ASSIGN_OR_RETURN(const int64_t size_of_v, node.Dim(in.v, 3));
    if (key.valid() && key.rank() == 4) return node.Refuse("a bias beside keys that are heads already");
    if (bias.rank() != 1 || bias.size(0) != Size(heads) * (Size(2) * size + size_of_v))
      return node.Bad(absl::StrCat("a bias of ", ShapeText(bias.sizes()), "; it is one number each of q, k and v"));
    const auto part = [&](int64_t from, int64_t each) {
      return Reshape(Part(bias, 0, heads * from, heads * (from + each)), {heads, 1, each});
    };
    in.q = in.q + part(0, size);
    in.k = in.k + part(size, size);
    in.v = in.v + part(2 * size, size_of_v);
  }
  if (node.Has(6) != node.Has(7)) return node.Bad("past_key and past_value are there together");
  if (node.Has(6)) {
    in.past = node.In(6).size(2);
    in.k = Joined({node.In(6), in.k}, 2);
    in.v = Joined({node.In(7), in.v}, 2);
  }
  KILN_ASSIGN_OR_RETURN(const Tensor result, Masked(node, in));
  return std::vector<Tensor>{result, in.k, in.v};
}

// Pairs turned by angles of a table (positions, pairs). Positions are each row's own (batch, length), or where the
// first of all rows is.
Result RotaryEmbedding(Node& node) {
  const Tensor x = node.In(0), positions = Cast(node.In(1), v1::INT64), table = node.In(2);
  KILN_ASSIGN_OR_RETURN(const int64_t pairs, node.Dim(table, 1));
  if (table.rank() != 2 || pairs < 1 || pairs > kMaxHeads) return node.Bad("cos_cache is (positions, pairs)");
  int64_t heads = node.Int("num_heads"), turned = node.Int("rotary_embedding_dim");
  if (node.Int("is_packed_batching") != 0) return node.Refuse("is_packed_batching: rows of several lengths in one");
  if (x.rank() == 3 && heads == 0) {
    KILN_ASSIGN_OR_RETURN(const int64_t width, node.Dim(x, 2));
    if (turned != 0 || width % (2 * pairs) != 0) return node.Bad("num_heads must say how many heads a row has");
    heads = width / (2 * pairs);
  }
  KILN_ASSIGN_OR_RETURN(const Tensor split, Heads(node, x, heads));
  if (!split.valid()) return split;
  KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(split, 3));
  if (turned == 0) turned = size;
  if (turned != 2 * pairs || turned > size)
    return node.Bad(absl::StrCat(pairs, " pairs of angles for the first ", turned, " of ", size));
  const Tensor at = positions.sizes().Count() == 1
                        ? Reshape(positions, {1, 1}) + node.graph().Arange(split.size(2), v1::INT64)
                        : positions;
  const auto angles = [&](size_t i) { return Unsqueeze(Embedding(node.In(i), at), 1); };
  const Tensor result = Rotated(split, angles(2), angles(3), turned, node.Int("interleaved") != 0);
  return x.rank() == 3 ? Beside(result) : result;
}

// Of x (batch, rows, a, b) the rows that ids (batch, n) name; zeros where an id is no row.
Tensor RowsOf(Tensor x, Tensor ids) {
  if (!x.valid() || !ids.valid()) return Tensor();
  Graph& graph = *x.graph();
  const Tensor first = Unsqueeze(graph.Arange(x.size(0), v1::INT64), 1) * graph.Number(x.size(1), v1::INT64);
  const Tensor inside = (ids >= 0) & (ids < graph.Number(x.size(1), v1::INT64));
  const Tensor places = Where(inside, ids + first, -1);
  const Tensor rows = Index(Reshape(x, {x.size(0) * x.size(1), x.size(2), x.size(3)}), {Reshape(places, {-1})});
  return Reshape(rows, {x.size(0), ids.size(1), x.size(2), x.size(3)});
}

// Several heads of queries share one of keys, and each row of the batch has a length of its own: seqlens_k is that
// length less 1, with the keys of this call. So the first `before` rows of the past are in use, length less the number
// of new keys, or none. Whether the past grows with each call or is a buffer that is longer than what is in it, scores
// are made of the past and the new keys beside each other, and what is not in use is masked. A query sees the keys up
// to its own place or, where the attribute `causal` is 0, all keys of its row.
Result GroupQueryAttention(Node& node) {
  const int64_t heads = node.Int("num_heads"), kv_heads = node.Int("kv_num_heads");
  if (!AreHeads(heads) || !AreHeads(kv_heads) || heads % kv_heads != 0)
    return node.Bad(absl::StrCat(heads, " heads of queries for ", kv_heads, " of keys"));
  if (node.Has(12) || node.Has(13)) return node.Refuse("a cache of quantized keys and values");
  if (node.Int("sliding_window_cache") != 0)
    return node.Refuse("sliding_window_cache: a cache that forgets what is behind the window; 0 is taken");
  const int64_t causal = node.Int("causal", 1), window = node.Int("local_window_size", -1);
  if (causal != 0 && causal != 1) return node.Bad("causal is 0 or 1");
  if (window == 0 || window < -1 || (window > 0 && causal == 0))
    return node.Bad("local_window_size is at least 1, or -1 for none; beside causal 0 it is -1");
  if (node.Has(3) != node.Has(4)) return node.Bad("past_key and past_value are there together");
  if (!node.Has(5)) return node.Bad("seqlens_k is missing");
  Tensor q = node.In(0), k = node.In(1), v = node.In(2);
  if (q.rank() != 3 || k.valid() != v.valid()) return node.Bad("takes queries of rank 3, and keys with values");
  if (!k.valid()) {
    KILN_ASSIGN_OR_RETURN(const int64_t width, node.Dim(q, 2));
    if (width % (heads + 2 * kv_heads) != 0) return node.Bad(absl::StrCat("a row of ", width, " is not whole heads"));
    const int64_t size = width / (heads + 2 * kv_heads), keys = heads * size, values = keys + kv_heads * size;
    v = Part(q, 2, values, width);
    k = Part(q, 2, keys, values);
    q = Part(q, 2, 0, keys);
  }
  KILN_ASSIGN_OR_RETURN(q, Heads(node, q, heads));
  KILN_ASSIGN_OR_RETURN(k, Heads(node, k, kv_heads));
  KILN_ASSIGN_OR_RETURN(v, Heads(node, v, kv_heads));
  if (!q.valid() || !k.valid() || !v.valid()) return Tensor();
  KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(q, 3));
  Graph& graph = node.graph();
  const v1::DType wide = IsNarrow(q.dtype()) ? v1::FLOAT32 : q.dtype();
  const Size queries = q.size(2), past = node.Has(3) ? node.In(3).size(2) : Size(0), keys = past + queries;
  const auto number = [&](const Size& one) { return graph.Number(one, v1::INT64); };
  // Columns are (batch, 1).
  const Tensor length = Reshape(Cast(node.In(5), v1::INT64), {-1, 1}) + 1;
  const Tensor before = Minimum(Maximum(length - number(queries), 0), number(past));
  const Tensor at_query = before + graph.Arange(queries, v1::INT64);
  if (node.Int("do_rotary") != 0) {
    if (!node.Has(7) || !node.Has(8)) return node.Bad("do_rotary without cos_cache and sin_cache");
    KILN_ASSIGN_OR_RETURN(const int64_t pairs, node.Dim(node.In(7), 1));
    if (node.In(7).rank() != 2 || pairs < 1 || pairs > size / 2) return node.Bad("cos_cache is (positions, pairs)");
    const Tensor positions = node.Has(9) ? Cast(node.In(9), v1::INT64) : at_query;
    const auto angles = [&](size_t i) { return Unsqueeze(Embedding(node.In(i), positions), 1); };
    const bool interleaved = node.Int("rotary_interleaved") != 0;
    q = Rotated(q, angles(7), angles(8), 2 * pairs, interleaved);
    k = Rotated(k, angles(7), angles(8), 2 * pairs, interleaved);
  }
  if (node.Has(3)) {
    k = Joined({node.In(3), k}, 2);
    v = Joined({node.In(4), v}, 2);
  }
  if (!k.valid() || !v.valid() || k.rank() != 4 || v.rank() != 4) return node.Bad("past keys are not as keys are");
  // Where each key is; what is of the past and not in use is nowhere.
  const Tensor column = graph.Arange(keys, v1::INT64), is_new = column >= number(past);
  const Tensor at_key = Where(is_new, before + column - number(past), Where(column < before, column, -1));

  Scoring scoring{.scale = ScaleOf(node, size), .cap = node.Float("softcap")};
  const Tensor key = Unsqueeze(Unsqueeze(at_key, 1), 1), query = Unsqueeze(Unsqueeze(at_query, 1), -1);
  Tensor seen = (key >= 0) & (causal == 1 ? key <= query : key < Along(length, 0, 4));
  if (window > 0) seen = seen & (query - key < window);
  scoring.bias = Less(seen, -kInfinity, wide);
  if (node.Has(10)) {
    const Tensor bias = node.In(10);
    if (bias.rank() != 4) return node.Bad("attention_bias is (batch, heads, queries, keys)");
    const Tensor whole = BroadcastTo(bias, {q.size(0), bias.size(1), bias.size(2), bias.size(3)});
    scoring.bias = scoring.bias + Cast(Permute(RowsOf(Permute(whole, {0, 3, 1, 2}), at_key), {0, 2, 3, 1}), wide);
  }
  if (node.Has(11)) scoring.sink = Along(Cast(node.In(11), wide), 1, 4);
  if (!node.Has(11) && node.Int("smooth_softmax") == 1) scoring.sink = graph.Constant(0, wide);
  const Tensor result = Beside(Attended(q, Shared(k, heads / kv_heads), Shared(v, heads / kv_heads), scoring));
  if (!node.Has(3)) return std::vector<Tensor>{result, k, v};

  // The past for the next call: a buffer that has room stays as long as it is.
  Size kept = keys;
  const Known* total = node.Has(6) ? node.Find(node.In(6)) : nullptr;
  const auto numbers = total != nullptr ? total->Numbers() : std::nullopt;
  if (numbers && numbers->size() == 1 && past.number()) kept = std::max((*numbers)[0], *past.number());
  const Tensor row = graph.Arange(kept, v1::INT64);
  const Tensor ids = Where(row < before, row, Where(row < before + number(queries), row - before + number(past), -1));
  const auto present = [&](Tensor x) { return Permute(RowsOf(Permute(x, {0, 2, 1, 3}), ids), {0, 2, 1, 3}); };
  return std::vector<Tensor>{result, present(k), present(v)};
}

constexpr OpRow kRows[] = {
    {"Attention", 1, Attention, 2, 7, kMicrosoft},
    {"QAttention", 1, QuantizedAttention, 5, 9, kMicrosoft},
    {"MultiHeadAttention", 1, MultiHeadAttention, 1, 10, kMicrosoft},
    {"GroupQueryAttention", 1, GroupQueryAttention, 1, 14, kMicrosoft},
    {"RotaryEmbedding", 1, RotaryEmbedding, 4, 4, kMicrosoft},
};

}  // namespace

OpRows FusedAttentionOps() { return kRows; }

}  // namespace kiln::onnx
