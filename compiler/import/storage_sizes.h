// How large storage must be that a client sent without a shape.
//
// The older documents' DEFINE_GLOBAL says a slot and a dtype and no size. Then it
// is the least that holds every access, as the intervals of their indices say:
// the graph is read once with storage that is larger than any, the accesses are
// looked at, and it is read again with these sizes.
#ifndef KILN_COMPILER_IMPORT_STORAGE_SIZES_H_
#define KILN_COMPILER_IMPORT_STORAGE_SIZES_H_

#include "absl/status/statusor.h"
#include "compiler/import/program_importer.h"

namespace kiln::compiler {

// Whether any storage of the graph lacks its shape.
bool LacksShapes(const v1::Graph& wire);

// For each of `unsized` (ProgramImporter::unsized), by its node, what the accesses
// under `root` need. BAD_ARGUMENT, the node named, where an index has no bound
// worth the name, or the storage is used whole.
absl::StatusOr<StorageSizes> LeastSizes(UOp* root, const std::vector<std::pair<uint32_t, UOp*>>& unsized,
                                        const v1::Graph& wire);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_STORAGE_SIZES_H_
