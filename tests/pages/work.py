"""Tenants that keep a server busy, so that its pages have something to show."""

import contextlib
import hashlib
import threading

import numpy as np

import kiln
from kiln import nn

# name, weight, class, and what its program multiplies.
TENANTS = (("training", 1, "", 384), ("vision", 2, "", 192), ("serving", 3, "class: INTERACTIVE", 96))
QUIET = "quiet"  # runs what a test counts, and nothing else


def tenants_file():
    rows = [(name, "weight: %d %s" % (weight, more)) for name, weight, more, _ in TENANTS]
    rows.append((QUIET, "quota { device_bytes: 268435456 sessions: 2 }"))
    return "".join('tenant { name: "%s" token { sha256: "%s" } %s }\n' % (name, hashlib.sha256(name.encode()).hexdigest(), more)
                   for name, more in rows)  # fmt: skip


def products(size):
    """relu(a @ b) @ b."""
    graph = kiln.Graph()
    a, b = graph.param("a", (size, size)), graph.param("b", (size, size))
    graph.output(nn.relu(a @ b) @ b)
    return graph


def small(number):
    """One of many: no two have the same graph."""
    graph = kiln.Graph()
    x = graph.param("x", (16,))
    graph.output(x * float(number) + 1.0)
    return graph


def keep_busy(address, name, size, device, stop):
    with kiln.connect(address, token=name) as client:
        program = client.compile(products(size), device=device)
        a = client.buffer(np.ones((size, size), np.float32), device=device)
        while not stop.is_set():
            program.run([a, a])


@contextlib.contextmanager
def busy(address):
    """Two callers of each tenant on the first device, one of the last tenant on the second."""
    stop = threading.Event()
    wanted = [(name, size, "CPU:0") for name, _, _, size in TENANTS for _ in range(2)]
    wanted.append((TENANTS[-1][0], TENANTS[-1][3], "CPU:1"))
    threads = [threading.Thread(target=keep_busy, args=(address, *each, stop)) for each in wanted]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
