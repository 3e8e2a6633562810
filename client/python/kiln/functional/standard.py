"""What the array API standard (data-apis.org) asks of an array beside its operators: its namespace, other devices, DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from kiln.interchange.dlpack import Exported

if TYPE_CHECKING:
    from kiln.functional.array import Array

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def namespace(api_version: Optional[str]) -> Any:
    """kiln.numpy; ValueError for a version of the standard that it does not know."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError("there is no version %r of the array API standard here: %s" % (api_version, ", ".join(VERSIONS)))
    import kiln.numpy  # which stands on arrays

    return kiln.numpy


class Standard(Exported):
    """Of kiln.Array."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: Optional[str] = None) -> Any:
        return namespace(api_version)

    def to_device(self, device: str, /, *, stream: Any = None) -> "Array":
        """The array on another device of its client; itself, if it is there already."""
        from kiln.functional.making import array

        return array(self, client=self.client, device=device)  # type: ignore[attr-defined]

    def _exported(self) -> Any:
        return self.buffer  # type: ignore[attr-defined]

    def __complex__(self) -> complex:
        return complex(self.numpy())  # type: ignore[attr-defined]
