#include "server/fair/lane.h"

#include <string>
#include <utility>

#include "server/fair/long_transfer.h"

namespace kiln::server {

using runtime::hal::BufferSlice;
using runtime::hal::DoneCallback;
using runtime::hal::Queue;

void Lane::Take(uint64_t bytes, Submit submit, DoneCallback done) {
  const uint64_t estimate_ns = TransferNs(bytes);
  turns_.Take({control_, {&device_}, estimate_ns}, [&device = device_, estimate_ns, submit = std::move(submit),
                                                    done = std::move(done)](absl::StatusOr<Turn> turn) mutable {
    if (!turn.ok()) return done(std::move(turn).status());
    submit(device.queue(), [estimate_ns, turn = *std::move(turn), done = std::move(done)](absl::Status status) mutable {
      turn.End(estimate_ns);
      done(std::move(status));
    });
  });
}

void Lane::Copy(BufferSlice from, BufferSlice to, DoneCallback done) {
  const uint64_t bytes = from.bytes;
  Take(
      bytes,
      [&device = device_, control = control_, from = std::move(from), to = std::move(to)](Queue&,
                                                                                          DoneCallback ended) mutable {
        LongCopy(device, std::move(from), std::move(to), control, std::move(ended));
      },
      std::move(done));
}

void Lane::Write(const void* from, BufferSlice to, DoneCallback done) {
  const uint64_t bytes = to.bytes;
  Take(
      bytes,
      [&device = device_, control = control_, from, to = std::move(to)](Queue&, DoneCallback ended) mutable {
        LongWrite(device, from, std::move(to), control, std::move(ended));
      },
      std::move(done));
}

void Lane::WritePieces(std::vector<absl::string_view> pieces, BufferSlice to, DoneCallback done) {
  const uint64_t bytes = to.bytes;
  Take(
      bytes,
      [pieces = std::move(pieces), to = std::move(to)](Queue& queue, DoneCallback ended) mutable {
        queue.WritePieces(std::move(pieces), std::move(to), std::move(ended));
      },
      std::move(done));
}

void Lane::Read(BufferSlice from, void* to, DoneCallback done) {
  const uint64_t bytes = from.bytes;
  Take(
      bytes,
      [&device = device_, control = control_, from = std::move(from), to](Queue&, DoneCallback ended) mutable {
        LongRead(device, std::move(from), to, control, std::move(ended));
      },
      std::move(done));
}

void Lane::Fill(BufferSlice to, absl::string_view pattern, DoneCallback done) {
  const uint64_t bytes = to.bytes;
  Take(
      bytes,
      [&device = device_, control = control_, to = std::move(to), pattern = std::string(pattern)](
          Queue&, DoneCallback ended) mutable { LongFill(device, std::move(to), pattern, control, std::move(ended)); },
      std::move(done));
}

void Lane::Pass(DoneCallback done) {
  Take(
      0,
      [](Queue& queue, DoneCallback ended) {
        queue.Submit([ended = std::move(ended)]() mutable { ended(absl::OkStatus()); }, /*estimate_ns=*/0);
      },
      std::move(done));
}

}  // namespace kiln::server
