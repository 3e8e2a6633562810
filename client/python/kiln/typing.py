"""Names for annotations, as numpy.typing has them.

    def normed(x: kiln.typing.ArrayLike, axis: kiln.typing.Axis = None) -> kiln.Array: ...

To a type checker a function of the package gives a Tensor for a Tensor, of a graph, and an Array for all else. What
stands for an array in a jitted function is annotated as what it stands for: kiln.Array.

    ArrayLike  what becomes an array where a function of the package meets it
    Operand    beside a Tensor: what may be the other operand
    DTypeLike  what names a dtype: kiln.float32, np.float32, float, "float32"; None: the function's own choice
    Axis       one axis or several, counted from 0 or from the end; None: all
    ShapeLike  a size or several; symbolic ones in graphs
"""

from __future__ import annotations

from typing import Any, Sequence, Union

import numpy as np

from kiln.dims import Dim
from kiln.dtypes import DType
from kiln.functional.array import Array
from kiln.tensor import Tensor

ArrayLike = Union[Array, "np.ndarray[Any, Any]", np.generic, bool, int, float, Sequence[Any]]
Operand = Union[Tensor, ArrayLike]
DTypeLike = Union[DType, "np.dtype[Any]", type, str, None]
Axis = Union[int, Sequence[int], None]
ShapeLike = Union[int, Dim, Sequence[Union[int, Dim]]]
__all__ = ["ArrayLike", "Axis", "DTypeLike", "Operand", "ShapeLike"]
