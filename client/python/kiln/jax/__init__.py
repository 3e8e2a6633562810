"""Functions written with jax.numpy, run on a Kiln server: kiln.jax.jit. Needs jax (the package's extra `jax`)."""

from kiln.help import describe as _describe
from kiln.jax.jit import jit
from kiln.jax.pmap import pmap

__all__ = ["jit", "pmap"]
_describe({"jit": jit, "pmap": pmap}, "jax.")


def __dir__() -> "list[str]":
    return sorted(__all__)
