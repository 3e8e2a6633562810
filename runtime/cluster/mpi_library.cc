// libkiln_mpi.so: what kilnd wants of MPI, and the only file that includes its header.
//
// Messages and parcels have a communicator each, so that looking for messages of unknown
// length never finds a parcel. No thread of MPI's own is needed, and no more than one of
// ours comes in.
// The C++ bindings are of another time.
#define OMPI_SKIP_MPICXX 1
#include <mpi/mpi.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <string>

#include "runtime/cluster/mpi_table.h"

struct KilnMpiRequest {
  MPI_Request request = MPI_REQUEST_NULL;
};

namespace {

MPI_Comm messages = MPI_COMM_NULL;
MPI_Comm parcels = MPI_COMM_NULL;
MPI_Message found_message = MPI_MESSAGE_NULL;
uint64_t found_count = 0;

int Open(uint32_t* rank, uint32_t* size, uint32_t* max_tag) {
  int given = 0;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given)) return code;
  // A rank that dies is the caller's affair, not the end of this process.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (MPI_Comm* made : {&messages, &parcels}) {
    if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, made)) return code;
    MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
  }
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  *rank = static_cast<uint32_t>(number);
  MPI_Comm_size(MPI_COMM_WORLD, &number);
  *size = static_cast<uint32_t>(number);
  int* most = nullptr;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &known);
  *max_tag = known != 0 ? static_cast<uint32_t>(*most) : 32767;  // what every MPI has
  return 0;
}

const char* Library() {
  static const std::string* const name = [] {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    return new std::string(text, std::strcspn(text, ",\n"));
  }();
  return name->c_str();
}

// Keeps the request if it was begun.
template <typename Begin>
int Start(uint64_t count, KilnMpiRequest** request, const Begin& begin) {
  if (count > INT_MAX) return MPI_ERR_COUNT;
  auto* const made = new KilnMpiRequest();
  const int code = begin(static_cast<int>(count), &made->request);
  if (code != 0) {
    delete made;
    return code;
  }
  *request = made;
  return 0;
}

int SendMessage(uint32_t to, const void* bytes, uint64_t count, KilnMpiRequest** request) {
  return Start(count, request, [&](int length, MPI_Request* made) {
    return MPI_Isend(bytes, length, MPI_BYTE, static_cast<int>(to), 0, messages, made);
  });
}

int Send(uint32_t to, uint32_t tag, const void* bytes, uint64_t count, KilnMpiRequest** request) {
  return Start(count, request, [&](int length, MPI_Request* made) {
    return MPI_Isend(bytes, length, MPI_BYTE, static_cast<int>(to), static_cast<int>(tag), parcels, made);
  });
}

int Receive(uint32_t from, uint32_t tag, void* to, uint64_t count, KilnMpiRequest** request) {
  return Start(count, request, [&](int length, MPI_Request* made) {
    return MPI_Irecv(to, length, MPI_BYTE, static_cast<int>(from), static_cast<int>(tag), parcels, made);
  });
}

int Test(KilnMpiRequest* request, int* ended) {
  const int code = MPI_Test(&request->request, ended, MPI_STATUS_IGNORE);
  if (code != 0 || *ended != 0) delete request;
  return code;
}

void Cancel(KilnMpiRequest* request) { MPI_Cancel(&request->request); }

void Abandon(KilnMpiRequest* request) {
  MPI_Request_free(&request->request);
  delete request;
}

int FindMessage(int* found, uint32_t* from, uint64_t* count) {
  MPI_Status status;
  const int code = MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, messages, found, &found_message, &status);
  if (code != 0 || *found == 0) return code;
  int length = 0;
  MPI_Get_count(&status, MPI_BYTE, &length);
  found_count = *count = static_cast<uint64_t>(length);
  *from = static_cast<uint32_t>(status.MPI_SOURCE);
  return 0;
}

int TakeMessage(void* to, KilnMpiRequest** request) {
  // The rest of a long one may be on its way, and its sender dead.
  return Start(found_count, request,
               [&](int length, MPI_Request* made) { return MPI_Imrecv(to, length, MPI_BYTE, &found_message, made); });
}

void Close(int together) {
  // Without the others it would wait for them; the launcher must do with an exit code.
  if (together != 0) MPI_Finalize();
}

void Explain(int code, char* text, uint64_t room) {
  char whole[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, whole, &length) != 0) length = 0;
  const auto taken = std::min<uint64_t>(static_cast<uint64_t>(length), room - 1);
  std::memcpy(text, whole, taken);
  text[taken] = 0;
}

}  // namespace

extern "C" const KilnMpiTable kiln_mpi_table = {kKilnMpiVersion, Open,  Library, SendMessage, Send,
                                                Receive,         Test,  Cancel,  Abandon,     FindMessage,
                                                TakeMessage,     Close, Explain};
