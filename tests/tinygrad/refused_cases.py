"""What a level does not take goes down one, gives the same, and is counted; never an exception."""

import time
import unittest.mock

import numpy as np

A = np.arange(12, dtype=np.float32)
# A stencil's five windows into what is padded by one.
CROSS = ((0, 1), (2, 1), (1, 0), (1, 2), (1, 1))
# Seconds. An uncut chain takes minutes, a cut one about two of a server that is not optimized.
SOON = 20


def total(out, x):
    """As tinygrad's own: the kernel is the last state of what it writes."""
    from tinygrad.uop.ops import AxisType, KernelInfo, UOp

    out, x = out.flatten(), x.flatten()
    i = UOp.range(x.shape[0], 0, axis_type=AxisType.REDUCE)
    out = out[0].set(0.0)
    out = out[0].set(out.after(i)[0] + x[i], end=i)
    return out.sink(arg=KernelInfo(name="total", opts_to_apply=()))


def doubled(out, view):
    from tinygrad.uop.ops import KernelInfo, UOp

    i = UOp.range(view.shape[0], 0)
    return out[i].store(view[i] * 2).end(i).sink(arg=KernelInfo(name="doubled", opts_to_apply=()))


def variable():
    """n, from 1 to 12, as kernels have it."""
    from tinygrad import dtypes
    from tinygrad.dtype import AddrSpace
    from tinygrad.uop.ops import Ops, ParamArg, UOp

    argument = ParamArg(-1, dtypes.weakint, vmin_vmax=(1, 12), name="n", addrspace=AddrSpace.ALU)
    return UOp(Ops.PARAM, src=(UOp(Ops.STACK, src=()),), arg=argument)


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

    def test_kernels_that_read_through_views(self):
        """Of a size that is a number, and of one that is a variable, which level T has not."""
        from tinygrad import Tensor, Variable

        def run(view):
            out, x = Tensor.zeros(12).contiguous().realize(), Tensor(A).realize()
            return out.custom_kernel(x, fxn=lambda out, x: doubled(out, view(x)))[0]

        def padded(values):
            return [*values, *[0.0] * (12 - len(values))]

        self.assertEqual(run(lambda x: x.shrink(((2, 7),))).tolist(), padded(A[2:7] * 2))
        self.assertEqual(run(lambda x: x.reshape(3, 4).permute(1, 0).reshape(12)).tolist(),
                         list(A.reshape(3, 4).T.ravel() * 2))  # fmt: skip
        self.assertEqual(self.fallbacks(), {})
        for n in (3, 5):
            # What is added says what n is.
            bound = Tensor(Variable("n", 1, 12).bind(n))
            for start in (0, 1):
                found = run(lambda x: x.shrink(((start, variable()),))) + bound
                self.assertEqual(found.tolist(), [v + n for v in padded(A[start:n] * 2)])
        counted = self.fallbacks()
        self.assertEqual(set(counted), {"a kernel that reads a variable"} if self.level == "T" else set())

    def test_copies_and_shards_of_variable_size(self):
        """A copy is no kernel of any level; at level T what has shards of a variable's size is one program."""
        from tinygrad import Tensor, TinyJit, Variable

        x = Tensor(A).realize()
        step = TinyJit(lambda x: (x.to("KILN:1") + 1).sum().realize())
        for n in range(1, 7):
            part = x[: Variable("n", 1, 12).bind(n)]
            moved = part.to("KILN:1")
            self.assertEqual(moved.sum().item(), A[:n].sum())
            self.assertEqual(moved.contiguous().realize()[:n].tolist(), A[:n].tolist())
            self.assertEqual(x[1 : Variable("n", 1, 12).bind(n) + 1].to("KILN:1").sum().item(), A[1 : n + 1].sum())
            self.assertEqual(step(part).item(), (A[:n] + 1).sum())
        self.assertLessEqual(set(self.fallbacks()), {"copies between devices"} if self.level == "T" else set())
        self.plugin.reset_stats()
        for n in range(1, 7):
            part = x[: Variable("n", 1, 12).bind(n)]
            self.assertEqual(part.shard(("KILN", "KILN:1")).sum().item(), A[:n].sum())
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

    def stencils(self, size, step, wrapped=lambda f: f):
        """Eight of them, one behind the other: values are numpy's, soon, in few kernels."""
        from tinygrad import Tensor

        def eight(x):
            for _ in range(8):
                x = step(x, lambda p: p.pad(((1, 1), (1, 1))))
            return x

        array = np.random.default_rng(8).random((size, size)).astype(np.float32)
        expected = array.astype(np.float64)
        for _ in range(8):
            expected = step(expected, lambda p: np.pad(p, 1))
        self.plugin.reset_stats()
        begin = time.monotonic()
        got = wrapped(eight)(Tensor(array).realize()).numpy()
        self.assertLess(time.monotonic() - begin, SOON)
        np.testing.assert_allclose(got, expected, rtol=1e-4)
        self.assertEqual(self.fallbacks(), {})
        self.assertLessEqual(self.plugin.stats().kernels, 4)

    def test_chains_of_stencils(self):
        """As one kernel, eight of them are hundreds of thousands of operations, however small the tensor."""
        for size in (5, 20, 31, 33, 64):
            with self.subTest(size=size):
                self.stencils(size, lambda x, pad: sum(pad(x)[i : i + size, j : j + size] for i, j in CROSS) * 0.2)

    def test_chains_of_stencils_that_weigh_first(self):
        """Each neighbour is a value of its own, read through one window: together they are as many."""
        weighed = [(0.1 * (k + 1), i, j) for k, (i, j) in enumerate(CROSS)]
        self.stencils(31, lambda x, pad: sum(pad(x * w)[i : i + 31, j : j + 31] for w, i, j in weighed))

    def test_chains_of_stencils_in_functions(self):
        from tinygrad import function

        step = lambda x, pad: sum(pad(x)[i : i + 31, j : j + 31] for i, j in CROSS) * 0.2  # noqa: E731
        for precompile in (False, True):
            with self.subTest(precompile=precompile):
                self.stencils(31, step, lambda f: function(f, precompile=precompile))
