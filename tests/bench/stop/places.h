// The rows of ./dev bench stop, a function for each family of places.
#ifndef KILN_TESTS_BENCH_STOP_PLACES_H_
#define KILN_TESTS_BENCH_STOP_PLACES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"
#include "server/engine/programs/compile_fn.h"
#include "tests/bench/stop/stops.h"

namespace kiln::bench {

// In a kernel, and between kernels, on a CPU with so many threads; 0: one a core.
void RunRows(Stops& stops, uint32_t threads);
// In the queue for a device, and in the middle of what several devices do together.
void DeviceRows(Stops& stops);
// While a request is read: decoding, and hashing its graph.
void RequestRows(Stops& stops);
// Waiting for a thread that compiles, in a worker, and in a search for schedules.
void CompileRows(Stops& stops);
// Loading programs, and tensors from files.
void LoadRows(Stops& stops);
// Bytes to devices, from them, and between them.
void TransferRows(Stops& stops);

// What a worker of this program compiles with: as a server does, and a graph that says so for ever.
absl::StatusOr<server::CompiledProgram> CompileInWorker(const v1::Graph& graph, const v1::Target& target,
                                                        const compiler::Options& options,
                                                        compiler::CompileObserver* observer);

// x + 0, x + 1, and so on, all added up: of about so many nodes, of which none can be left out.
v1::Graph LargeGraph(uint32_t nodes);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_STOP_PLACES_H_
