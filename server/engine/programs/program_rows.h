// Where a program has rows: what of it each of several callers may bring, and gets, some of.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_ROWS_H_
#define KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kiln/v1/executable.pb.h"

namespace kiln::server {

struct ProgramRows {
  // How many rows there are: an index into the signature's variables; and the most that it may be.
  size_t variable = 0;
  int64_t most = 0;
  // Which of the signature's have rows; the others are the same for all.
  std::vector<bool> parameters, results;
};

// By the first variable that the compiler says is row-wise (compiler/batch/row_wise.h); nothing if none is.
std::optional<ProgramRows> RowsOf(const v1::Signature& signature);

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_ROWS_H_
