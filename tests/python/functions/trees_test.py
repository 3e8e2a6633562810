"""Trees are taken apart and put together again; their forms are keys."""

import collections
import dataclasses
import pathlib
import sys
import unittest
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support  # noqa: F401: the package
from kiln.errors import InvalidArgument
from kiln.functional import trees

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass(frozen=True)
class Layer:
    w: Any
    b: Any = None


VALUE = {"b": [1, (2,)], "a": Point(3, None), "c": Layer(4, {"k": 5}), "d": [], "e": ()}


class Trees(unittest.TestCase):
    def test_leaves_come_in_order_and_go_back(self):
        leaves, tree = trees.flatten(VALUE)
        self.assertEqual(leaves, [3, 1, 2, 4, 5])
        self.assertEqual(tree.count, 5)
        again = trees.unflatten(tree, leaves)
        self.assertEqual(again, VALUE)
        self.assertIs(type(again["a"]), Point)
        self.assertIs(type(again["c"]), Layer)

    def test_a_leaf_and_nothing(self):
        self.assertEqual(trees.flatten(7), ([7], trees.LEAF))
        self.assertEqual(trees.flatten(None), ([], trees.NOTHING))
        self.assertIsNone(trees.unflatten(trees.NOTHING, []))

    def test_forms_compare_and_hash_without_leaves(self):
        same = trees.flatten(trees.map_tree(lambda leaf: leaf * 10, VALUE))[1]
        self.assertEqual({trees.flatten(VALUE)[1]: 1}[same], 1)
        for a, b in (([1], (1,)), ({"a": 1}, {"b": 1}), ([1, 2], [1]), (Point(1, 2), (1, 2)), ([None], [1])):
            self.assertNotEqual(trees.flatten(a)[1], trees.flatten(b)[1])

    def test_the_order_of_a_dicts_keys_does_not_matter(self):
        self.assertEqual(trees.flatten({"a": 1, "b": 2}), trees.flatten({"b": 2, "a": 1}))

    def test_map_tree_wants_equal_forms(self):
        self.assertEqual(trees.map_tree(lambda a, b: a - b, {"x": [5, 6]}, {"x": [1, 2]}), {"x": [4, 4]})
        with self.assertRaisesRegex(InvalidArgument, r"two forms: \[\*\] and \(\*,\)"):
            trees.map_tree(max, [1], (2,))

    def test_paths(self):
        _, tree = trees.flatten(VALUE)
        self.assertEqual(trees.paths(tree), ["['a'].x", "['b'][0]", "['b'][1][0]", "['c'].w", "['c'].b['k']"])

    def test_a_prefix_stands_for_all_below(self):
        _, tree = trees.flatten(({"w": 1, "b": 2}, 3))
        self.assertEqual(trees.prefix(tree, (0, None), "in_axes"), [0, 0, None])
        self.assertEqual(trees.prefix(tree, ({"w": 1, "b": None}, 2), "in_axes"), [None, 1, 2])
        with self.assertRaisesRegex(InvalidArgument, "in_axes: .* is no beginning of the tree"):
            trees.prefix(tree, [0, 0], "in_axes")

    def test_what_is_wrong(self):
        with self.assertRaisesRegex(InvalidArgument, "keys cannot be sorted"):
            trees.flatten({1: 0, "a": 0})
        with self.assertRaisesRegex(InvalidArgument, "3 leaves for a tree of 2"):
            trees.unflatten(trees.flatten([1, 2])[1], [1, 2, 3])


if __name__ == "__main__":
    unittest.main()
