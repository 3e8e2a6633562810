// A Graph owns the UOps of one compilation and interns them.
//
// One compilation = one Graph = one thread: no lock anywhere. All UOps are
// freed together with the Graph.
#ifndef KILN_COMPILER_IR_GRAPH_H_
#define KILN_COMPILER_IR_GRAPH_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

struct PolynomialMemo;

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // The node (op, src, arg), made now or found. Fails if the derived properties
  // cannot be: a wrong source count, argument, dtype or shape, or a size beyond
  // any memory. For graphs from outside.
  absl::StatusOr<UOp*> TryMake(Op op, absl::Span<UOp* const> src, Arg arg = {});
  absl::StatusOr<UOp*> TryMake(Op op, std::initializer_list<UOp*> src, Arg arg = {}) {
    return TryMake(op, absl::MakeConstSpan(src.begin(), src.size()), std::move(arg));
  }

  // The same for a pass: a failure is a fault of ours, and aborts.
  UOp* Make(Op op, absl::Span<UOp* const> src, Arg arg = {});
  UOp* Make(Op op, std::initializer_list<UOp*> src, Arg arg = {}) {
    return Make(op, absl::MakeConstSpan(src.begin(), src.size()), std::move(arg));
  }

  // Nodes made so far, reachable or not.
  size_t size() const { return nodes_.size(); }
  // Of all of them together.
  size_t sources() const { return source_count_; }

  // Nodes at which rules did not come to rest (rewrite.h): a fault of the rules, for
  // tests to find.
  size_t restless() const { return restless_; }
  void CountRestless() { ++restless_; }

  // Where a node stands in the message it was read from (its first use there);
  // nothing for nodes that passes made.
  void SetOrigin(const UOp* uop, uint32_t node) { origins_.emplace(uop, node); }
  // `made` stands for what was read as `from`.
  void CopyOrigin(const UOp* from, const UOp* made);
  // `made` stands for what `from` was: errors name the same node.
  void InheritOrigin(const UOp* made, const UOp* from);
  // `status` with the node at fault named by that place, if it has one.
  absl::Status Locate(const absl::Status& status, const UOp* uop) const;

  // Weak nodes as they are in a strong dtype: Strengthen (weak.h) remembers here
  // what it made, so that using one weak expression often costs no more.
  absl::flat_hash_map<std::pair<UOp*, DType>, UOp*>& strengthened() { return strengthened_; }

  // What polynomial.h remembers of the nodes.
  PolynomialMemo& polynomials() { return *polynomials_; }

  // The values that variables have where a call gives none (BIND), by variable.
  absl::flat_hash_map<const UOp*, int64_t>& bindings() { return bindings_; }

  // A number that no RANGE, and no BUFFER made by a pass, has had.
  int64_t NextId() { return next_id_++; }

 private:
  struct Hash {
    size_t operator()(const UOp* uop) const;
  };
  struct Equal {
    bool operator()(const UOp* a, const UOp* b) const;
  };

  std::deque<UOp> nodes_;
  std::deque<std::vector<UOp*>> sources_;
  absl::flat_hash_set<UOp*, Hash, Equal> interned_;
  absl::flat_hash_map<std::pair<UOp*, DType>, UOp*> strengthened_;
  absl::flat_hash_map<const UOp*, uint32_t> origins_;
  std::unique_ptr<PolynomialMemo> polynomials_;
  absl::flat_hash_map<const UOp*, int64_t> bindings_;
  size_t source_count_ = 0, restless_ = 0;
  int64_t next_id_ = 1 << 16;  // above the slots that a client may choose
};

// Every node that `root` reaches, sources before users. Iterative: depth costs
// no stack.
std::vector<UOp*> Toposort(UOp* root);
// The same, or nothing if `root` reaches more than `max_nodes` nodes; looks at no more than that.
std::vector<UOp*> ToposortUpTo(UOp* root, size_t max_nodes);
// Every node that is reached without entering the body of a CALL, whose PARAMs are the kernel's own.
std::vector<UOp*> ToposortScope(UOp* root);

// Most nodes on one path from `root` down.
size_t Depth(absl::Span<UOp* const> toposorted);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_GRAPH_H_
