"""What a level does not take goes down one, gives the same, and is counted; never an exception."""

import unittest.mock

import numpy as np

A = np.arange(12, dtype=np.float32)


def total(out, x):
    """As tinygrad's own: the kernel is the last state of what it writes."""
    from tinygrad.uop.ops import AxisType, KernelInfo, UOp

    out, x = out.flatten(), x.flatten()
    i = UOp.range(x.shape[0], 0, axis_type=AxisType.REDUCE)
    out = out[0].set(0.0)
    out = out[0].set(out.after(i)[0] + x[i], end=i)
    return out.sink(arg=KernelInfo(name="total", opts_to_apply=()))


class RefusedCases:
    plugin = None  # set by the module

    def setUp(self):
        self.plugin.reset_stats()

    def fallbacks(self):
        return dict(self.plugin.stats().fallbacks)

    def test_a_kernel_that_is_a_state_of_memory(self):
        from tinygrad import Tensor

        self.assertEqual(Tensor.empty(1).custom_kernel(Tensor(A).realize(), fxn=total)[0].tolist(), [66.0])
        self.assertEqual(self.fallbacks(), {})

    def test_views_of_variable_size(self):
        from tinygrad import Tensor, TinyJit, Variable

        x = Tensor(A).realize()
        run = TinyJit(lambda x, n: (x[:n].contiguous() + 1).sum().realize())
        for n in range(1, 7):
            self.assertEqual((x[: Variable("n", 1, 12).bind(n)].contiguous() * 2).sum().item(), A[:n].sum() * 2)
            self.assertEqual(run(x, Variable("m", 1, 12).bind(n)).item(), (A[:n] + 1).sum())
        self.assertEqual(self.fallbacks(), {})

    def refusing(self, level):
        """A server that refuses what is asked of it at a level, by the graph's root."""
        import kiln
        from kiln.tinygrad import server
        from kiln.v1 import graph_pb2 as pb

        compiled = server.compile

        def compile(graph, device):
            root = graph.nodes[-1].op
            found = "L" if root == pb.LINEAR else "K" if any(n.op == pb.RANGE for n in graph.nodes) else "T"
            if found in level:
                raise kiln.Unimplemented("not today", code="UNSUPPORTED_OP")
            return compiled(graph, device)

        return unittest.mock.patch.object(server, "compile", compile)

    def test_what_the_server_refuses(self):
        from tinygrad import Tensor

        for number, levels in enumerate(("T", "TK")):
            x = Tensor(A.reshape(3, 4) + number).realize()
            self.plugin.reset_stats()
            with self.refusing(levels):
                result = ((x + number).exp() @ x.T).realize()
            np.testing.assert_allclose(result.numpy(), np.exp(A.reshape(3, 4) + 2 * number) @ (A.reshape(3, 4) + number).T,
                                       rtol=1e-5)  # fmt: skip
            counted, least = sum(self.fallbacks().values()), {"T": (1, 2), "K": (0, 1), "L": (0, 0)}[self.level][number]
            self.assertEqual(counted, 0) if least == 0 else self.assertGreaterEqual(counted, least)

    def test_a_chain_of_stencils(self):
        """As one kernel, eight of them are hundreds of thousands of operations."""
        from tinygrad import Tensor

        array = np.random.default_rng(8).random((64, 64)).astype(np.float32)
        x, expected = Tensor(array).realize(), array.astype(np.float64)
        for _ in range(8):
            p, q = x.pad(((1, 1), (1, 1))), np.pad(expected, 1)
            x = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + p[1:-1, 1:-1]) * 0.2
            expected = (q[:-2, 1:-1] + q[2:, 1:-1] + q[1:-1, :-2] + q[1:-1, 2:] + q[1:-1, 1:-1]) * 0.2
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-4)
        self.assertEqual(self.fallbacks(), {})
        self.assertLessEqual(self.plugin.stats().kernels, 4)
