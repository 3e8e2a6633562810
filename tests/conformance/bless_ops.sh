#!/bin/sh
# Writes docs/ops.md anew. Run by `bazel run`, which names the source tree.
KILN_BLESS="$BUILD_WORKSPACE_DIRECTORY" exec tests/conformance/op_table_test
