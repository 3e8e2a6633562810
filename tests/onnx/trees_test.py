"""Forests of decision trees, beside onnxruntime."""

import unittest

import numpy as np
from beside import Beside
from onnx import TensorProto, helper

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(leaves, trees=3, depth=3, features=4, targets=1, modes=MODES[:1], shares=False, only=None, seed=0):
    """Full trees; `leaves` is the prefix of what the leaves have."""
    random = np.random.default_rng(seed)
    nodes = {"treeids": [], "nodeids": [], "featureids": [], "modes": [], "values": [], "truenodeids": [], "falsenodeids": [],
             "missing_value_tracks_true": []}  # fmt: skip
    weights = {"treeids": [], "nodeids": [], "ids": [], "weights": []}
    for tree in range(trees):
        for i in range(2 ** (depth + 1) - 1):
            leaf = i >= 2**depth - 1
            row = (tree, i, 0 if leaf else int(random.integers(features)), "LEAF" if leaf else str(random.choice(modes)),
                   float(random.integers(-2, 3)) / 2, 0 if leaf else 2 * i + 1, 0 if leaf else 2 * i + 2, int(random.integers(2)))  # fmt: skip
            for values, value in zip(nodes.values(), row):
                values.append(value)
            for target in ([] if not leaf else range(targets) if only is None else [only]):
                weight = float(random.standard_normal())
                for values, value in zip(weights.values(), (tree, i, target, abs(weight) / trees if shares else weight)):
                    values.append(value)
    return {**{"nodes_" + k: v for k, v in nodes.items()}, **{leaves + "_" + k: v for k, v in weights.items()}}


