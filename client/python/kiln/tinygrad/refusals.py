"""What the server refuses to compile goes down a level, and is counted.

A graph of tinygrad's is right in its own words; where the server does not take it, or
will not, its kernels do the same. Only what has nothing to do with the graph is raised:
a server that is not there, or that fails.
"""

from __future__ import annotations

import kiln

_OF_GRAPHS = (kiln.InvalidArgument, kiln.Unimplemented, kiln.ResourceExhausted, kiln.PermissionDenied)


def refusal(error: kiln.KilnError) -> str:
    """The reason to count; raises `error` where it is no refusal of a graph."""
    if not isinstance(error, _OF_GRAPHS):
        raise error
    return "server: %s %s" % (error.code, error.op or "")
