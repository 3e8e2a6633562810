"""The server and Python take the same graphs for graphs with a hash, and give them the same hash.

Every form of argument in many spellings, most of them wrong: which have a hash, the two must
agree on, and on the code of those that have none. The server is asked by an Execute of the graph
under a wrong hash: it answers HASH_MISMATCH with the right one to what it can hash, before it
looks at anything else.
"""

import pathlib
import random
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support

import kiln
from kiln.v1 import dtype_pb2, graph_pb2 as pb, kernel_service_pb2

DTYPES = [*dtype_pb2.DType.values(), 21, 99, -1]
OPS = [pb.CONST, pb.PARAM, pb.PAD, pb.DEFINE_VAR, pb.DEFINE_ACC, pb.RANGE, pb.REDUCE, pb.IDIV, pb.LOAD]
INTEGERS = [0, 1, 2, -1, 127, 128, 255, 256, -128, -129, 2**31, 2**32, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, 0.5, -1.0, 1e-45, 3.4e38, 1e39, 65520.0, 448.0, 464.0, 2.0**63, 1e300, float("inf"),
          float("-inf"), float("nan"), 1 + 2.0**-24, 2.0**-149, 2.0**-150]  # fmt: skip
DECIMALS = ["", "-", "0", "-0", "007", "1", "-1", "+1", " 1", "1\n", "1e3", "1.0", "٣", "9223372036854775808", "9" * 39,
            "9" * 999, "9" * 1000, "0" * 1000, "-" + "9" * 999, "-" + "9" * 1000, "9" * 1001]  # fmt: skip


def constants():
    for dtype in DTYPES:
        yield pb.ConstArg(dtype=dtype)
        for field, values in (("b", (False, True)), ("i", INTEGERS), ("f", FLOATS), ("decimal", DECIMALS),
                              ("u", [abs(n) for n in INTEGERS] + [2**64 - 1]), ("invalid", (False, True)),
                              ("bits", [0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x7C00, 0xFFFF, 0x10000, 0x7F800001,
                                        2**32 - 1, 2**32, 2**63, 2**64 - 1])):  # fmt: skip
            for value in values:
                yield pb.ConstArg(dtype=dtype, **{field: value})


def buffers():
    for slot in (0, 7, 2**32 - 1):
        for space in (*pb.AddrSpace.values(), 77, -1):
            yield pb.BufferArg(slot=slot, dtype=dtype_pb2.FLOAT32, addrspace=space, name="n", min_value=-3)
    for dtype in DTYPES:
        yield pb.BufferArg(dtype=dtype, device=["CPU:0", ""], max_value=2**63 - 1, min_value=0, name="ü")


def arguments():
    """UOps' oneof fields, in all their forms."""
    for value in constants():
        yield {"constant": value}
        yield {"pad": pb.PadArg(fill=value)}
    yield {"pad": pb.PadArg()}
    for value in buffers():
        yield {"buffer": value}
    for axes in ([], [0], [-1, 2**62], [0, 0]):
        yield {"axes": pb.AxesArg(axis=axes)}
        yield {"range": pb.RangeArg(axis_id=axes, type=len(axes))}
        for op in (0, pb.ADD, pb.MUL, pb.SINK, 9999, -1):
            yield {"reduce": pb.ReduceArg(op=op, axis=axes)}
            yield {"all_reduce": pb.AllReduceArg(op=op, device=["CPU:%d" % n for n in range(len(axes))])}
    for flags in ([], [True], [False, True]):
        yield {"flip": pb.FlipArg(axis=flags)}
    for dtype in DTYPES:
        yield {"cast_to": dtype}
    for number in INTEGERS:
        yield {"index": number}
        yield {"opt": pb.OptOp(kind=number % 1000 - 10, axis=number, arg=[number])}
    for device, space in (([], 0), ([], 1), (["CPU:0"], 0), ([""], 0), ([], -5)):
        yield {"load": pb.LoadArg(device=device, addrspace=space)}
    for text in ("", "i", "ä\0b", "x" * 300):
        yield {"special": pb.SpecialArg(name=text)}
        yield {"text": text}
        yield {"data": text.encode() + b"\xff"}
        yield {"kernel": pb.KernelInfo(name=text, dont_use_locals=bool(text), opts=[pb.OptOp(kind=-1)] * len(text[:2]))}
    for dtype in DTYPES:
        yield {"wmma": pb.WmmaArg(n=8, m=-1, k=2**40, dtype_in=dtype, dtype_out=dtype, threads=32, reduce_axes=[1],
                                  upcast_axes=[pb.AxesArg(), pb.AxesArg(axis=[3, 4])])}  # fmt: skip
    view = pb.ViewArg.View(shape=[2, -1], stride=[0, 5], offset=-7, mask_begin=[1], mask_end=[2**62])
    for views in ([], [view], [pb.ViewArg.View(), view]):
        yield {"view": pb.ViewArg(view=views)}


def graphs():
    # Each argument under two ops, of which one takes it.
    chooser = random.Random(24)
    for argument in arguments():
        form = next(iter(argument))
        op = {"constant": pb.CONST, "pad": pb.PAD, "buffer": pb.PARAM}.get(form, pb.REDUCE)
        for used in (op, chooser.choice(OPS)):
            yield pb.Graph(nodes=[pb.UOp(op=used, **argument)])
    for op in (0, -1, 9999, *pb.Op.values()):
        for dialect in (0, *pb.Dialect.values(), 55, -1):
            yield pb.Graph(nodes=[pb.UOp(op=op)], dialect=dialect)
            yield pb.Graph(nodes=[pb.UOp(op=op, buffer=pb.BufferArg(), dtype=dtype_pb2.FLOAT32)], dialect=dialect)
    for source in (0, 1, 2, 2**32 - 1):
        yield pb.Graph(nodes=[pb.UOp(op=pb.SINK, src=[source]), pb.UOp(op=pb.SINK, src=[0])])
        yield pb.Graph(nodes=[pb.UOp(op=pb.SINK), pb.UOp(op=pb.SINK, src=[0, 0, source])])
    # What the root does not reach is looked at, too.
    bad = pb.UOp(op=pb.CONST, constant=pb.ConstArg(dtype=dtype_pb2.INT32))
    yield pb.Graph(nodes=[bad, pb.UOp(op=pb.SINK)])
    yield pb.Graph(nodes=[pb.UOp(op=pb.SINK), bad, pb.UOp(op=9999)])
    yield pb.Graph()


class Agreement(support.ServerTest):
    def server_says(self, graph):
        """A hash, or the code of the failure."""
        request = kernel_service_pb2.ExecuteRequest(graph=graph, graph_hash=b"\0" * 32)
        with self.assertRaises(kiln.KilnError) as caught:
            self.client._connection.call("KernelService.Execute", request)
        error = caught.exception
        if error.code == "HASH_MISMATCH":
            return re.search(r"hash is ([0-9a-f]{64})", error.message).group(1)
        return error.code

    def python_says(self, graph):
        try:
            return kiln.graph_hash(graph).hex()
        except kiln.GraphError as error:
            return error.code

    def test_on_every_form_of_argument(self):
        hashes, refused = 0, 0
        for graph in graphs():
            server, python = self.server_says(graph), self.python_says(graph)
            if server != python:
                with self.subTest(graph=graph):
                    self.assertEqual(python, server)
            hashes, refused = hashes + (len(server) == 64), refused + (len(server) != 64)
        self.assertGreater(hashes, 1500)
        self.assertGreater(refused, 1000)


if __name__ == "__main__":
    unittest.main()
