// What a node says besides its op and sources, and could do without.
#include "tests/reduce/reductions.h"

namespace kiln::testing {
namespace {

// Each makes one node plainer, or leaves it as it is.
using Plainer = void (*)(v1::UOp& node);

const std::vector<Plainer>& Plainers() {
  static const auto& plainers = *new std::vector<Plainer>{
      [](v1::UOp& node) { node.clear_tag(); },
      [](v1::UOp& node) { node.clear_dtype(); },
      [](v1::UOp& node) {
        if (node.has_buffer()) node.mutable_buffer()->clear_name();
      },
      [](v1::UOp& node) {
        if (node.has_buffer()) node.mutable_buffer()->clear_device();
      },
      [](v1::UOp& node) {
        if (node.has_kernel()) node.clear_kernel();
      },
      [](v1::UOp& node) {
        if (node.has_kernel()) node.mutable_kernel()->clear_name();
      },
      [](v1::UOp& node) {
        if (node.has_kernel() && node.kernel().opts_size() > 0) node.mutable_kernel()->mutable_opts()->RemoveLast();
      },
      [](v1::UOp& node) {
        if (node.has_kernel() && node.kernel().opts_size() > 0)
          node.mutable_kernel()->mutable_opts()->DeleteSubrange(0, 1);
      },
      [](v1::UOp& node) {
        if (node.has_range()) node.mutable_range()->clear_type();
      },
      [](v1::UOp& node) {
        if (node.has_pad()) node.clear_pad();
      },
      [](v1::UOp& node) {
        if (node.has_reduce() && node.reduce().axis_size() > 0) node.mutable_reduce()->mutable_axis()->RemoveLast();
      },
  };
  return plainers;
}

}  // namespace

void PlainArguments(Candidates& candidates) {
  {
    v1::Graph changed = candidates.graph();
    changed.clear_dialect();
    candidates.Try(changed);
  }
  for (Plainer plainer : Plainers()) {
    v1::Graph changed = candidates.graph();
    for (v1::UOp& node : *changed.mutable_nodes()) plainer(node);
    if (candidates.Try(changed)) continue;
    for (int i = 0; i < candidates.nodes(); ++i) {
      changed = candidates.graph();
      plainer(*changed.mutable_nodes(i));
      candidates.Try(changed);
    }
  }
}

}  // namespace kiln::testing
