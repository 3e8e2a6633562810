#include "base/graph/graph_hash.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/canonical_arg.h"
#include "base/op_names.h"

namespace kiln {
namespace {

// Changes whenever any graph's hash would: the last byte is the version.
constexpr absl::string_view kDomain = "kiln.graph\x01";

// IDIV and MOD mean one thing or another by dialect; they hash as what they mean.
absl::string_view MeaningOf(v1::Op op, v1::Dialect dialect) {
  const bool legacy = dialect == v1::LEGACY_2025;
  if (op == v1::IDIV) return legacy ? "CDIV" : "FLOORDIV";
  if (op == v1::MOD) return legacy ? "CMOD" : "FLOORMOD";
  return OpName(op);
}

// Whose sources the older documents order otherwise.
bool IsReadByDialect(v1::Op op) { return op == v1::LOAD || op == v1::STORE || op == v1::RANGE; }

// Whether the node's dtype says what it is, and does not only check it.
bool DTypeSaysWhat(const v1::UOp& uop) {
  switch (uop.op()) {
    case v1::BUFFER_VIEW:
    case v1::CUSTOM:
    case v1::CUSTOMI:
    case v1::EMPTY:
    case v1::INS:
    case v1::VCONST: return uop.dtype() != v1::DTYPE_UNSPECIFIED;
    case v1::DEFINE_GLOBAL:
    case v1::DEFINE_LOCAL:
    case v1::DEFINE_REG:
    case v1::DEFINE_ACC: return uop.dtype() != v1::DTYPE_UNSPECIFIED && uop.buffer().dtype() == v1::DTYPE_UNSPECIFIED;
    case v1::RANGE:
    case v1::LOOP:
    case v1::SPECIAL:
      return uop.dtype() != v1::DTYPE_UNSPECIFIED && uop.dtype() != v1::INT64 && uop.dtype() != v1::WEAKINT;
    default: return false;
  }
}

// "LOAD", "LOAD:LEGACY_2025", "EMPTY:12".
void AppendName(absl::string_view meaning, const v1::UOp& uop, v1::Dialect dialect, std::string& out) {
  const bool old = dialect == v1::LEGACY_2025 && IsReadByDialect(uop.op());
  if (!old && !DTypeSaysWhat(uop)) return AppendString(meaning, out);
  std::string name(meaning);
  if (old) absl::StrAppend(&name, ":LEGACY_2025");
  if (DTypeSaysWhat(uop)) absl::StrAppend(&name, ":", static_cast<int>(uop.dtype()));
  AppendString(name, out);
}

// What a node's digest is made of, in order. One is scratch for all nodes: strings keep their memory.
struct Encoding {
  std::string head;
  absl::string_view rest;  // long text or data, of the node itself
  std::string tail;        // empty if `rest` is
};

absl::Status Encode(const v1::UOp& uop, v1::Dialect dialect, const std::vector<Digest>& earlier, uint64_t node_count,
                    Encoding& encoding) {
  encoding.head.clear();
  encoding.tail.clear();
  const absl::string_view name = MeaningOf(uop.op(), dialect);
  if (name.empty()) {
    return MakeError(v1::UNKNOWN_OP, absl::StrCat("op ", uop.op(), " is not known to this version of the protocol"));
  }
  AppendName(name, uop, dialect, encoding.head);
  KILN_RETURN_IF_ERROR(AppendCanonicalArg(uop, encoding.head, encoding.rest));
  std::string& out = encoding.rest.empty() ? encoding.head : encoding.tail;
  AppendU32(uop.src_size(), out);
  for (uint32_t source : uop.src()) {
    if (source >= node_count) {
      return MakeError(v1::SOURCE_OUT_OF_RANGE,
                       absl::StrCat("source ", source, " is no node: the graph has ", node_count));
    }
    if (source >= earlier.size()) {
      return MakeError(v1::GRAPH_CYCLE, absl::StrCat("source ", source, " is not earlier than the node itself, ",
                                                     earlier.size(), "; nodes go in topological order"));
    }
    out.append(earlier[source].view().data(), earlier[source].view().size());
  }
  return absl::OkStatus();
}

using Wanted = absl::FunctionRef<absl::Status()>;

absl::Status Always() { return absl::OkStatus(); }

// Asks whether the hash is still wanted once so much has been done since the last time, in bytes. A node takes as long
// as kNode bytes, beside its own.
class Patience {
 public:
  static constexpr uint64_t kStep = 1 << 20, kNode = 1024;
  explicit Patience(Wanted wanted) : wanted_(wanted) {}

