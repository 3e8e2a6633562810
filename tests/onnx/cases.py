"""The standard's node tests, as folders that onnx_runner reads; and what their results are compared with."""

import pathlib
import subprocess
import threading
import warnings

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# What a value may be offered for: shapes, axes, counts, scales; never whole data.
MOST_INTEGERS, MOST_FLOATS = 64, 8
# Two units in the last place: the package's own runner has it so for bfloat16. Its expected values round after each
# step, and who rounds less often is not the one who is wrong.
ROUNDING = {"bfloat16": 2.0**-6, "float16": 2.0**-9}
# Absolute tolerances of tests whose expected values are rounding errors of a transform in single precision where the
# true value is 0. onnxruntime is compared in the same way.
NOISE = {"test_dft_inverse": 1e-5, "test_dft_inverse_opset19": 1e-5}


class Case:
    def __init__(self, name, model, inputs, outputs, rtol, atol):
        self.name, self.model, self.inputs, self.outputs = name, model, inputs, outputs
        self.rtol, self.atol = rtol, NOISE.get(name, atol)
        self.step = 0  # by how much integers may differ
        self.ops = sorted({node.op_type for node in model.graph.node})

    def write(self, folder, offer=False):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(self.model.SerializeToString())
        initialised = {tensor.name for tensor in self.model.graph.initializer}
        names = [one.name for one in self.model.graph.input if one.name not in initialised]
        offered = []
        for i, (name, value) in enumerate(zip(names, self.inputs)):
            if not isinstance(value, onnx.TensorProto):
                break  # A sequence or an optional: the model is refused for it before inputs are asked for.
            (folder / ("input_%d.pb" % i)).write_bytes(value.SerializeToString())
            count = int(numpy.prod(value.dims)) if value.dims else 1
            real = value.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)
            if count <= (MOST_FLOATS if real else MOST_INTEGERS):
                offered.append(name)
        if offer:
            (folder / "offer").write_text("".join(name + "\n" for name in offered))

    def expected(self):
        """Arrays, sequences one after the other."""
        return [array for value in self.outputs for array in flat(value)]


def flat(value):
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [array for one in value for array in flat(one)]
    return [value if isinstance(value, onnx.TensorProto) else numpy.asarray(value)]


def proto(value):
    """An array as a TensorProto; what is none stays as it is."""
    if isinstance(value, numpy.ndarray) or numpy.isscalar(value):
        return numpy_helper.from_array(numpy.asarray(value))
    return value


def load(kinds=("node",), wanted=None):
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in kinds:
            for case in load_model_tests(kind=kind):
                if wanted is not None and case.name not in wanted:
                    continue
                if case.model is not None and case.data_sets:
                    inputs, outputs = case.data_sets[0]
                    found.append(Case(case.name, case.model, [proto(one) for one in inputs], list(outputs), case.rtol, case.atol))
                elif case.model_dir is not None:
                    found.append(from_folder(case))
    return sorted(found, key=lambda case: case.name)


def from_folder(case):
    folder = pathlib.Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    data = folder / "test_data_set_0"

    def read(name):
        values = []
        while (path := data / ("%s_%d.pb" % (name, len(values)))).exists():
            tensor = onnx.TensorProto()
            try:
                tensor.ParseFromString(path.read_bytes())
                values.append(tensor if tensor.data_type else None)
            except Exception:  # A SequenceProto or an OptionalProto.
                values.append(None)
        return values

    outputs = [None if one is None else numpy_helper.to_array(one) for one in read("output")]
    return Case(case.name, model, read("input"), outputs, case.rtol, case.atol)


def difference(got, want, rtol, atol, step=0):
    """What is wrong with `got`, or nothing. Integers may differ by so many steps."""
    want = numpy_helper.to_array(want) if isinstance(want, onnx.TensorProto) else want
    if got.shape != want.shape:
        return "shape %s, not %s" % (got.shape, want.shape)
    if got.dtype != want.dtype:
        return "dtype %s, not %s" % (got.dtype, want.dtype)
    if want.dtype.kind in "fV":
        rtol = max(rtol, ROUNDING.get(want.dtype.name, 0))
        got, want = got.astype(numpy.float64), want.astype(numpy.float64)
        if not numpy.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
            with numpy.errstate(all="ignore"):
                return "differs by %s" % numpy.nanmax(numpy.abs(got - want))
    elif step and want.dtype.kind in "iu":
        most = numpy.abs(got.astype(numpy.int64) - want.astype(numpy.int64)).max(initial=0)
        return "differs by %d" % most if most > step else ""
    elif not numpy.array_equal(got, want):
        return "differs"
    return ""


class Runner:
    """onnx_runner, begun again where a case ended it."""

    def __init__(self, binary, engine="cpu", limit=120):
        self.command, self.limit, self.process = [str(binary), engine], limit, None

    def run(self, case, folder, offer=False):
        """(verdict, reason, names of inputs that became part of the program)."""
        case.write(folder, offer)
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        watch = threading.Timer(self.limit, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write("%s\n" % folder)
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            code = self.process.wait()
            self.process = None
            return "failed", "the runner ended with %d, or was ended after %d s" % (code, self.limit), []
        verdict, first, *more = line.rstrip("\n").split("\t")
        if verdict != "ok":
            return verdict, first, []
        names = [name for name in more[0].split(",") if name]
        wrong = self.compare(case, folder, len(names))
        return ("failed" if wrong else "passed"), wrong, [name for name in first.split(",") if name]

    @staticmethod
    def compare(case, folder, results):
        expected = case.expected()
        if results != len(expected):
            return "%d results, not %d" % (results, len(expected))
        for i, want in enumerate(expected):
            tensor = onnx.TensorProto()
            tensor.ParseFromString((folder / ("result_%d.pb" % i)).read_bytes())
            wrong = difference(numpy_helper.to_array(tensor), want, case.rtol, case.atol, case.step)
            if wrong:
                return "result %d: %s" % (i, wrong)
        return ""

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
