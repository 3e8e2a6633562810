// The source target: text in a C-like language, for people and for builds.
#ifndef KILN_COMPILER_TARGET_CSTYLE_CSTYLE_TARGET_H_
#define KILN_COMPILER_TARGET_CSTYLE_CSTYLE_TARGET_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// The target whose objects are text in the language called `dialect`: c, cuda,
// hip, opencl or metal. BAD_ARGUMENT, with the names, for any other.
absl::StatusOr<v1::Target> SourceTarget(absl::string_view dialect);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_CSTYLE_TARGET_H_
