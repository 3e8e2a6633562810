"""What a call of a model sends and gets when its data goes by shared memory: MiniLM, warm, under 1 KiB in all."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "tinygrad"), str(ROOT / "examples")]

import device
import numpy as np

SIZE, LENGTH = 4, 32


def setUpModule():
    global kiln_tinygrad
    kiln_tinygrad = device.start("T", "--shared_memory_max_bytes=%d" % (64 << 20))


class Wire(unittest.TestCase):
    def test_a_call_of_minilm(self):
        import sentences
        from tinygrad import Tensor, TinyJit, nn

        client = kiln_tinygrad.client()
        self.assertEqual(client.transport, "shared memory")
        model = sentences.MiniLM()
        nn.state.load_state_dict(model, nn.state.safe_load(sentences.MODEL / "model.safetensors"), verbose=False)
        # What goes in and comes out lies in memory that the server has mapped.
        ids = client.shared_empty((SIZE, LENGTH), np.int32)
        mask = client.shared_empty((SIZE, LENGTH), np.float32)
        vectors = client.shared_empty((SIZE, 384), np.float32)
        inputs = [Tensor.zeros(*ids.shape, dtype=dtype).contiguous().realize() for dtype in ("int32", "float32")]
        step = TinyJit(lambda ids, mask: model(ids, mask).realize())
        rng, wire = np.random.default_rng(5), None
        for _ in range(5):
            lengths = rng.integers(3, LENGTH + 1, (SIZE, 1))
            mask[:] = np.arange(LENGTH) < lengths
            ids[:] = rng.integers(1000, 30000, ids.shape) * (mask > 0)
            before = self.wire(client)
            for tensor, array in zip(inputs, (ids, mask)):
                tensor.uop.base.buffer.copy_from(self.host(array))
            self.host(vectors).copy_from(step(*inputs).uop.base.buffer)
            wire = self.wire(client) - before
            # Not captured, and sent by value.
            wanted = model(Tensor(ids.copy()), Tensor(mask.copy())).numpy()
            np.testing.assert_allclose(vectors, wanted, rtol=1e-5, atol=1e-6)
        self.assertLess(wire, 1024)
        self.assertFalse(kiln_tinygrad.stats().fallbacks)

    def host(self, array):
        """A tinygrad buffer that is this array."""
        from tinygrad.device import Buffer
        from tinygrad.dtype import dtypes

        return Buffer("PYTHON", array.nbytes, dtypes.uint8, opaque=memoryview(array.view(np.uint8).reshape(-1)))

    def wire(self, client):
        return sum(row.sent_bytes + row.received_bytes for row in client.traffic.values())


if __name__ == "__main__":
    unittest.main()
