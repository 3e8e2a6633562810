// BLAKE3-256, as LLVM ships it.
#ifndef KILN_BASE_BLAKE3_H_
#define KILN_BASE_BLAKE3_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/digest.h"

namespace kiln {

// Hashes what is fed to it in any number of pieces. One thread at a time.
class Blake3 {
 public:
  Blake3();

  // Back to the state of a new hasher.
  void Reset();

  void Update(const void* data, size_t size);
  void Update(absl::string_view data) { Update(data.data(), data.size()); }

  // The digest of all fed so far; feeding may go on after it.
  Digest Finish() const;

 private:
  // LLVM's hasher, whose header stays out of ours; blake3.cc checks the size.
  alignas(8) std::byte state_[1912];
};

// The digest of one piece.
Digest Blake3Of(absl::string_view data);
// The same with a key: a code that only who has the key can make.
Digest KeyedBlake3Of(const Digest& key, absl::string_view data);

}  // namespace kiln

#endif  // KILN_BASE_BLAKE3_H_
