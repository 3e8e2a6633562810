"""tinygrad on a Kiln server: `import kiln.tinygrad`, and there are devices KILN, KILN:1, ….

    import kiln.tinygrad
    from tinygrad import Tensor

    print((Tensor([1.0, 2.0, 3.0], device="KILN") * 2).tolist())

KILN_ADDR names the server (or connect()), KILN_LEVEL what is sent to it:

    T   the tensor graph of a whole realize: Kiln fuses, splits and optimizes it (default)
    K   tinygrad splits kernels, Kiln optimizes and lowers each
    L   tinygrad also optimizes and linearizes them

stats() counts what was sent and, by reason, what did not go the way that was asked.
For tinygrad 0.14; docs/tinygrad.md has the whole story.
"""

import kiln.tinygrad.hooks as hooks
from kiln.tinygrad.server import client, connect, reset_stats, stats
from kiln.tinygrad.stats import Stats

__all__ = ["Stats", "client", "connect", "reset_stats", "stats"]

hooks.install()
