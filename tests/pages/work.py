"""Tenants that keep a server busy, so that its pages have something to show."""

import contextlib
import hashlib
import pathlib
import threading

import numpy as np

import kiln

# name, weight, class, and what its program multiplies.
TENANTS = (("training", 1, "", 384), ("vision", 2, "", 192), ("serving", 3, "class: INTERACTIVE", 96))
AXE = ".pages-tools/node_modules/axe-core/axe.min.js"  # where ./dev pages has it
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
    graph.output(kiln.relu(a @ b) @ b)
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


# What `kiln load` sends for them, and one that has its graph compiled anew each time.
DAY = """
tenant training token_file=training.token
tenant vision token_file=vision.token
tenant serving token_file=serving.token connections=2
class train   tenant=training graph=training.pb rate=12 outstanding=4
class resize  tenant=vision graph=vision.pb rate=40 outstanding=8
class lookup  tenant=serving graph=serving.pb rate=120 deadline=100ms outstanding=16
class feed    tenant=training kind=upload bytes=2M rate=4
class try     tenant=vision kind=compile graph=try.uop rate=2
"""
TRY = "0 CONST [] weakint {n}\n1 PARAM : float32 [0] slot=0\n2 CONST [] float32 1.0\n3 ADD [1, 2]\n4 TUPLE [3]\n"


def day(folder):
    """The path of a mix in `folder`."""
    there = pathlib.Path(folder)
    for name, _, _, size in TENANTS:
        (there / (name + ".token")).write_text(name)
        (there / (name + ".pb")).write_bytes(products(size).build().SerializeToString())
    (there / "try.uop").write_text(TRY)
    path = there / "day.load"
    path.write_text(DAY.replace("_file=", "_file=%s/" % there).replace("graph=", "graph=%s/" % there))
    return str(path)
