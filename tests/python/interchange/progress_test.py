"""Both kinds of callback see the same transfer: bytes done and in all, or bytes more, as tqdm's update takes them."""

import asyncio
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import numpy as np

import kiln
import kiln.aio

VALUE = np.arange(3 << 20).astype(np.int16)


class Bar:
    """As tqdm's, as far as it matters here."""

    def __init__(self):
        self.n, self.calls = 0, 0

    def update(self, n=1):
        self.n += n
        self.calls += 1
        return True


class Stop(Exception):
    pass


class Progress(support.ServerTest):
    def test_up_and_down(self):
        for make in (
            lambda bar: kiln.array(VALUE, progress=bar.update),
            lambda bar: self.client.buffer(VALUE, progress=bar.update),
        ):
            up, down = Bar(), Bar()
            x = make(up)
            np.testing.assert_array_equal(x.numpy(progress=down.update), VALUE)
            for bar in (up, down):
                self.assertEqual(bar.n, VALUE.nbytes)
                self.assertGreaterEqual(bar.calls, 2)
        seen = []
        x.numpy(progress=lambda done, total: seen.append((done, total)))
        self.assertEqual((seen[0], seen[-1]), ((0, VALUE.nbytes), (VALUE.nbytes, VALUE.nbytes)))

    def test_other_callables(self):
        total, both, more = [], [], []

        class Watcher:
            def __call__(self, done, total):
                both.append((done, total))

        x = kiln.array(VALUE, progress=total.append)
        x.numpy(progress=Watcher())
        x.numpy(progress=lambda *numbers: more.append(numbers))
        self.assertEqual(sum(total), VALUE.nbytes)
        self.assertEqual((both, more), (both, both))
        self.assertEqual(both[-1], (VALUE.nbytes, VALUE.nbytes))

    def test_what_it_raises_ends_the_transfer(self):
        def stop(more):
            raise Stop

        x = kiln.array(VALUE)
        for transfer in (lambda: kiln.array(VALUE, progress=stop), lambda: x.numpy(progress=stop)):
            with self.assertRaises(Stop):
                transfer()

    def test_awaited(self):
        async def main():
            async with await kiln.aio.connect(self.server.address) as client:
                up, down = Bar(), Bar()
                x = await client.buffer(VALUE, progress=up.update)
                await x.numpy(progress=down.update)
                return up.n, down.n

        self.assertEqual(asyncio.run(main()), (VALUE.nbytes, VALUE.nbytes))


class Shared(Progress):
    FLAGS = ("--shared_memory_max_bytes=%d" % (64 << 20),)


if __name__ == "__main__":
    unittest.main()