class Trees(Beside):
    domain = "ai.onnx.ml"

    def features(self, rows=40, dtype=np.float32):
        """Some of them halves, so that they meet what they are compared with; and some missing."""
        x = np.random.default_rng(5).integers(-4, 5, (rows, 4)).astype(dtype) / 2 if dtype != np.int64 else None
        if x is None:
            return np.random.default_rng(5).integers(-3, 4, (rows, 4))
        x[3, 1] = x[7, 2] = x[8] = np.nan
        return x

    def test_regressors(self):
        for targets in (1, 3):
            for transform in ("NONE", "LOGISTIC", "SOFTMAX")[: targets]:
                for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
                    self.check("TreeEnsembleRegressor", [self.features()], n_targets=targets, post_transform=transform,
                               aggregate_function=aggregate, base_values=[0.25, -0.5, 1.0][:targets],
                               **forest("target", targets=targets))  # fmt: skip

    def test_each_comparison(self):
        for modes in (*((mode,) for mode in MODES), MODES):
            self.check("TreeEnsembleRegressor", [self.features()], n_targets=1, **forest("target", modes=modes))

    def test_features_of_other_numbers(self):
        self.check("TreeEnsembleClassifier", [self.features(dtype=np.int64)], (True, True), classlabels_int64s=[4, 6, 9],
                   **forest("class", targets=3))  # fmt: skip
        self.check("TreeEnsembleRegressor", [self.features(dtype=np.float64)], opsets={"ai.onnx.ml": 1}, n_targets=1, **forest("target"))

    def test_deep_trees(self):
        self.check("TreeEnsembleRegressor", [self.features(200)], n_targets=1, **forest("target", trees=20, depth=8))

    def test_classifiers(self):
        for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
            for shares in (False, True):
                result = self.check("TreeEnsembleClassifier", [self.features()], (True, True), classlabels_int64s=[4, 6, 9],
                                    post_transform=transform, **forest("class", targets=3, shares=shares))  # fmt: skip
                self.assertEqual(set(result[0]), {4, 6, 9})
                for only in (0, 1):
                    self.check("TreeEnsembleClassifier", [self.features()], (True, True), classlabels_int64s=[4, 6],
                               post_transform=transform, **forest("class", targets=2, shares=shares, only=only))  # fmt: skip
        self.check("TreeEnsembleClassifier", [self.features()], (True, True), classlabels_int64s=[4, 6, 9],
                   base_values=[0.5, -0.5, 0.25], **forest("class", targets=3))  # fmt: skip
        self.check("TreeEnsembleClassifier", [self.features()], (True, True), classlabels_int64s=[4, 6], base_values=[0.3],
                   **forest("class", targets=2, only=0))  # fmt: skip
        self.refused("base_values", "TreeEnsembleClassifier", [self.features()], (True, True), classlabels_int64s=[4, 6],
                     base_values=[0.3], **forest("class", targets=2, only=1))  # fmt: skip
        self.refused("labels of strings", "TreeEnsembleClassifier", [self.features()], (True, True),
                     classlabels_strings=["a", "b"], **forest("class", targets=2))  # fmt: skip

    def ensemble(self, **attributes):
        reals = lambda name, values: helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values)  # noqa: E731
        modes = [6, 0, 6, 4]
        made = {
            "tree_roots": [0, 2], "n_targets": 2, "nodes_featureids": [0, 1, 2, 3],
            "nodes_modes": helper.make_tensor("modes", TensorProto.UINT8, [4], modes),
            "nodes_splits": reals("splits", [0.0, 0.5, 0.0, -1.0]),
            "nodes_truenodeids": [0, 1, 3, 4], "nodes_trueleafs": [1, 1, 0, 1],
            "nodes_falsenodeids": [1, 2, 3, 5], "nodes_falseleafs": [0, 1, 1, 1],
            "leaf_targetids": [0, 1, 0, 1, 0, 1], "leaf_weights": reals("weights", [1.0, 2.0, -3.0, 4.0, 5.0, -6.0]),
            "membership_values": reals("members", [1.0, 0.0, 2.0, float("nan"), -1.0, float("nan")]),
        }  # fmt: skip
        return {**made, **attributes}

    def test_ensembles_of_version_5_have_sets(self):
        for aggregate in (0, 1):
            # Whole numbers: to onnxruntime a member's neighbour is the member.
            self.check("TreeEnsemble", [np.trunc(np.nan_to_num(self.features()))], opsets={"ai.onnx.ml": 5},
                       aggregate_function=aggregate, **self.ensemble())  # fmt: skip

    def listed(self, rows, weights, leaves="target"):
        """Rows (tree, node, mode, true, false) that compare feature 0 with 0.5, and (tree, node, weight) of leaves."""
        trees, nodes, modes, on_true, on_false = (list(column) for column in zip(*rows))
        made = {"nodes_treeids": trees, "nodes_nodeids": nodes, "nodes_modes": modes, "nodes_truenodeids": on_true,
                "nodes_falsenodeids": on_false, "nodes_featureids": [0] * len(rows),
                "nodes_values": [0.5] * len(rows)}  # fmt: skip
        trees, nodes, numbers = (list(column) for column in zip(*weights))
        return {**made, leaves + "_treeids": trees, leaves + "_nodeids": nodes, leaves + "_ids": [0] * len(weights),
                leaves + "_weights": numbers}  # fmt: skip

    def test_a_tree_is_what_its_first_node_leads_to(self):
        x, branch = np.float32([[0], [1]]), (0, 0, "BRANCH_LEQ", 1, 2)
        leaves, weights = [(0, i, "LEAF", 0, 0) for i in (1, 2)], [(0, 1, 1.0), (0, 2, 2.0)]
        # What is left of others that were cut off: a leaf, a branch that leads into the tree, and two in a circle.
        left = [(0, 3, "LEAF", 0, 0), *((0, i, "BRANCH_LEQ", *to) for i, to in ((4, (1, 2)), (5, (6, 6)), (6, (5, 5))))]
        for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
            for rows in ([branch, *leaves, *left], [branch, *left, *leaves]):
                [result] = self.check("TreeEnsembleRegressor", [x], n_targets=1, aggregate_function=aggregate,
                                      **self.listed(rows, [*weights, (0, 3, 100.0)]))  # fmt: skip
                self.assertEqual(result.tolist(), [[1], [2]])
        # A leaf that is listed first is the whole tree.
        first = self.listed([leaves[0], branch, leaves[1]], weights)
        [result] = self.check("TreeEnsembleRegressor", [x], n_targets=1, **first)
        self.assertEqual(result.tolist(), [[1], [1]])
        of_class = self.listed([branch, *leaves, *left], [(0, 1, 1.0), (0, 2, -2.0), (0, 3, 100.0)], "class")
        self.check("TreeEnsembleClassifier", [x], (True, True), classlabels_int64s=[4, 6], **of_class)

    def test_a_tree_in_pieces_is_refused(self):
        rows = [(tree, i, mode, 1, 2) for i, mode in enumerate(("BRANCH_LEQ", "LEAF", "LEAF")) for tree in (7, 8)]
        x, attributes = np.float32([[0], [1]]), self.listed(rows, [(7, 1, 1.0), (8, 2, 2.0)])
        self.refused("nodes of tree 7 lie apart", "TreeEnsembleRegressor", [x], n_targets=1, **attributes)

    def test_tensors_of_too_many_numbers_are_named(self):
        count = 2**24 + 1
        many = helper.make_tensor("modes", TensorProto.UINT8, [count], bytes(count), raw=True)
        self.refused("attribute nodes_modes has 16777217 elements; up to 2^24", "TreeEnsemble", [self.features()],
                     opsets={"ai.onnx.ml": 5}, **self.ensemble(nodes_modes=many))  # fmt: skip

    def test_mistakes_are_named(self):
        x = self.features()
        good = forest("target")
        for words, attributes in (
            ("lead in a circle", {"nodes_truenodeids": [0 if i == 1 else one for i, one in enumerate(good["nodes_truenodeids"])]}),
            ("there is no node 4611686018427387904 of tree 0", {"nodes_falsenodeids": [2**62, *good["nodes_falsenodeids"][1:]]}),
            ("not one for each node", {"nodes_values": [1.0]}),
            ("looks at feature 9223372036854775807 of 4", {"nodes_featureids": [2**63 - 1, *good["nodes_featureids"][1:]]}),
            ("targets; up to 2^24", {"n_targets": 2**62}),
            ("a weight for target -1", {"target_ids": [-1, *good["target_ids"][1:]]}),
            ('node mode "BRANCH"', {"nodes_modes": ["BRANCH", *good["nodes_modes"][1:]]}),
            ("is there twice", {"nodes_nodeids": [1, *good["nodes_nodeids"][1:]]}),
            ("aggregate_function", {"aggregate_function": "PROD"}),
        ):
            self.refused(words, "TreeEnsembleRegressor", [x], **{**good, "n_targets": 1, **attributes})
        for words, attributes in (
            ("there is no leaf 6", {"nodes_falsenodeids": [1, 2, 3, 6]}),
            ("there is no node 9", {"tree_roots": [9]}),
            ("in a circle", {"nodes_truenodeids": [0, 1, 2, 4]}),
            ("there are no tree_roots", {"tree_roots": None}),
            ("has no members", {"membership_values": None}),
            ("post_transform is from 0", {"post_transform": 2**40}),
        ):
            self.refused(words, "TreeEnsemble", [x], opsets={"ai.onnx.ml": 5}, **self.ensemble(**attributes))


if __name__ == "__main__":
    unittest.main()
