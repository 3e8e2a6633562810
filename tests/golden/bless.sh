#!/bin/sh
# Writes the goldens anew. Run by `bazel run`, which names the source tree.
KILN_BLESS="$BUILD_WORKSPACE_DIRECTORY/tests/golden" exec tests/golden/golden_test