  absl::Status Spend(uint64_t bytes) {
    spent_ += bytes;
    if (spent_ < kStep) return absl::OkStatus();
    spent_ = 0;
    return wanted_();
  }

 private:
  const Wanted wanted_;
  uint64_t spent_ = 0;
};

absl::StatusOr<std::vector<Digest>> HashNodesFor(const v1::Graph& graph, Wanted wanted) {
  if (graph.nodes().empty()) return MakeError(v1::GRAPH_EMPTY, "the graph has no node");
  if (!v1::Dialect_IsValid(graph.dialect())) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("dialect ", graph.dialect(), " is unknown"));
  }
  std::vector<Digest> digests;
  digests.reserve(graph.nodes_size());
  Blake3 hasher;
  Encoding encoding;
  Patience patience(wanted);
  for (const v1::UOp& uop : graph.nodes()) {
    const absl::Status encoded = Encode(uop, graph.dialect(), digests, graph.nodes_size(), encoding);
    if (!encoded.ok()) {
      const size_t node = digests.size();
      const absl::string_view known = OpName(uop.op());
      const std::string op = known.empty() ? absl::StrCat(static_cast<int>(uop.op())) : std::string(known);
      const absl::Status named = WithNode(encoded, node, op, uop.tag());
      return Annotate(named, absl::StrCat("node ", node, known.empty() ? "" : " ", known));
    }
    hasher.Reset();
    hasher.Update(encoding.head);
    for (absl::string_view rest = encoding.rest; !rest.empty();) {
      const absl::string_view step = rest.substr(0, Patience::kStep);
      hasher.Update(step);
      rest.remove_prefix(step.size());
      KILN_RETURN_IF_ERROR(patience.Spend(step.size()));
    }
    hasher.Update(encoding.tail);
    digests.push_back(hasher.Finish());
    KILN_RETURN_IF_ERROR(patience.Spend(Patience::kNode + encoding.head.size() + encoding.tail.size()));
  }
  return digests;
}

}  // namespace

std::string GraphHash::Hex() const { return absl::BytesToHexString(Bytes()); }

std::optional<GraphHash> GraphHash::FromBytes(absl::string_view bytes) {
  GraphHash hash;
  if (bytes.size() != hash.bytes.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), hash.bytes.begin());
  return hash;
}

std::optional<GraphHash> GraphHash::FromHex(absl::string_view hex) {
  if (hex.size() != 64 || !std::all_of(hex.begin(), hex.end(), absl::ascii_isxdigit)) return std::nullopt;
  return FromBytes(absl::HexStringToBytes(hex));
}

absl::StatusOr<std::vector<Digest>> HashNodes(const v1::Graph& graph) { return HashNodesFor(graph, Always); }

absl::StatusOr<GraphHash> HashGraph(const v1::Graph& graph) { return HashGraph(graph, Always); }

absl::StatusOr<GraphHash> HashGraph(const v1::Graph& graph, Wanted wanted) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Digest> digests, HashNodesFor(graph, wanted));
  Blake3 hasher;
  hasher.Update(kDomain);
  hasher.Update(digests.back().view());
  return GraphHash{hasher.Finish().bytes};
}

}  // namespace kiln
