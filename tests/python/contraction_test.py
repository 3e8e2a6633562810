"""Contraction: a step in one kernel and the same step op by op, and the switch that makes them equal to the last bit."""

import asyncio
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln
import kiln.aio

# Whether this processor has what a product and a sum are contracted to.
WORDS = set(pathlib.Path("/proc/cpuinfo").read_text().split())
HAS_FMA = bool(WORDS & {"fma", "fma4", "asimd"})

N = 4096
RNG = np.random.default_rng(24)
A, B, C = (RNG.standard_normal(N).astype(np.float32) for _ in range(3))


def graph_of(function, count):
    graph = kiln.Graph()
    graph.output(function(*(graph.param("xyz"[at], (N,)) for at in range(count))))
    return graph


def fused():
    return graph_of(lambda x, y, z: x * y + z, 3)


def in_place():
    graph = kiln.Graph()
    x, y, z = (graph.param(name, (N,)) for name in "xyz")
    graph.update(z, x * y + z)
    return graph


class Contraction(support.ServerTest):
    def eagerly(self, client, a=A, b=B, c=C):
        """Product and sum in a program each."""
        product, total = (client.compile(graph_of(f, 2)) for f in (lambda x, y: x * y, lambda x, y: x + y))
        return total(product(a, b, out="buffers"), c)

    def test_without_the_switch_a_fused_step_differs_a_little(self):
        one, other = self.client.compile(fused())(A, B, C), self.eagerly(self.client)
        np.testing.assert_array_equal(other, A * B + C)
        self.assertEqual((one != other).any(), HAS_FMA)
        np.testing.assert_allclose(one, other, rtol=0, atol=5e-7)

    def test_with_it_they_are_equal_to_the_last_bit(self):
        with kiln.connect(self.server.address, no_contraction=True) as client:
            self.assertTrue(client.options.no_contraction)
            for program in (client.compile(fused()), self.client.compile(fused(), no_contraction=True)):
                self.assertEqual(program(A, B, C).tobytes(), self.eagerly(client).tobytes())
                self.assertTrue(program.options.no_contraction)
            again = client.compile(fused(), no_contraction=False)
            self.assertEqual((again(A, B, C) != A * B + C).any(), HAS_FMA)

    def test_it_holds_for_recordings_gradients_and_what_is_forgotten(self):
        with kiln.connect(self.server.address, no_contraction=True) as client:
            x, y, z = client.buffer(A), client.buffer(B), client.buffer(C)
            update = client.compile(in_place())
            client.record([(update, [kiln.Memory(0), kiln.Memory(1), kiln.Memory(2)])] * 2)(x, y, z)
            np.testing.assert_array_equal(z.numpy(), A * B + (A * B + C))
            graph = kiln.Graph()
            x, y, z, u = (graph.param(name, (N,)) for name in "xyzu")
            graph.output(((x * y + z) * u).sum())
            gradient = client.gradient(graph, wrt=[u]).graph  # of u: x * y + z
            self.assertEqual((self.client.compile(gradient)(x=A, y=B, z=C) != A * B + C).any(), HAS_FMA)
            np.testing.assert_array_equal(client.compile(gradient)(x=A, y=B, z=C), A * B + C)
            one, other = ([stage.text for stage in each.explain(fused()).stages] for each in (client, self.client))
            self.assertNotEqual(one, other)

    def test_awaited(self):
        async def main():
            async with await kiln.aio.connect(self.server.address, no_contraction=True) as client:
                program = await client.compile(fused())
                np.testing.assert_array_equal(await program(A, B, C), A * B + C)

        asyncio.run(main())

    def test_an_option_that_is_none(self):
        for attempt in (lambda: kiln.connect(self.server.address, no_contractions=True),
                        lambda: self.client.compile(fused(), contraction=False),
                        lambda: self.client.compile(fused(), constant_slots=[0])):  # fmt: skip
            with self.assertRaisesRegex(kiln.InvalidArgument, "no_contraction, deterministic"):
                attempt()
        with kiln.connect(self.server.address, deterministic=True, beam=0) as client:
            self.assertTrue(client.compile(fused(), no_contraction=True).options.deterministic)


if __name__ == "__main__":
    unittest.main()
