"""What the array API standard (data-apis.org) asks of an array beside its operators: its namespace, and DLPack."""

from __future__ import annotations

from typing import Any, Optional, Tuple

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
# DLPack's number of memory that the host reads.
_HOST = 1


def namespace(api_version: Optional[str]) -> Any:
    """kiln.numpy; ValueError for a version of the standard that it does not know."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError("there is no version %r of the array API standard here: %s" % (api_version, ", ".join(VERSIONS)))
    import kiln.numpy  # which stands on arrays

    return kiln.numpy


class Standard:
    """Of kiln.Array."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: Optional[str] = None) -> Any:
        return namespace(api_version)

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """The array on another device of its client; itself, if it is there already."""
        from kiln.functional.making import array

        return array(self, client=self.client, device=device)  # type: ignore[attr-defined]

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Optional[bool] = None) -> Any:
        """A copy of its content in the host's memory, to which all devices' arrays are read."""
        if copy is False:
            raise BufferError("it is on a device: what another package sees of it is a copy")
        if dl_device not in (None, (_HOST, 0)):
            raise BufferError("an array is exported to the host's memory, not to the device %s" % (dl_device,))
        return self.numpy().__dlpack__()  # type: ignore[attr-defined]

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (_HOST, 0)

    def __complex__(self) -> complex:
        return complex(self.numpy())  # type: ignore[attr-defined]
