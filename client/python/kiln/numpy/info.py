"""__array_namespace_info__: what the standard asks a namespace about itself."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from kiln import dtypes as _dtypes
from kiln.dtypes import DType, float64, int64
from kiln.errors import InvalidArgument
from kiln.functional.current import current
from kiln.functional.tracing import active
from kiln.numpy.types import KINDS, isdtype

# The standard's; beside them Kiln has float16, bfloat16 and floats of 8 bits, and it has no complex numbers.
_STANDARD = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()


class Info:
    def capabilities(self) -> Dict[str, Any]:
        """A mask as an index is read, and so is what unique_values and its like take; not in a jitted function."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        trace = active()
        client = current() if trace is None else trace.client
        return client.device or client.devices()[0].name

    def devices(self) -> List[str]:
        trace = active()
        return [device.name for device in (current() if trace is None else trace.client).devices()]

    def default_dtypes(self, *, device: Optional[str] = None) -> Dict[str, Optional[DType]]:
        """numpy's. There is none of complex numbers."""
        return {"real floating": float64, "complex floating": None, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Optional[str] = None, kind: Any = None) -> Dict[str, DType]:
        kinds = kind if isinstance(kind, tuple) else (kind,)
        unknown = [one for one in kinds if one is not None and one not in KINDS]
        if unknown:
            raise InvalidArgument(
                "there is no kind of dtypes %r" % unknown[0], code="BAD_ARGUMENT", remedy=", ".join(KINDS)
            )
        every = {name: getattr(_dtypes, name if name != "bool" else "bool_") for name in _STANDARD}
        return {name: one for name, one in every.items() if kind is None or isdtype(one, kinds)}


def __array_namespace_info__() -> Info:
    return Info()
