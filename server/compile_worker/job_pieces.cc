// Tested by job_test.cc.
#include "server/compile_worker/job_pieces.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/compile_worker/job.h"

namespace kiln::server {
namespace {

constexpr int kNodes = 2048;
// Of a name, between two looks at whether it is still wanted.
constexpr int kBytes = 256 << 10;

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

v1::CompileJob FirstOf(const v1::Graph& kernel, const v1::Target& target, const compiler::Limits& limits,
                       const v1::ChooseJob& choose) {
  v1::CompileJob job = ToJob({}, target, limits, choose);
  CopyHead(kernel, *job.mutable_graph());
  return job;
}

Digest CircumstancesOf(const v1::Target& target, const std::string& how) {
  Blake3 hasher;
  for (const std::string& part : {target.SerializeAsString(), how}) hasher.Update(Blake3Of(part).view());
  return hasher.Finish();
}

// Hashes what protobuf writes, for as long as it is wanted.
class Hashed final : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit Hashed(absl::FunctionRef<absl::Status()> wanted) : wanted_(wanted) {}

  bool Write(const void* buffer, int size) override {
    stopped_.Update(wanted_());
    if (stopped_.ok()) hasher_.Update({static_cast<const char*>(buffer), static_cast<size_t>(size)});
    return stopped_.ok();
  }
  const absl::Status& stopped() const { return stopped_; }
  Digest Finish() { return hasher_.Finish(); }

 private:
  const absl::FunctionRef<absl::Status()> wanted_;
  Blake3 hasher_;
  absl::Status stopped_;
};

}  // namespace

JobPieces::JobPieces(const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
                     const compiler::CompileObserver* observer)
    : graph_(graph),
      lent_(piece_.mutable_graph()),
      first_(FirstOf(graph, target, options, observer)),
      circumstances_(CircumstancesOf(target, options.Fingerprint())) {}

JobPieces::JobPieces(const v1::GradientRequest& request, const compiler::Limits& limits)
    : graph_(request.graph()),
      lent_(piece_.mutable_gradient()->mutable_graph()),
      first_(FirstOf(request, limits)),
      circumstances_(Blake3Of(first_.gradient().SerializeAsString())) {}

JobPieces::JobPieces(const v1::Graph& kernel, const v1::Target& target, const compiler::Limits& limits,
                     const v1::ChooseJob& choose)
    : graph_(kernel),
      lent_(piece_.mutable_graph()),
      first_(FirstOf(kernel, target, limits, choose)),
      circumstances_(CircumstancesOf(target, absl::StrCat("choose ", choose.most(), " after ", choose.from()))) {}

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
  Hashed hashed(wanted);
  google::protobuf::io::CopyingOutputStreamAdaptor stream(&hashed, kBytes);
  Begin();
  Next();
  bool written = first_.graph().SerializeToZeroCopyStream(&stream);
  while (const v1::CompileJob* piece = written ? Next() : nullptr) written = piece->SerializeToZeroCopyStream(&stream);
  written = written && stream.Flush();
  KILN_RETURN_IF_ERROR(hashed.stopped());
  if (!written) return absl::UnavailableError("the graph is larger than any can be");
  Blake3 hasher;
  hasher.Update(circumstances_.view());
  hasher.Update(hashed.Finish().view());
  return hasher.Finish();
}

}  // namespace kiln::server
