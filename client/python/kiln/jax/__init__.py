"""Functions written with jax.numpy, run on a Kiln server: kiln.jax.jit. Needs jax (the package's extra `jax`)."""

from kiln.jax.jit import jit
from kiln.jax.pmap import pmap

__all__ = ["jit", "pmap"]
