"""kiln.numpy: numpy's functions by numpy's names, and the array API standard's (2024.12) by its own.

    import kiln.numpy as knp

    x = knp.linspace(0, 1, 5)
    print(knp.sort(knp.sin(3 * x), descending=True))

They take arrays (kiln.Array), at once, and traced values in a jitted function. names.py says which composition each
is; creation.py makes arrays, host.py has what is computed here, random.py and linalg.py are namespaces of their own.
docs/python_arrays.md lists what there is and what differs.
"""

import math as _math

from kiln.dtypes import (
    bfloat16,
    bool_,
    bool_ as bool,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from kiln.functional.making import array
from kiln.functional.names import offer as _offer, offer_fft as _offer_fft, offer_linalg as _offer_linalg
from kiln.help import describe as _describe
from kiln.numpy import linalg, random
from kiln.numpy.creation import (
    arange,
    asarray,
    astype,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    identity,
    linspace,
    ones,
    ones_like,
    tri,
    zeros,
    zeros_like,
)
from kiln.numpy.host import (
    argwhere,
    bincount,
    flatnonzero,
    nonzero,
    repeat,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from kiln.numpy.info import __array_namespace_info__
from kiln.numpy.names import functions_by_name as _functions_by_name, functions_of_fft as _functions_of_fft
from kiln.numpy.types import can_cast, finfo, iinfo, isdtype, result_type

__array_api_version__ = "2024.12"
e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None

_functions = _functions_by_name()
globals().update(_functions)
# numpy's functions of these names are ours for arrays and traced values: np.sort(x) is kiln.numpy.sort(x).
_offer({**_functions, "argwhere": argwhere, "bincount": bincount, "repeat": repeat})
_offer_linalg({name: getattr(linalg, name) for name in linalg.__all__})
_offer_fft(_functions_of_fft())

_parts = {"creation", "host", "info", "large", "names", "types"}  # whose functions are above
__all__ = [name for name in dir() if not name.startswith("_") and name not in _parts]
__all__ += ["__array_api_version__", "__array_namespace_info__"]

_describe({name: globals()[name] for name in __all__})
for _part in (linalg, random):
    _describe({name: getattr(_part, name) for name in _part.__all__}, "random." if _part is random else "")


def __dir__() -> "list[str]":
    return sorted(__all__)
