"""Rows and cases: what an operator table says.

A row is one tinygrad expression over the names x, y, z, w, and what is to be
known about it:

    Row("x.maximum(y)", "np.maximum(x, y)", on=["3,4; 4", "2,1; 1,3"], dtypes=FLOATS, grad="x y", ulp=0)

`on` lists the inputs: each string gives x; y; z; w as SHAPE[:WORD…], where a
word is a kind of values (values.py) or a dtype that stands instead of the row's.
A scalar's shape is empty. `on` and dtypes make cases (dtypes_of says which),
and one more each where the row says which inputs have a gradient. Statements may stand
before the expression, separated by semicolons.
"""

import dataclasses

from values import ALL, FLOAT, FLOAT8, FLOATS, INTS, SIGNED, UNSIGNED, is_float  # noqa: F401: what tables need

@dataclasses.dataclass(frozen=True)
class Row:
    code: str  # in tinygrad
    numpy: str = ""  # the same by numpy, in more precision; without it only tinygrad's CPU device judges
    on: tuple = ("3,4",)
    dtypes: tuple = FLOAT
    grad: str = ""  # names of the inputs whose gradients are compared, in a case of their own
    ulp: float | None = None  # most distance of any element in units of the last place; else `norm`
    norm: float = 64  # most distance in units of the dtype's epsilon times the largest element
    cpu: bool = True  # False where the C of tinygrad's CPU device leaves the result open
    either: bool = False  # True where numpy and the CPU device differ, and both are right
    levels: str = "TKL"  # less where tinygrad itself lowers to something else, or its table says why
    seconds: float = 0  # most that the case may take at level T, cold; 0: no limit
    covers: str = ""  # public methods that the row reaches without naming them


@dataclasses.dataclass(frozen=True)
class Case:
    kind: str
    row: Row
    on: str
    dtype: str
    gradient: bool

    @property
    def name(self):
        where = "%s [%s] %s" % (self.row.code, self.on, self.dtype)
        return "%s: %s%s" % (self.kind, where, " gradient of " + self.row.grad if self.gradient else "")


@dataclasses.dataclass
class Outcome:
    name: str
    dtypes: list  # of each result, as tinygrad names them
    results: list  # arrays; bfloat16 and float8 widened to float32
    seconds: float
    fallbacks: dict
    key: str = ""
    error: str = ""


def dtypes_of(row, number):
    """All for a row's first shapes and for chosen values; other shapes: the first dtype, and one of the rest in turn."""
    if number == 0 or ":" in row.on[number]:
        return row.dtypes
    rest = row.dtypes[1:]
    return row.dtypes[:1] + ((rest[number % len(rest)],) if rest else ())


def cases_of(kind, rows):
    for row in rows:
        for number, on in enumerate(row.on):
            for dtype in dtypes_of(row, number):
                yield Case(kind, row, on, dtype, False)
                if row.grad and is_float(dtype) and (number == 0 or dtype == row.dtypes[0]):
                    yield Case(kind, row, on, dtype, True)
