"""A captured TinyJit is one round trip a step: what holds at every level, against numpy and plain runs."""

import numpy as np

RNG = np.random.default_rng(2)
W1 = (RNG.standard_normal((16, 32)) * 0.3).astype(np.float32)
W2 = (RNG.standard_normal((32, 4)) * 0.3).astype(np.float32)
X = RNG.standard_normal((10, 8, 16)).astype(np.float32)
Y = RNG.integers(0, 4, (10, 8)).astype(np.int32)
IMAGES = RNG.standard_normal((6, 2, 3, 16, 16)).astype(np.float32)


class ReplayCases:
    """Mixed into a TestCase whose module has set the level. `plugin` is kiln.tinygrad."""

    plugin = None

    def setUp(self):
        self.plugin.reset_stats()

    def tearDown(self):
        self.assertEqual(dict(self.plugin.stats().fallbacks), {})

    def round_trips(self, run, *args):
        """What `run` gives, and how many calls the server answered meanwhile."""
        before = self.plugin.stats().round_trips
        result = run(*args)
        return result, self.plugin.stats().round_trips - before

    def losses(self, captured):
        """The losses of ten steps of Adam, and the round trips of the last."""
        from tinygrad import Tensor, TinyJit
        from tinygrad.helpers import Context
        from tinygrad.nn.optim import Adam

        weights = [Tensor(W1).is_param_(), Tensor(W2).is_param_()]
        optimizer = Adam(weights, lr=0.01)

        def step(x, y):
            optimizer.zero_grad()
            loss = (x @ weights[0]).relu().matmul(weights[1]).sparse_categorical_crossentropy(y)
            loss.backward()
            optimizer.step()
            return loss.realize()

        run, found = TinyJit(step) if captured else step, []
        with Context(TRAINING=1):
            for x, y in zip(X, Y):
                x, y = Tensor(x).realize(), Tensor(y).realize()
                loss, trips = self.round_trips(run, x, y)
                found.append(loss.item())
        return found, trips

    def test_a_training_step_is_one_round_trip(self):
        plain, several = self.losses(captured=False)
        replayed, one = self.losses(captured=True)
        self.assertEqual(replayed, plain)
        self.assertGreater(several, 1)
        self.assertEqual(one, 1)

    def test_a_convolutional_net(self):
        from tinygrad import Tensor, TinyJit, nn

        Tensor.manual_seed(3)
        first, norm, last = nn.Conv2d(3, 8, 3), nn.BatchNorm(8), nn.Linear(8 * 7 * 7, 5)

        def forward(x):
            return last(norm(first(x)).relu().max_pool2d().flatten(1)).softmax()

        run = TinyJit(lambda x: forward(x).realize())
        for i, image in enumerate(IMAGES):
            x = Tensor(image).realize()
            y, trips = self.round_trips(run, x)
            expected = forward(Tensor(image)).numpy()
            np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(y.numpy().sum(1), 1, rtol=1e-5)
            if i >= 3:
                self.assertEqual(trips, 1)

    def test_a_result_may_be_the_next_input(self):
        from tinygrad import Tensor, TinyJit

        @TinyJit
        def step(x, state):
            return (state * 0.5 + x).realize()

        state, expected = Tensor([1.0, 2.0]).realize(), np.array([1.0, 2.0])
        for i in range(6):
            state = step(Tensor([float(i), 1.0]).realize(), state)
            expected = expected * 0.5 + np.array([i, 1.0])
            self.assertEqual(state.tolist(), expected.tolist())

    def test_inputs_are_those_of_the_call(self):
        from tinygrad import Tensor, TinyJit

        @TinyJit
        def both(a, b):
            c = (a * 10 + b).realize()
            return c, (c.sum() - b).realize()

        arrays = [np.arange(5, dtype=np.float32) * n for n in range(1, 7)]
        tensors = [Tensor(array).realize() for array in arrays]
        for i in range(8):
            n, m = i % 6, (i + 1 + i // 3) % 6
            (c, d), trips = self.round_trips(both, tensors[n], tensors[m])
            expected = arrays[n] * 10 + arrays[m]
            self.assertEqual(c.tolist(), expected.tolist())
            self.assertEqual(d.tolist(), (expected.sum() - arrays[m]).tolist())
            if i >= 3:
                self.assertEqual(trips, 1)

    def test_variables_come_with_each_call(self):
        from tinygrad import Tensor, TinyJit, Variable

        data = np.arange(30, dtype=np.float32).reshape(10, 3)
        table = Tensor(data).realize()

        @TinyJit
        def head(n):
            top = (table[:n].sum(0) * 2).realize()
            return (top + top.sum() - n).realize()

        for i, count in enumerate((1, 4, 7, 2, 10, 5, 3)):
            got, trips = self.round_trips(head, Variable("n", 1, 10).bind(count))
            top = data[:count].sum(0) * 2
            self.assertEqual(got.tolist(), (top + top.sum() - count).tolist())
            if i >= 3:
                self.assertEqual(trips, 1)

    def test_a_result_is_read_as_far_as_it_goes_by_now(self):
        from tinygrad import Tensor, TinyJit, Variable

        left, right = (Tensor(X[i]).realize() for i in range(2))
        joined = TinyJit(lambda a, b: a.cat(b, dim=1).realize())
        for count in (1, 2, 5, 9, 3):
            n = Variable("n", 1, 10).bind(count)
            # What the JIT returns still says n = 2, the value at capture.
            got = joined(left[:, :n], right)[:, : count + 16]
            self.assertEqual(got.tolist(), np.concatenate([X[0][:, :count], X[1]], 1).tolist())

    def test_a_cache_that_is_written_at_a_variable(self):
        from tinygrad import Tensor, TinyJit, Variable

        cache, expected = Tensor.zeros(2, 8, 4).contiguous().realize(), np.zeros((2, 8, 4), np.float32)

        @TinyJit
        def step(x, at):
            cache[0, at : at + 1].assign(x).realize()
            cache[1, at : at + 1].assign(x * 2).realize()
            return (cache[0].sum(0) + cache[1].sum(0)).realize()

        for at in range(8):
            x = np.full((1, 4), at + 1, np.float32)
            got, trips = self.round_trips(step, Tensor(x).realize(), Variable("at", 0, 7).bind(at))
            expected[0, at], expected[1, at] = at + 1, 2 * (at + 1)
            self.assertEqual(got.tolist(), expected.sum((0, 1)).tolist())
            if at >= 3:
                self.assertEqual(trips, 1)
        self.assertEqual(cache.tolist(), expected.tolist())

    def test_views_of_what_is_written(self):
        from tinygrad import Tensor, TinyJit

        whole = Tensor(np.arange(12, dtype=np.float32)).realize()
        expected = np.arange(12, dtype=np.float32)

        @TinyJit
        def step(x):
            whole[2:6].assign(whole[2:6] + x).realize()
            doubled = (whole[4:8] * 2).realize()
            whole[8:12].assign(doubled).realize()
            return (whole[2:10] + 1).realize()

        for i in range(6):
            x = np.full(4, i, np.float32)
            got, trips = self.round_trips(step, Tensor(x).realize())
            expected[2:6] += x
            expected[8:12] = expected[4:8] * 2
            self.assertEqual(got.tolist(), (expected[2:10] + 1).tolist())
            if i >= 3:
                self.assertEqual(trips, 1)

    def test_many_kernels_are_one_step(self):
        from tinygrad import Tensor, TinyJit

        @TinyJit
        def chain(x):
            for i in range(100):
                x = (x * 0.5 + i).realize()
            return x

        for i in range(5):
            start = np.arange(6, dtype=np.float32) + i
            got, trips = self.round_trips(chain, Tensor(start).realize())
            for k in range(100):
                start = (start * np.float32(0.5) + np.float32(k)).astype(np.float32)
            np.testing.assert_allclose(got.numpy(), start, rtol=1e-6)
        self.assertEqual(trips, 1)

    def test_devices_that_are_one_of_the_servers(self):
        from tinygrad import Tensor, TinyJit

        devices = ("KILN", "KILN:1")
        w = Tensor(W1).shard(devices, axis=1).realize()

        @TinyJit
        def step(x):
            hidden = (x @ w).relu().realize()
            return (hidden * 2).realize()

        for i, x in enumerate(X[:6]):
            sharded = Tensor(x).shard(devices).realize()
            got, trips = self.round_trips(step, sharded)
            np.testing.assert_allclose(got.numpy(), np.maximum(x @ W1, 0) * 2, rtol=1e-4, atol=1e-5)
            if i >= 3:
                self.assertEqual(trips, 1)

    def test_copies_between_devices_are_part_of_it(self):
        from tinygrad import Tensor, TinyJit

        @TinyJit
        def there_and_back(x):
            there = (x * 2).realize().to("KILN:1").realize()
            return (there + 1).realize().to("KILN").realize()

        for i in range(5):
            x = np.arange(5, dtype=np.float32) + i
            got, trips = self.round_trips(there_and_back, Tensor(x).realize())
            self.assertEqual(got.tolist(), (x * 2 + 1).tolist())
        self.assertEqual(trips, 1)

    def test_an_input_may_be_written(self):
        from tinygrad import Tensor, TinyJit

        @TinyJit
        def add(state, x):
            state.assign(state + x).realize()
            return (state * 2).realize()

        states, expected = [Tensor(np.zeros(4, np.float32)).realize() for _ in range(2)], np.zeros((2, 4), np.float32)
        for i in range(8):
            got, trips = self.round_trips(add, states[i % 2], Tensor(np.full(4, i, np.float32)).realize())
            expected[i % 2] += i
            self.assertEqual(got.tolist(), (expected[i % 2] * 2).tolist())
            self.assertEqual(states[i % 2].tolist(), expected[i % 2].tolist())
        self.assertEqual(trips, 1)

    def test_intermediates_come_back_after_they_were_freed(self):
        from tinygrad import Tensor, TinyJit

        @TinyJit
        def step(x):
            a = (x * 2).realize()
            b = (a.sum() + x).realize()
            return (b * a).realize()

        for i in range(7):
            x = np.arange(4, dtype=np.float32) + i
            got, trips = self.round_trips(step, Tensor(x).realize())
            self.assertEqual(got.tolist(), (((x * 2).sum() + x) * x * 2).tolist())
            if i == 4:
                step.captured.free_intermediates()
        self.assertEqual(trips, 1)

    def test_attention_over_a_growing_cache(self):
        from tinygrad import Tensor, TinyJit, Variable

        cache, kept = Tensor.zeros(2, 1, 16, 2, 4).contiguous().realize(), np.zeros((2, 1, 16, 2, 4), np.float32)

        @TinyJit
        def attend(q, k, v, at):
            cache[:, :, at : at + 1].assign(Tensor.stack(k, v)).realize()
            keys, values = (cache[n, :, : at + 1].transpose(1, 2) for n in range(2))
            return q.transpose(1, 2).scaled_dot_product_attention(keys, values).transpose(1, 2).realize()

        for at in range(7):
            q, k, v = RNG.standard_normal((3, 1, 1, 2, 4)).astype(np.float32)
            inputs = [Tensor(array).realize() for array in (q, k, v)]
            got, trips = self.round_trips(attend, *inputs, Variable("at", 0, 15).bind(at))
            kept[0, :, at : at + 1], kept[1, :, at : at + 1] = k, v
            weight = np.exp(np.einsum("bqhd,bkhd->bhqk", q, kept[0, :, : at + 1]) / 2)
            expected = np.einsum("bhqk,bkhd->bqhd", weight / weight.sum(-1, keepdims=True), kept[1, :, : at + 1])
            np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5)
        self.assertEqual(trips, 1)
