"""kiln.aio is the same client, awaited."""

import asyncio
import functools
import gc
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import graphs
import numpy as np

import kiln
from kiln import aio
from kiln.v1 import kernel_service_pb2

X = np.arange(4, dtype=np.float32)


def in_loop(test):
    """Runs a test in the class's event loop: grpc.aio serves one loop at a time."""

    @functools.wraps(test)
    def run(self):
        self.loop.run_until_complete(test(self))

    return run


class Aio(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = support.Server()
        cls.addClassCleanup(cls.server.stop)
        cls.loop = asyncio.new_event_loop()
        cls.addClassCleanup(cls.loop.close)

    def setUp(self):
        self.client = self.loop.run_until_complete(aio.connect(self.server.address))
        self.addCleanup(lambda: self.loop.run_until_complete(self.client.close()))

    async def in_use(self):
        await self.client.flush_frees()
        device = (await self.client.devices())[0]
        return device.memory_in_use_bytes, device.buffers

    async def settle(self, wanted):
        """Until in_use() is `wanted`: the server learns of an ended stream in its own time."""
        for _ in range(2000):
            if await self.in_use() == wanted:
                return
        self.assertEqual(await self.in_use(), wanted)

    def test_it_has_every_name_of_the_blocking_client(self):
        for mine, other in ((aio.Client, kiln.Client), (aio.Buffer, kiln.Buffer), (aio.Program, kiln.Program),
                            (aio.Recording, kiln.Recording)):
            wanted = {name for name in vars(other) if not name.startswith("_")}
            self.assertLessEqual(wanted, {name for name in dir(mine)})

    @in_loop
    async def test_the_server(self):
        await self.client.health()
        name = (await self.client.devices())[0].name
        self.assertEqual((await self.client.describe_device(name)).name, name)
        self.assertGreater(self.client.traffic["DeviceService.List"].calls, 0)

    @in_loop
    async def test_programs(self):
        add = await self.client.compile(graphs.elementwise("ADD"))
        x = await self.client.buffer(X)
        for first in (X, x, kiln.At(x, 0)):
            self.assertEqual((await add(first, X * 10)).tolist(), (X * 11).tolist())
        result = await add(x=x, y=x, out="buffers")
        self.assertEqual((await result.numpy()).tolist(), (2 * X).tolist())
        many = await asyncio.gather(*(add(X, X * n) for n in range(50)))
        for n, one in enumerate(many):
            self.assertEqual(one.tolist(), (X * (n + 1)).tolist())
        update = await self.client.compile(graphs.update())
        self.assertIs(await update(x, X), x)
        self.assertGreater(len((await self.client.explain(add)).stages), 3)
        self.assertIn(add.hash, [row.graph_hash for row in (await self.client.programs()).programs])
        gradient = await self.client.gradient(graphs.elementwise("MUL", shape=(1,)), wrt=[0])
        self.assertEqual((await (await self.client.compile(gradient.graph))(y=np.float32([5]))).tolist(), [5])

    @in_loop
    async def test_the_graph_is_sent_again_once(self):
        add = await self.client.compile(graphs.elementwise("ADD", shape=(5,)))
        other = support.Server()
        self.addCleanup(other.stop)
        async with await aio.connect(other.address) as elsewhere:
            answer = kernel_service_pb2.CompileResponse(graph_hash=add.hash, signature=add.signature)
            moved = aio.Program(elsewhere._connection, add._graph, add.options, answer)
            ones = np.ones(5, np.float32)
            self.assertEqual([(await moved.run([ones, ones])).from_cache for _ in range(2)], [False, True])

    @in_loop
    async def test_large_arrays_go_and_come_through_buffers(self):
        before = await self.in_use()
        x = np.arange(2 << 20, dtype=np.float32)
        for graph in (graphs.elementwise("ADD", shape=x.shape), graphs.update(shape=x.shape)):
            program = await self.client.compile(graph)
            self.assertTrue((await program(x, x) == 2 * x).all())
        self.assertEqual(await self.in_use(), before)

    @in_loop
    async def test_buffers(self):
        before = await self.in_use()
        array = np.random.default_rng(5).integers(0, 255, (3 << 20) + 7, dtype=np.uint8)
        seen = []
        async with await self.client.buffer(array, progress=lambda done, total: seen.append(done)) as buffer:
            self.assertEqual((seen[0], seen[-1], len(seen)), (0, array.size, 5))
            self.assertTrue(((await buffer.numpy()) == array).all())
            self.assertEqual((await buffer.read(5, 3)).tolist(), array[5:8].tolist())
            await buffer.fill(7, 0, 2)
            await buffer.write(np.array([9], np.uint8), start=1)
            copy = await buffer.copy()
            view = await copy.view((2,), "uint16")
            self.assertEqual((await view.read(0, 1)).tolist(), [0x0907])
            await copy.copy_from(buffer, start=2, count=1)
            memory = bytearray(3)
            await copy.read_into(memory)
            self.assertEqual(bytes(memory), b"\7\x09\7")
            await (await self.client.allocate(4)).write_bytes(b"abcd")
            self.assertEqual((await (await self.client.arange(2, 11, 3)).numpy()).tolist(), [2, 5, 8])
            drawn = [await (await self.client.random((5,), seed=seed)).numpy() for seed in (1, 1, 2)]
            self.assertEqual([drawn[0].tolist() == other.tolist() for other in drawn], [True, True, False])
            self.assertEqual((await self.client.describe(copy)).bytes, array.size)
        del copy, view
        gc.collect()
        self.assertEqual(await self.in_use(), before)
        with self.assertRaises(kiln.BufferFreed):
            await buffer.numpy()

    @in_loop
    async def test_failures(self):
        with self.assertRaises(kiln.NoServer):
            await aio.connect("127.0.0.1:1", connect_timeout=0.2)
        with self.assertRaises(kiln.NotFound):
            await aio.connect(self.server.address, device="CUDA:7")
        add = await self.client.compile(graphs.elementwise("ADD"))
        with self.assertRaises(kiln.InvalidArgument) as caught:
            await add(X)
        self.assertEqual((caught.exception.code, caught.exception.slot), ("MISSING_ARGUMENT", 1))
        with self.assertRaises(kiln.UnsupportedDType):
            await self.client.buffer(np.zeros(1, complex))
        small = await self.client.allocate(4)
        for _ in range(50):  # the server's answer may come while chunks are on their way
            with self.assertRaises(kiln.OutOfRange):
                await small.write_bytes(bytes(3 << 20))
        with self.assertRaises(kiln.ResourceExhausted):
            await self.client.allocate(1 << 60)

        def refuse(done, total):
            if done:
                raise LookupError("enough")

        before = await self.in_use()
        with self.assertRaisesRegex(LookupError, "enough"):
            await self.client.buffer(np.zeros(4 << 20, np.uint8), progress=refuse)
        await self.settle(before)

    @in_loop
    async def test_the_end_gives_all_back(self):
        before = await self.in_use()
        async with await aio.connect(self.server.address) as client:
            kept = await client.empty((100,))
            await client.fence()
            self.assertEqual((await self.in_use())[1], before[1] + 1)
        self.assertEqual(await self.in_use(), before)
        with self.assertRaises(kiln.FailedPrecondition):
            await kept.numpy()

    @in_loop
    async def test_a_cancelled_task_cancels_its_call(self):
        before = await self.in_use()
        task = asyncio.ensure_future(self.client.buffer(np.zeros(256 << 20, np.uint8)))
        while not (await self.in_use())[1] > before[1]:
            pass
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await self.settle(before)


if __name__ == "__main__":
    unittest.main()
