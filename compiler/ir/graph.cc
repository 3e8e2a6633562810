#include "compiler/ir/graph.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/polynomial.h"

namespace kiln::compiler {
namespace {

template <typename H>
H HashArg(H h, const Arg& arg) {
  h = H::combine(std::move(h), arg.index());
  return std::visit(
      [&h](const auto& value) -> H {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return std::move(h);
        } else if constexpr (std::is_same_v<T, ConstArg>) {
          return H::combine(std::move(h), value.dtype, value.bits, value.invalid);
        } else if constexpr (std::is_same_v<T, BufferArg>) {
          return H::combine(std::move(h), value.slot, value.dtype, value.addrspace, value.device, value.min, value.max);
        } else if constexpr (std::is_same_v<T, AxesArg>) {
          return H::combine(std::move(h), value.axes);
        } else if constexpr (std::is_same_v<T, ReduceArg>) {
          return H::combine(std::move(h), value.op, value.axes);
        } else if constexpr (std::is_same_v<T, RangeArg>) {
          return H::combine(std::move(h), value.id, value.type);
        } else if constexpr (std::is_same_v<T, TextArg>) {
          return H::combine(std::move(h), value.text);
        } else if constexpr (std::is_same_v<T, KernelArg>) {
          h = H::combine(std::move(h), value.name, value.dont_use_locals, value.opts.size(), value.source);
          for (const OptArg& opt : value.opts) h = H::combine(std::move(h), opt.kind, opt.axis, opt.arg);
          return std::move(h);
        } else if constexpr (std::is_same_v<T, CodeArg>) {
          return H::combine(std::move(h), value.dtype, value.text);
        } else if constexpr (std::is_same_v<T, WmmaArg>) {
          return H::combine(std::move(h), value.n, value.m, value.k, value.in, value.out, value.threads);
        } else {
          return H::combine(std::move(h), value);
        }
      },
      arg);
}

// What makes two nodes one.
struct Identity {
  const UOp* uop;
  template <typename H>
  friend H AbslHashValue(H h, const Identity& identity) {
    h = H::combine(std::move(h), identity.uop->op(), identity.uop->src());
    return HashArg(std::move(h), identity.uop->arg());
  }
};

}  // namespace

size_t Graph::Hash::operator()(const UOp* uop) const { return absl::Hash<Identity>()(Identity{uop}); }

bool Graph::Equal::operator()(const UOp* a, const UOp* b) const {
  return a->op() == b->op() && a->src() == b->src() && a->arg() == b->arg();
}

Graph::Graph() : polynomials_(std::make_unique<PolynomialMemo>()) {}
Graph::~Graph() = default;

absl::StatusOr<UOp*> Graph::TryMake(Op op, absl::Span<UOp* const> src, Arg arg) {
  UOp candidate;
  candidate.op_ = op;
  candidate.src_ = src;
  candidate.arg_ = std::move(arg);
  if (auto found = interned_.find(&candidate); found != interned_.end()) return *found;

  if (absl::Status status = Inference::Run(*this, candidate); !status.ok()) return status;
  sources_.emplace_back(src.begin(), src.end());
  source_count_ += src.size();
  candidate.src_ = sources_.back();
  candidate.id_ = static_cast<uint32_t>(nodes_.size());
  UOp* uop = &nodes_.emplace_back(std::move(candidate));
  // What it says itself, and not the candidate.
  if (const auto* buffer = std::get_if<BufferArg>(&uop->arg_)) uop->device_ = &buffer->device;
  if (const auto* text = std::get_if<TextArg>(&uop->arg_); text && op == Op::LOAD) uop->device_ = &text->text;
  interned_.insert(uop);
  return uop;
}

UOp* Graph::Make(Op op, absl::Span<UOp* const> src, Arg arg) {
  absl::StatusOr<UOp*> made = TryMake(op, src, std::move(arg));
  if (!made.ok()) std::fprintf(stderr, "%s: %s\n", Name(op).data(), made.status().ToString().c_str());
  KILN_CHECK(made.ok());
  return *made;
}

void Graph::CopyOrigin(const UOp* from, const UOp* made) {
  const auto origin = origins_.find(from);
  if (origin != origins_.end()) SetOrigin(made, uint32_t{origin->second});
}

void Graph::InheritOrigin(const UOp* made, const UOp* from) {
  // By value: the map may grow, and move what `origin` points to.
  if (const auto origin = origins_.find(from); origin != origins_.end())
    origins_.emplace(made, uint32_t{origin->second});
}

absl::Status Graph::Locate(const absl::Status& status, const UOp* uop) const {
  const auto origin = origins_.find(uop);
  return origin == origins_.end() ? status : WithNode(status, origin->second, Name(uop->op()), "");
}

namespace {

constexpr size_t kAllNodes = std::numeric_limits<size_t>::max();

// `first` says which of a node's sources is the first to be looked at. Nothing if there
// are more than `max_nodes` nodes.
template <typename First>
std::vector<UOp*> ToposortFrom(UOp* root, size_t max_nodes, First first) {
  std::vector<UOp*> order;
  absl::flat_hash_set<UOp*> seen = {root};
  std::vector<std::pair<UOp*, size_t>> stack = {{root, first(root)}};  // a node, and which source is next
  while (!stack.empty()) {
    auto& [uop, next] = stack.back();
    if (next < uop->src().size()) {
      UOp* source = uop->src(next++);
      if (seen.insert(source).second) stack.emplace_back(source, first(source));
      if (seen.size() > max_nodes) return {};
    } else {
      order.push_back(uop);
      stack.pop_back();
    }
  }
  return order;
}

}  // namespace

std::vector<UOp*> Toposort(UOp* root) { return ToposortUpTo(root, kAllNodes); }

std::vector<UOp*> ToposortUpTo(UOp* root, size_t max_nodes) {
  return ToposortFrom(root, max_nodes, [](const UOp*) { return size_t{0}; });
}

std::vector<UOp*> ToposortScope(UOp* root) {
  return ToposortFrom(root, kAllNodes, [](const UOp* uop) { return size_t{uop->op() == Op::CALL}; });
}

size_t Depth(absl::Span<UOp* const> toposorted) {
  absl::flat_hash_map<UOp*, size_t> depth;
  size_t deepest = 0;
  for (UOp* uop : toposorted) {
    size_t here = 1;
    for (UOp* source : uop->src()) here = std::max(here, depth[source] + 1);
    depth[uop] = here;
    deepest = std::max(deepest, here);
  }
  return deepest;
}

}  // namespace kiln::compiler
