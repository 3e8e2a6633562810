"""What ops_test.py compares: functions of the builder beside numpy's, and a way to run many at once."""

import numpy as np

import kiln

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
ALL = ("bool",) + INTEGERS + FLOATS
# Relative to the result, by dtype of the result.
TOLERANCE = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-14}


def values(random, dtype, shape, low=-4, high=4):
    """Numbers in [low, high), halves among the floats; zeros and equal ones occur."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        return random.integers(max(low, 0) if kind.kind == "u" else low, high, shape).astype(kind)
    return (random.integers(2 * low, 2 * high, shape) / 2 + random.random(shape) / 8).astype(kind)


class Batch:
    """Expressions over shared arguments, compiled as one program, with what each must give."""

    def __init__(self):
        self.graph = kiln.Graph()
        self.arrays, self.names, self.expected = [], [], []

    def param(self, array):
        array = np.asarray(array)
        self.arrays.append(array)
        return self.graph.param("p%d" % len(self.arrays), array.shape, array.dtype)

    def add(self, name, tensor, expected):
        self.graph.output(tensor)
        self.names.append(name)
        self.expected.append(np.asarray(expected))
        if tensor.shape != np.shape(expected):
            raise AssertionError("%s: the builder says %s, numpy %s" % (name, tensor.shape, np.shape(expected)))

    def run(self, test, client, tolerance=TOLERANCE):
        """Compares value, shape and dtype of every expression."""
        results = client.compile(self.graph).run(self.arrays).results
        test.assertEqual(len(results), len(self.names))
        for name, result, expected in zip(self.names, results, self.expected):
            with test.subTest(name):
                test.assertEqual((result.dtype, result.shape), (expected.dtype, expected.shape), name)
                if expected.dtype.kind == "f":
                    bound = tolerance[expected.dtype.name]
                    np.testing.assert_allclose(result, expected, rtol=bound, atol=bound, err_msg=name)
                else:
                    np.testing.assert_array_equal(result, expected, err_msg=name)


UNARY = [  # name, numpy's function, dtypes, values from, to
    ("negative", np.negative, "iuf", -4, 4),
    ("absolute", np.absolute, "biuf", -4, 4),
    ("sign", np.sign, "iuf", -4, 4),
    ("square", np.square, "iuf", -4, 4),
    ("invert", np.invert, "biu", -4, 4),
    ("logical_not", np.logical_not, "biuf", -4, 4),
    ("isnan", np.isnan, "f", -4, 4),
    ("exp", np.exp, "biuf", -4, 4),
    ("exp2", np.exp2, "biuf", -4, 4),
    ("log", np.log, "iuf", 1, 9),
    ("log2", np.log2, "iuf", 1, 9),
    ("sqrt", np.sqrt, "iuf", 1, 9),
    ("sin", np.sin, "iuf", -4, 4),
    ("cos", np.cos, "iuf", -4, 4),
    ("tanh", np.tanh, "iuf", -4, 4),
    ("reciprocal", np.reciprocal, "f", 1, 9),
    ("trunc", np.trunc, "f", -4, 4),
    ("floor", np.floor, "f", -4, 4),
    ("ceil", np.ceil, "f", -4, 4),
]

BINARY = [
    ("add", np.add, "biuf"),
    ("subtract", np.subtract, "iuf"),
    ("multiply", np.multiply, "biuf"),
    ("divide", np.divide, "iuf"),
    ("floor_divide", np.floor_divide, "iu"),
    ("remainder", np.remainder, "iu"),
    ("maximum", np.maximum, "biuf"),
    ("minimum", np.minimum, "biuf"),
    ("less", np.less, "biuf"),
    ("greater", np.greater, "biuf"),
    ("less_equal", np.less_equal, "biuf"),
    ("greater_equal", np.greater_equal, "biuf"),
    ("equal", np.equal, "biuf"),
    ("not_equal", np.not_equal, "biuf"),
    ("bitwise_and", np.bitwise_and, "biu"),
    ("bitwise_or", np.bitwise_or, "biu"),
    ("bitwise_xor", np.bitwise_xor, "biu"),
    ("logical_and", np.logical_and, "biuf"),
    ("logical_or", np.logical_or, "biuf"),
]

REDUCE = [
    ("sum", np.sum, "biuf"),
    ("prod", np.prod, "biuf"),
    ("max", np.max, "biuf"),
    ("min", np.min, "biuf"),
    ("mean", np.mean, "biuf"),
    ("var", np.var, "iuf"),
    ("std", np.std, "iuf"),
    ("any", np.any, "biuf"),
    ("all", np.all, "biuf"),
]
