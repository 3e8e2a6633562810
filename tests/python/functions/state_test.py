"""kiln.State: written in place by traced functions, read as it was."""

import copy
import pathlib
import pickle
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
import support

import kiln
from kiln.errors import DTypeError, GraphError, InvalidArgument, ShapeError, UnsupportedDType


class State(support.ServerTest):
    def test_a_function_updates_what_it_is_given(self):
        @kiln.jit
        def count(state, x):
            old = state.value["n"]
            state.value = {"n": old + 1, "total": state.value["total"] + x}
            return old

        one, two = (kiln.State({"n": 0, "total": np.zeros(2, np.float32)}) for _ in range(2))
        memory = one.buffer(1, False).handle
        self.assertEqual([int(count(one, np.float32([1, 2]))) for _ in range(3)], [0, 1, 2])
        self.assertEqual(int(count(two, np.float32([5, 5]))), 0)
        self.assertEqual(one.buffer(1, False).handle, memory)
        self.assertEqual((one.value["n"].item(), one.value["total"].tolist()), (3, [3, 6]))
        self.assertEqual((two.value["n"].item(), two.value["total"].tolist()), (1, [5, 5]))
        self.assertEqual(len(count._cache), 1)

    def test_a_function_updates_what_it_finds(self):
        state = kiln.State(np.zeros(3))

        @kiln.jit
        def add(x):
            state.value = state.value + x
            state.value = state.value * 2
            return state.value.sum()

        self.assertEqual([add(1.0).item(), add(1.0).item()], [6, 18])
        self.assertEqual(state.value.tolist(), [6, 6, 6])
        state.value = np.ones(3)
        self.assertEqual(add(0.0).item(), 6)

    def test_what_was_read_stays(self):
        state = kiln.State({"a": np.zeros(2), "b": np.ones(2)})
        swap = kiln.jit(lambda s: setattr(s, "value", {"a": s.value["b"], "b": s.value["a"] + 1}))
        before = state.value
        given = kiln.array([7.0, 7.0])
        swap(state)
        middle = state.value
        state.value = {"a": given, "b": given}
        swap(state)
        self.assertEqual([before["a"].tolist(), before["b"].tolist()], [[0, 0], [1, 1]])
        self.assertEqual([middle["a"].tolist(), middle["b"].tolist()], [[1, 1], [1, 1]])
        self.assertEqual([given.tolist(), state.value["a"].tolist(), state.value["b"].tolist()], [[7, 7], [7, 7], [8, 8]])

    def test_training_keeps_its_weights_where_they_are(self):
        r = np.random.default_rng(0)
        x, true = r.standard_normal((32, 3)).astype(np.float32), np.float32([1, -2, 3])
        y = x @ true + 1
        weights = kiln.State({"w": np.zeros(3, np.float32), "b": np.float32(0)})
        squared = lambda p, x, y: ((x @ p["w"] + p["b"] - y) ** 2).mean()  # noqa: E731

        @kiln.jit
        def step(weights, x, y):
            loss, slopes = kiln.value_and_grad(squared)(weights.value, x, y)
            weights.value = kiln.tree_map(lambda w, d: w - 0.1 * d, weights.value, slopes)
            return loss

        memory = [weights.buffer(at, True).handle for at in range(2)]
        losses = [step(weights, x, y) for _ in range(200)]
        self.assertEqual([weights.buffer(at, True).handle for at in range(2)], memory)
        self.assertLess(float(losses[-1]), 1e-6)
        np.testing.assert_allclose(weights.value["w"], true, atol=1e-3)
        np.testing.assert_allclose(weights.value["b"], 1, atol=1e-3)

    def test_what_a_loss_sets_is_set(self):
        seen = kiln.State(np.zeros(2))

        def loss(x):
            seen.value = seen.value + x * 2
            return (x * seen.value).sum()

        slope = kiln.grad(loss)(np.array([1.0, 3.0]))
        self.assertEqual((seen.value.tolist(), slope.tolist()), ([2, 6], [4, 12]))

    def test_numbers_take_the_states_dtype(self):
        state = kiln.State({"n": np.float32(1)})
        kiln.jit(lambda: setattr(state, "value", {"n": 2.5}))()
        self.assertEqual((state.value["n"].item(), state.value["n"].dtype), (2.5, np.float32))
        state.value = {"n": 3}
        self.assertEqual(state.value["n"].item(), 3)

    def test_one_that_is_given_is_not_the_one_outside(self):
        for order in ("ab", "ba"):
            a, b = kiln.State(1.0), kiln.State(10.0)
            both = kiln.jit(lambda state: state.value + a.value)
            for name in order:
                if name == "b":
                    self.assertEqual(both(b).item(), 11)
                else:
                    with self.assertRaisesRegex(InvalidArgument, "also finds by itself"):
                        both(a)

    def test_places_are_swapped(self):
        swap = kiln.jit(lambda s: setattr(s, "value", {"a": s.value["b"], "b": s.value["a"]}))
        state = kiln.State({"a": np.zeros(2), "b": np.float64([1, 2])})
        for wanted in ([[1, 2], [0, 0]], [[0, 0], [1, 2]]):
            swap(state)
            self.assertEqual([state.value["a"].tolist(), state.value["b"].tolist()], wanted)
        turned = kiln.State([1, 2, 3])
        kiln.jit(lambda s: setattr(s, "value", [s.value[1], s.value[2], s.value[0]]))(turned)
        self.assertEqual([one.item() for one in turned.value], [2, 3, 1])

    def test_a_copy_is_another(self):
        state = kiln.State({"a": np.zeros(2)})
        for other in (copy.copy(state), copy.deepcopy(state), copy.deepcopy({"in": state})["in"]):
            self.assertIs(type(other), kiln.State)
            kiln.jit(lambda s: setattr(s, "value", {"a": s.value["a"] + 1}))(other)
            self.assertEqual((state.value["a"].tolist(), other.value["a"].tolist()), ([0, 0], [1, 1]))
        with self.assertRaises(TypeError):
            pickle.dumps(state)
        with self.assertRaisesRegex(GraphError, "copies a State"):
            kiln.jit(copy.copy)(state)

    def test_of_another_client(self):
        with kiln.connect(self.server.address) as other:
            state = kiln.State(1.0, client=other)
            with self.assertRaisesRegex(GraphError, "uses a State of another client's"):
                kiln.jit(lambda x: x + state.value, client=self.client)(1.0)

    def test_mistakes(self):
        state = kiln.State({"a": np.zeros(2)})
        for value, error, text in (({"b": np.zeros(2)}, ShapeError, r"the state is \{'a': \*\}, what is set \{'b'"),
                                   ({"a": np.zeros(3)}, ShapeError, r"value\['a'\] of the state is float64\[2\], what is set float64\[3\]"),
                                   ({"a": np.zeros(2, np.int32)}, DTypeError, r"float64\[2\], what is set int32\[2\].*astype")):  # fmt: skip
            for put in (lambda: setattr(state, "value", value), lambda: kiln.jit(lambda: setattr(state, "value", value))()):
                with self.assertRaisesRegex(error, text):
                    put()
        self.assertEqual(state.value["a"].tolist(), [0, 0])
        with self.assertRaisesRegex(UnsupportedDType, r"value\['a'\] is a str"):
            kiln.State({"a": "text"})

        @kiln.jit
        def both(given):
            given.value = {"a": given.value["a"] + state.value["a"]}

        with self.assertRaisesRegex(InvalidArgument, "a state that it also finds by itself"):
            both(kiln.State({"a": np.ones(2)}))
            both(state)
        pair = kiln.jit(lambda s, t: (setattr(s, "value", {"a": s.value["a"] + 1}), t.value["a"])[1])
        other = kiln.State({"a": np.zeros(2)})
        self.assertEqual(pair(other, kiln.State({"a": np.full(2, 9.0)})).tolist(), [9, 9])
        self.assertEqual(pair(other, other).tolist(), [2, 2])
        self.assertEqual(repr(other), "<State of value['a'] float64[2]>")


if __name__ == "__main__":
    unittest.main()
