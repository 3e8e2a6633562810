// How often sequences of a list are in a text whose words are numbers.
//
// A sequence of n words is there wherever its words follow each other, a word apart, or, where `skip` words may lie
// between them, skip + 1 apart. So for each n and skip the text is laid beside itself n times, each time moved on, and
// compared with all sequences at once.
//
// Tested by tests/onnx/places_test.py and tests/onnx/onnx_test.py.
#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// The sequences of one length, and which number each has among all.
struct Grams {
  int64_t length = 0, count = 0, first = 0;
  std::vector<int64_t> words;  // (count, length)
};

// `pool` has all sequences of one word, then all of two, …, and ngram_counts where each kind begins.
absl::StatusOr<std::vector<Grams>> ReadGrams(Node& node) {
  const std::vector<int64_t> pool = node.Ints("pool_int64s"), begins = node.Ints("ngram_counts");
  const auto all = static_cast<int64_t>(pool.size());
  std::vector<Grams> kinds;
  int64_t number = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    const int64_t begin = begins[i], end = i + 1 < begins.size() ? begins[i + 1] : all;
    Grams grams{.length = static_cast<int64_t>(i) + 1, .first = number};
    if (begin < 0 || begin > end || end > all || (end - begin) % grams.length != 0)
      return node.Bad(absl::StrCat("ngram_counts do not divide a pool of ", all, " words"));
    grams.count = (end - begin) / grams.length;
    grams.words.assign(pool.begin() + begin, pool.begin() + end);
    number += grams.count;
    kinds.push_back(std::move(grams));
  }
  if (number != static_cast<int64_t>(node.Ints("ngram_indexes").size()))
    return node.Bad(absl::StrCat("there are ", number, " sequences, and ngram_indexes are not as many"));
  return kinds;
}

// Of a text (rows, words): how often each of the sequences is there, (rows, count).
absl::StatusOr<Tensor> Counted(Node& node, Tensor x, const Grams& grams, int64_t skips, int64_t& turns) {
  KILN_ASSIGN_OR_RETURN(const int64_t words, node.Dim(x, 1));
  Tensor sum = node.graph().Zeros({x.size(0), grams.count}, v1::FLOAT32);
  const Tensor table = Reshape(node.Make(grams.words), {grams.count, grams.length});
  for (int64_t skip = 0; skip <= (grams.length == 1 ? 0 : skips); ++skip) {
    if (skip >= words || (grams.length - 1) > (words - 1) / (skip + 1)) break;
    const int64_t places = words - (grams.length - 1) * (skip + 1);
    turns += grams.length;
    KILN_RETURN_IF_ERROR(node.CheckTurns(turns));
    Tensor there;
    for (int64_t i = 0; i < grams.length; ++i) {
      const Tensor word = Unsqueeze(Part(x, 1, i * (skip + 1), i * (skip + 1) + places), 2);
      const Tensor same = word == Squeeze(Part(table, 1, i, i + 1), 1);
      there = there.valid() ? there & same : same;
    }
    sum = sum + Sum(Cast(there, v1::FLOAT32), 1);
  }
  return sum;
}

Result TfIdfVectorizer(Node& node) {
  if (node.HasAttribute("pool_strings")) return node.Refuse("pool_strings: strings are not taken; pool_int64s are");
  const std::string mode = node.Text("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return node.Bad("mode is TF, IDF or TFIDF");
  KILN_ASSIGN_OR_RETURN(const std::vector<Grams> kinds, ReadGrams(node));
  const int64_t least = node.Int("min_gram_length", 1), most = node.Int("max_gram_length", 1);
  const int64_t skips = node.Int("max_skip_count");
  if (least < 1 || most < least || skips < 0) return node.Bad("lengths are from 1, the least first, and skips from 0");
  const std::vector<int64_t> indexes = node.Ints("ngram_indexes");
  std::vector<double> weights = node.Floats("weights", std::vector<double>(indexes.size(), 1));
  constexpr int64_t kMost = int64_t{1} << 24;
  for (const int64_t index : indexes) {
    if (index < 0 || index >= kMost) return node.Bad("ngram_indexes are from 0 to 2^24");
  }
  if (indexes.empty() || weights.size() != indexes.size()) return node.Bad("there is not one weight for each sequence");
  const Tensor given = node.In(0);
  if ((given.rank() != 1 && given.rank() != 2) || !IsInteger(given.dtype()))
    return node.Bad("takes integers of rank 1 or 2");
  const Tensor x = Cast(given.rank() == 1 ? Unsqueeze(given, 0) : given, v1::INT64);

  std::vector<Tensor> counts;
  // For each place of the result, which of the counts; -1 for none. One great index makes it long.
  const int64_t places = *std::max_element(indexes.begin(), indexes.end()) + 1;
  KILN_RETURN_IF_ERROR(node.MayMake(places, v1::INT64));
  std::vector<int64_t> from(static_cast<size_t>(places), -1);
  std::vector<double> times;
  int64_t turns = 0;
  for (const Grams& grams : kinds) {
    if (grams.length < least || grams.length > most || grams.count == 0) continue;
    KILN_ASSIGN_OR_RETURN(const Tensor counted, Counted(node, x, grams, skips, turns));
    counts.push_back(counted);
    for (int64_t i = 0; i < grams.count; ++i) {
      int64_t& place = from[indexes[grams.first + i]];
      if (place != -1) return node.Bad(absl::StrCat("index ", indexes[grams.first + i], " is there twice"));
      place = static_cast<int64_t>(times.size());
      times.push_back(weights[grams.first + i]);
    }
  }
  if (counts.empty()) return node.Bad("there are no sequences of these lengths");
  Tensor each = Joined(counts, 1);
  if (mode == "IDF") each = Minimum(each, 1.0);
  if (mode != "TF") each = each * node.Make(times, {static_cast<int64_t>(times.size())}, v1::FLOAT32);
  const Tensor result = IndexSelect(each, 1, node.Make(from));
  return given.rank() == 1 ? Squeeze(result, 0) : result;
}

constexpr OpRow kRows[] = {
    {"TfIdfVectorizer", 9, TfIdfVectorizer, 1, 1},
};

}  // namespace

OpRows NgramOps() { return kRows; }

}  // namespace kiln::onnx
