// MPI as a Wire, by a library that is loaded when it is wanted.
#ifndef KILN_RUNTIME_CLUSTER_MPI_WIRE_H_
#define KILN_RUNTIME_CLUSTER_MPI_WIRE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/cluster/wire.h"

namespace kiln::runtime::cluster {

// What the environment tells of the job that a launcher (mpirun, or srun --mpi=pmix)
// made of this process: its size, 0 if there is none. MPI is not needed for that.
uint32_t LaunchedRanks();
uint32_t LaunchedRank();
// How many of the job's ranks are on this machine, at least 1, and which of them this is.
uint32_t RanksOnThisHost();
uint32_t NumberOnThisHost();

// Joins the job. `library` is the path of libkiln_mpi.so. UNAVAILABLE if it, or the MPI
// that it wants, is not there, or MPI refuses.
absl::StatusOr<std::unique_ptr<Wire>> JoinMpi(const std::string& library);

}  // namespace kiln::runtime::cluster

#endif  // KILN_RUNTIME_CLUSTER_MPI_WIRE_H_
