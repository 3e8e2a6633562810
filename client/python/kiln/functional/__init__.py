"""Arrays and functions of them: kiln.array, kiln.jit, kiln.grad and what goes with these.

Begin at array.py and jit.py; docs/python_functions.md shows it by example.
"""
