/* What kilnd wants of MPI: the one symbol of libkiln_mpi.so, `kiln_mpi_table`.
 *
 * kilnd itself knows no MPI library, so it starts where there is none; the small library
 * that does is loaded by a server that an MPI launcher started.
 *
 * All calls come from one thread. Each returns 0, or a code that `explain` explains. */
#ifndef KILN_RUNTIME_CLUSTER_MPI_TABLE_H_
#define KILN_RUNTIME_CLUSTER_MPI_TABLE_H_

#include <cstdint>

extern "C" {

constexpr uint32_t kKilnMpiVersion = 1;

/* A transfer under way. */
struct KilnMpiRequest;

struct KilnMpiTable {
  uint32_t version;
  /* Joins the job that the launcher made. Tags are at most `max_tag`. */
  int (*open)(uint32_t* rank, uint32_t* size, uint32_t* max_tag);
  /* "Open MPI v4.1.4", for people; lives for ever. */
  const char* (*library)();
  int (*send_message)(uint32_t to, const void* bytes, uint64_t count, KilnMpiRequest** request);
  int (*send)(uint32_t to, uint32_t tag, const void* bytes, uint64_t count, KilnMpiRequest** request);
  int (*receive)(uint32_t from, uint32_t tag, void* to, uint64_t count, KilnMpiRequest** request);
  /* Once it has ended, or failed, the request is no more. */
  int (*test)(KilnMpiRequest* request, int* ended);
  /* Of a receipt. It ends soon, with something or without. */
  void (*cancel)(KilnMpiRequest* request);
  void (*abandon)(KilnMpiRequest* request);
  /* Looks for a message; what it finds must be taken before the next look. It is there
   * when the request has ended. */
  int (*find_message)(int* found, uint32_t* from, uint64_t* count);
  int (*take_message)(void* to, KilnMpiRequest** request);
  /* `together`: every rank calls it now. */
  void (*close)(int together);
  /* Writes at most `room` bytes, a last 0 among them. */
  void (*explain)(int code, char* text, uint64_t room);
};

}  // extern "C"

#endif  // KILN_RUNTIME_CLUSTER_MPI_TABLE_H_
