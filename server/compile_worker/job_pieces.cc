#include "server/compile_worker/job_pieces.h"

#include <algorithm>

#include "base/error.h"
#include "server/compile_worker/job.h"

namespace kiln::server {
namespace {

constexpr int kNodes = 2048;

// All but its nodes.
void CopyHead(const v1::Graph& graph, v1::Graph& to) { to.set_dialect(graph.dialect()); }

v1::CompileJob FirstOf(const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
                       const compiler::CompileObserver* observer) {
  v1::CompileJob job = ToJob({}, target, options, observer);
  CopyHead(graph, *job.mutable_graph());
  return job;
}

v1::CompileJob FirstOf(const v1::GradientRequest& request, const compiler::Limits& limits) {
  v1::GradientRequest rest;
  CopyHead(request.graph(), *rest.mutable_graph());
  rest.set_result(request.result());
  *rest.mutable_wrt_slot() = request.wrt_slot();
  if (request.has_cotangent_slot()) rest.set_cotangent_slot(request.cotangent_slot());
  rest.set_include_results(request.include_results());
  return ToJob(rest, limits);
}

Digest CircumstancesOf(const v1::Target& target, const compiler::Options& options) {
  Blake3 hasher;
  for (const std::string& part : {target.SerializeAsString(), options.Fingerprint()})
    hasher.Update(Blake3Of(part).view());
  return hasher.Finish();
}

}  // namespace

JobPieces::JobPieces(const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
                     const compiler::CompileObserver* observer)
    : graph_(graph),
      lent_(piece_.mutable_graph()),
      first_(FirstOf(graph, target, options, observer)),
      circumstances_(CircumstancesOf(target, options)) {}

JobPieces::JobPieces(const v1::GradientRequest& request, const compiler::Limits& limits)
    : graph_(request.graph()),
      lent_(piece_.mutable_gradient()->mutable_graph()),
      first_(FirstOf(request, limits)),
      circumstances_(Blake3Of(first_.gradient().SerializeAsString())) {}

JobPieces::~JobPieces() { TakeBack(); }

void JobPieces::TakeBack() { lent_->mutable_nodes()->UnsafeArenaExtractSubrange(0, lent_->nodes_size(), nullptr); }

void JobPieces::Begin() {
  begun_ = false;
  next_ = 0;
}

const v1::CompileJob* JobPieces::Next() {
  if (!begun_) {
    begun_ = true;
    return &first_;
  }
  TakeBack();
  if (next_ == graph_.nodes_size()) return nullptr;
  const int end = std::min(graph_.nodes_size(), next_ + kNodes);
  // Nobody can change one by what Next returns.
  for (; next_ < end; ++next_)
    lent_->mutable_nodes()->UnsafeArenaAddAllocated(const_cast<v1::UOp*>(&graph_.nodes(next_)));
  return &piece_;
}

absl::StatusOr<Digest> JobPieces::Name(absl::FunctionRef<absl::Status()> wanted) {
  Begin();
  Next();
  Blake3 hasher;
  hasher.Update(circumstances_.view());
  hasher.Update(Blake3Of(first_.graph().SerializeAsString()).view());
  while (const v1::CompileJob* piece = Next()) {
    KILN_RETURN_IF_ERROR(wanted());
    hasher.Update(Blake3Of(piece->SerializeAsString()).view());
  }
  return hasher.Finish();
}

}  // namespace kiln::server
