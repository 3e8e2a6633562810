"""All files that put rules into the table; importing this one fills it."""

from kiln.jax import collectives, control, elementwise, gathers, keys, matrices, movement, products, reductions, sorting, special, windows

__all__ = ["collectives", "control", "elementwise", "gathers", "keys", "matrices", "movement", "products", "reductions", "sorting", "special", "windows"]
