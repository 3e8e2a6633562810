"""One client of many threads, and of many tasks: each has its own values, and nothing is left behind."""

import asyncio
import gc
import pathlib
import sys
import unittest
from concurrent import futures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import graphs
import numpy as np
import support

import kiln
import kiln.aio

WORKERS, ROUNDS = 8, 25


def rows(worker, turn, size=4):
    return np.arange(size, dtype=np.float32) + 100 * worker + turn


@kiln.jit
def slope(x, y):
    return kiln.grad(lambda x: (x * x * y).sum())(x)


class UnderLoad(support.ServerTest):
    def test_threads(self):
        for stream in (True, False):
            with self.subTest(stream=stream), kiln.connect(self.server.address, stream=stream) as client:
                add, update = client.compile(graphs.elementwise("ADD")), client.compile(graphs.update())
                shared = client.buffer(rows(0, 0))
                client.fence()
                before = self.in_use()

                def work(worker):
                    sum_of_all = client.buffer(np.zeros(4, np.float32))
                    for turn in range(ROUNDS):
                        x = rows(worker, turn)
                        y = client.buffer(x)
                        self.assertEqual(add(x, y).tolist(), (2 * x).tolist())
                        self.assertEqual(add(shared, y, out="buffers").numpy().tolist(), (rows(0, 0) + x).tolist())
                        update(sum_of_all, y)  # a thread's calls take effect in its order
                        y.fill(-1)
                        self.assertEqual(slope(kiln.array(x, client=client), x).numpy().tolist(), (2 * x * x).tolist())
                        with self.assertRaises(kiln.ShapeError):
                            add(x, x[:2])
                    wanted = sum(rows(worker, turn) for turn in range(ROUNDS))
                    self.assertEqual(sum_of_all.numpy().tolist(), wanted.tolist())
                    x = rows(worker, 0, 5 + worker)
                    another = client.compile(graphs.elementwise("ADD", shape=x.shape))  # compiled beside the rest
                    self.assertEqual(another(x, x).tolist(), (2 * x).tolist())

                with futures.ThreadPoolExecutor(WORKERS) as pool:
                    for done in [pool.submit(work, worker) for worker in range(WORKERS)]:
                        done.result()
                gc.collect()
                client.flush_frees()
                self.settle(before)

    def test_tasks(self):
        async def main():
            async with await kiln.aio.connect(self.server.address) as client:
                add, update = await client.compile(graphs.elementwise("ADD")), await client.compile(graphs.update())

                async def work(worker):
                    async with await client.buffer(np.zeros(4, np.float32)) as sum_of_all:
                        for turn in range(ROUNDS):
                            x = rows(worker, turn)
                            async with await client.buffer(x) as y:
                                self.assertEqual((await add(x, y)).tolist(), (2 * x).tolist())
                                await update(sum_of_all, y)
                            with self.assertRaises(kiln.ShapeError):
                                await add(x, x[:2])
                        wanted = sum(rows(worker, turn) for turn in range(ROUNDS)).tolist()
                        self.assertEqual((await sum_of_all.numpy()).tolist(), wanted)
                    return worker

                # Some are called off in the middle; the others do not notice.
                tasks = [asyncio.ensure_future(work(worker)) for worker in range(4 * WORKERS)]
                await tasks[0]
                for task in tasks[1::4]:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
                for worker, end in enumerate(ends):
                    if not isinstance(end, asyncio.CancelledError):
                        self.assertEqual(end, worker)
                    else:
                        self.assertEqual(worker % 4, 1)

        before = self.in_use()
        asyncio.run(main())
        self.settle(before)


if __name__ == "__main__":
    unittest.main()
