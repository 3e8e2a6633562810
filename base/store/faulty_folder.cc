#include "base/store/faulty_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/blake3.h"
#include "base/graph/graph_hash.h"
#include "base/graph/graph_text.h"
#include "kiln/v1/executable.pb.h"

namespace kiln::store::testing {

FaultyFolder::~FaultyFolder() {
  for (const int file : open_) real_->Close(file);
}

bool FaultyFolder::Step(const char* name) {
  const int step = static_cast<int>(steps_.size());
  steps_.push_back(name);
  const std::string kind = name;
  const bool takes_room = kind == "create" || kind == "write" || kind == "sync" || kind == "rename";
  switch (fault_) {
    case Fault::kNone: return true;
    case Fault::kFull:
    case Fault::kShort: errno = ENOSPC; return step < at_ || !(step == at_ || takes_room);
    case Fault::kBroken: errno = EIO; return step != at_;
    case Fault::kKilled: errno = EIO; return step < at_;
  }
  return true;
}

int FaultyFolder::Create(const std::string& name) {
  if (!Step("create")) return -1;
  const int file = real_->Create(name);
  if (file >= 0) open_.insert(file);
  return file;
}

// In small pieces, so that there are several steps within one file.
ssize_t FaultyFolder::Write(int file, const char* data, size_t bytes) {
  const size_t piece = std::min<size_t>(bytes, 300);
  if (Step("write")) return real_->Write(file, data, piece);
  if (fault_ == Fault::kShort && static_cast<int>(steps_.size()) == at_ + 1) return real_->Write(file, data, piece / 2);
  return -1;
}

int FaultyFolder::Close(int file) {
  // A lock's descriptor is no step of a write.
  if (open_.count(file) == 0) return real_->Close(file);
  const bool happens = Step("close");
  // close(2) frees the descriptor even where it fails.
  if (!happens && fault_ == Fault::kKilled) return -1;
  open_.erase(file);
  real_->Close(file);
  return happens ? 0 : -1;
}

std::string NewFolder() {
  std::string path = absl::StrCat(::testing::TempDir(), "/store.XXXXXX");
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  return path;
}

Entry MakeEntry(int number, size_t bytes) {
  const auto graph = ParseGraph(absl::StrCat("0 CONST [] weakint ", number, "\n1 SINK [0]"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  Entry entry;
  entry.graph = graph->SerializeAsString();
  entry.header.set_graph_hash(std::string(HashGraph(*graph)->Bytes()));
  const Digest key = Blake3Of(absl::StrCat("key ", number));
  entry.header.set_key(std::string(key.view()));
  entry.header.set_compiler("test");
  entry.header.set_options("plain");
  entry.header.set_limits("none");
  entry.header.set_target_fingerprint(std::string(32, 'f'));
  v1::Target& target = *entry.header.mutable_target();
  target.set_kind(v1::Target::CPU);
  target.set_triple("x86_64-unknown-linux-gnu");
  target.add_features("+avx2");
  target.add_features("-avx512f");
  v1::Executable executable;
  *executable.mutable_target() = target;
  for (size_t i = 0; i < bytes; ++i) executable.mutable_object()->push_back(static_cast<char>(i * 7 + number));
  entry.executable = executable.SerializeAsString();
  return entry;
}

}  // namespace kiln::store::testing
