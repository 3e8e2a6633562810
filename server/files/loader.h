// Tensors from files of the server's to buffers: a model's weights need not travel.
#ifndef KILN_SERVER_FILES_LOADER_H_
#define KILN_SERVER_FILES_LOADER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/engine/buffers.h"
#include "server/engine/programs/compile_pool.h"
#include "server/files/data_folder.h"
#include "server/files/tensor_file.h"

namespace kiln::server {

struct LoadedTensor {
  std::string name;
  NamedBuffer buffer;
};

// Safe from any thread. One thread reads: a slow disk delays loads alone. Callers share it by their weights
// (CompilePool), and a large file goes back into the line again and again, so nobody waits until another's is read.
class Loader {
 public:
  using ListCallback = absl::AnyInvocable<void(absl::StatusOr<std::vector<StoredTensor>>)>;
  using LoadCallback = absl::AnyInvocable<void(absl::StatusOr<std::vector<LoadedTensor>>)>;

  // `buffers` outlives the loader.
  Loader(std::unique_ptr<DataFolder> folder, Buffers* buffers) : folder_(std::move(folder)), buffers_(buffers) {}

  // What is in a file. The errors of DataFolder::Find and ListTensors. Callbacks come
  // once each, on the loader's thread.
  void List(std::string file, const Control& control, ListCallback done);

  // New buffers of `caller`'s on `device` (empty: the first), for the tensors of these
  // names in their order, or for all if there are none. Besides the errors above:
  // BAD_ARGUMENT for a name that is not there, and those of Buffers::Allocate. Then
  // nothing stays.
  void Load(std::string file, std::vector<std::string> names, std::string device, SessionPtr caller,
            const Control& control, LoadCallback done);

 private:
  struct UnderWay;
  struct Found {
    std::shared_ptr<const DataFile> file;
    std::vector<StoredTensor> tensors;
  };
  absl::StatusOr<Found> Find(const std::string& file) const;
  // What is to be read.
  absl::Status Begin(UnderWay& load);
  // Allocates and fills for a turn; whether all has been read.
  absl::StatusOr<bool> ReadOn(UnderWay& load);
  // One turn, and then the next, until it has been answered.
  void Continue(std::shared_ptr<UnderWay> load);

  const std::unique_ptr<DataFolder> folder_;
  Buffers* const buffers_;
  CompilePool thread_{1};
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FILES_LOADER_H_
