"""A plugin of pytest for the array-api-tests: which of them cannot pass, and why. Each row is a pattern and a reason.

What is skipped is about something that Kiln has not. What is expected to fail is tried all the same, and a
pass is a failure then: so the list stays true.
"""

import re

import pytest

COMPLEX = "Kiln has no complex numbers"
CHANGES = "an array does not change: make another with kiln.where"

SKIPPED = (
    (r"test_special_cases\.py::.*(real|imag)\(", COMPLEX),
    (r"test_has_names\.py::test_has_names\[fft-", COMPLEX + ", which fft is of"),
    (r"test_linalg\.py::test_vecdot_conj", COMPLEX),
)
SOMETIMES = ((r"test_creation_functions\.py::test_asarray_arrays", CHANGES),)  # by the examples that are tried
FAILING = (
    (r"test_array_object\.py::test_setitem", CHANGES),
    (r"test_dlpack\.py::test_dunder_dlpack", "copy=False: what another process sees of an array on a device is a copy"),
    (
        r"test_special_cases\.py::.*floor_?div.*infinity\) -> -0\]",
        "the greatest whole number below is -1, as numpy has it",
    ),
)


def pytest_collection_modifyitems(items):
    for item in items:
        for rows, mark in ((SKIPPED, pytest.mark.skip), (SOMETIMES, pytest.mark.xfail), (FAILING, pytest.mark.xfail)):
            for pattern, reason in rows:
                if re.search(pattern, item.nodeid):
                    item.add_marker(mark(reason=reason, **({"strict": True} if rows is FAILING else {})))
                    break
