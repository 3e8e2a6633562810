"""ai.onnx.ml's ops on features, linear models and support vectors, beside onnxruntime."""

import unittest

import numpy as np
from beside import Beside
from onnx import numpy_helper

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


class Features(Beside):
    domain = "ai.onnx.ml"

    def test_scaling(self):
        x = self.random(3, 4)
        self.check("Scaler", [x], offset=[1.0, 2.0, -1.0, 0.5], scale=[2.0, 0.5, 1.0, -3.0])
        self.check("Scaler", [x], offset=[0.5], scale=[-3.0])
        self.check("Scaler", [np.arange(12).reshape(3, 4)], offset=[1.0, 2.0, -1.0, 0.5], scale=[2.0, 0.5, 1.0, -3.0])
        self.refused("3 numbers of scale for (3, 4)", "Scaler", [x], offset=[0.5], scale=[1.0, 2.0, 3.0])

    def test_normalizing(self):
        for norm in ("MAX", "L1", "L2"):
            self.check("Normalizer", [np.concatenate([self.random(3, 4), np.zeros((1, 4), np.float32)])], norm=norm)
            self.check("Normalizer", [self.random(4)], norm=norm)
        self.refused("it is MAX, L1 or L2", "Normalizer", [self.random(3, 4)], norm="L3")

    def test_thresholds(self):
        self.check("Binarizer", [self.random(3, 4)], threshold=0.2)

    def test_what_is_missing(self):
        x = self.random(3, 4)
        x[0, 1] = x[2, 3] = np.nan
        self.check("Imputer", [x], imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
        self.check("Imputer", [x], imputed_value_floats=[7.0], replaced_value_float=float(x[1, 1]))
        whole = np.arange(12).reshape(3, 4) % 5
        self.check("Imputer", [whole], imputed_value_int64s=[9], replaced_value_int64=3)
        self.check("Imputer", [whole], imputed_value_int64s=[9, 10, 11, 12], replaced_value_int64=3)
        self.refused("2 numbers of imputed_value_int64s", "Imputer", [whole], imputed_value_int64s=[9, 10])

    def test_features_beside_each_other(self):
        a, b = self.random(2, 3), self.random(2, 2)
        self.check("FeatureVectorizer", [a, b], inputdimensions=[3, 2])
        self.check("FeatureVectorizer", [a, b], inputdimensions=[2, 4])
        self.refused("from 0 to 2^30", "FeatureVectorizer", [a, b], inputdimensions=[3, 2**62])

    def test_features_chosen(self):
        places = (np.array([3, 0, 3]),)
        for shape in ((2, 4), (4,), (2, 3, 4)):
            self.check("ArrayFeatureExtractor", [self.random(*shape), places])

    def test_labels(self):
        x = np.array([[1, 5, 9], [5, 7, 1]])
        self.check("LabelEncoder", [x], keys_int64s=[1, 5, 7], values_int64s=[10, 50, 70], default_int64=-7)
        self.check("LabelEncoder", [x], keys_int64s=[1, 5, 7], values_floats=[0.5, 1.5, 2.5], default_float=9.0)
        x = np.float32([[1, np.nan, 2.5]])
        for opset in (3, 4):
            keys = {"keys_floats": [1.0, float("nan")], "values_int64s": [3, 4]}
            self.check("LabelEncoder", [x], opsets={"ai.onnx.ml": opset}, **keys)
        table = {"keys_tensor": numpy_helper.from_array(np.array([3, 1])), "values_tensor": numpy_helper.from_array(np.float32([0.5, 1.5])),
                 "default_tensor": numpy_helper.from_array(np.float32([9]))}  # fmt: skip
        self.check("LabelEncoder", [np.array([1, 2, 3])], opsets={"ai.onnx.ml": 4}, **table)
        self.refused("strings", "LabelEncoder", [np.array([1, 2])], keys_int64s=[1, 5], values_strings=["a", "b"])
        self.refused("keys of int64 (2,) and values of int64 (1,)", "LabelEncoder", [np.array([1, 2])], keys_int64s=[1, 5], values_int64s=[1])

    def test_categories(self):
        self.check("OneHotEncoder", [np.array([[1, 5], [9, 7]])], cats_int64s=[5, 7, 1], zeros=1)
        self.check("OneHotEncoder", [np.float32([1, 5, 7])], cats_int64s=[5, 7, 1])
        self.refused("strings", "OneHotEncoder", [np.array([1])], cats_strings=["a"])

    def test_maps_and_strings_are_refused_with_what_to_do(self):
        self.refused("leave the node out", "ZipMap", [self.random(3, 2)], classlabels_int64s=[0, 1])
        self.refused("strings", "CategoryMapper", [np.array([1])], cats_strings=["a"], cats_int64s=[1])


class Linear(Beside):
    domain = "ai.onnx.ml"
    coefficients = [float(one) for one in np.random.default_rng(1).standard_normal(12)]
    intercepts = [0.1, -0.2, 0.3]

    def test_regressors(self):
        x = self.random(5, 4, seed=3)
        for transform in TRANSFORMS:
            attributes = {"coefficients": self.coefficients, "intercepts": self.intercepts, "targets": 3}
            self.check("LinearRegressor", [x], post_transform=transform, **attributes)
        one = {"coefficients": self.coefficients[:4], "intercepts": [0.5]}
        self.check("LinearRegressor", [x], **one)
        self.refused("of one target", "LinearRegressor", [x], post_transform="LOGISTIC", **one)
        shares = {"coefficients": [0.1, 0.05, 0.02, 0.03], "intercepts": [0.5]}
        self.check("LinearRegressor", [x], post_transform="PROBIT", **shares)
        self.refused("12 coefficients for 5 targets", "LinearRegressor", [x], coefficients=self.coefficients, targets=5)
        self.refused("there are NONE, LOGISTIC", "LinearRegressor", [x], coefficients=self.coefficients, targets=3, post_transform="CUBE")

    def test_classifiers(self):
        x = self.random(5, 4, seed=3)
        for transform in TRANSFORMS:
            for classes in (3, 2, 1):
                labels = [5, 6, 9] if classes == 3 else [5, 6]
                attributes = {"coefficients": self.coefficients[: 4 * classes], "intercepts": self.intercepts[:classes]}
                result = self.check("LinearClassifier", [x], (True, True), classlabels_ints=labels, post_transform=transform, **attributes)
                self.assertGreater(len(set(result[0])), 1)
        self.refused("labels of strings", "LinearClassifier", [x], coefficients=self.coefficients, classlabels_strings=["a", "b", "c"])
        self.refused("12 coefficients for 2 targets", "LinearClassifier", [x], coefficients=self.coefficients, classlabels_ints=[1, 2])

    def test_support_vectors(self):
        x = self.random(5, 4, seed=3)
        vectors = {"support_vectors": self.coefficients, "coefficients": [0.5, -1.0, 2.0], "n_supports": 3, "rho": [0.25]}
        for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
            self.check("SVMRegressor", [x], kernel_type=kernel, kernel_params=[0.3, 0.7, 2.0], atol=1e-4, **vectors)
        self.check("SVMRegressor", [x], kernel_type="RBF", kernel_params=[0.3, 0.0, 0.0], one_class=1, **vectors)
        self.check("SVMRegressor", [x], kernel_type="LINEAR", kernel_params=[0.0] * 3, coefficients=self.coefficients[:4], rho=[0.25])
        self.refused("12 numbers and 3 coefficients for 4611686018427387904 vectors", "SVMRegressor", [x], **{**vectors, "n_supports": 2**62})


if __name__ == "__main__":
    unittest.main()
