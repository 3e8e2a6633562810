"""The table, filled: these files put rules into it."""

from kiln.jax import collectives, control, elementwise, gathers, keys, matrices, movement, products
from kiln.jax import reductions, sorting, special, windows
from kiln.jax.table import RULES

FILES = (
    collectives, control, elementwise, gathers, keys, matrices, movement, products, reductions, sorting, special,
    windows,
)  # fmt: skip

__all__ = ["FILES", "RULES"]
