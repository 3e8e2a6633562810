"""Runs cases on one device of tinygrad, or by numpy: the child processes of run_ops.py.

    evaluate.py (CPU | KILN | numpy) NAMES OUT

reads case names from the file NAMES and appends one pickled Outcome after the
other to OUT; before each case it writes the case's name alone, so that a
process or server that ends in the middle leaves behind which case it was.
The environment decides everything else (DEV, KILN_LEVEL, KILN_ADDR).
"""

import gc
import pickle
import signal
import sys
import time
import traceback
import zlib

import numpy as np

import numpy_forms
import rows
import tables
import values

LONGEST_CASE = 60


def run_code(code, names):
    *statements, expression = [part.strip() for part in code.split(";")]
    for statement in statements:
        exec(statement, names)
    return eval(expression, names)


def flat(result):
    if isinstance(result, (tuple, list)) and not (result and isinstance(result[0], (int, float, bool))):
        return [item for part in result for item in flat(part)]
    return [result]


class Timeout(Exception):
    pass


def on_alarm(*_):
    raise Timeout("longer than %d s" % LONGEST_CASE)


class Device:
    """Evaluates on the process's default device."""

    def __init__(self, device):
        if device == "KILN":
            import kiln.tinygrad

            self.stats, self.reset = kiln.tinygrad.stats, kiln.tinygrad.reset_stats
        import tinygrad

        self.tg = tinygrad
        import tinygrad.nn
        import tinygrad.uop.ops

        self.device = device

    def add_kernel(self, out, x, y):
        ops = self.tg.uop.ops
        i = ops.UOp.range(out.shape[0], 0)
        return out[i].store(x[i] + y[i]).end(i).sink(arg=ops.KernelInfo(name="add"))

    def under(self, **settings):
        def run(function):
            with self.tg.Context(**settings):
                return function()

        return run

    def tensor(self, dtype, array):
        Tensor, dtypes = self.tg.Tensor, self.tg.dtypes
        if not array.ndim:  # of a scalar tinygrad would make a constant
            return self.tensor(dtype, array.reshape(1)).reshape(()).contiguous().realize()
        if array.dtype.kind != "V" and array.dtype.name == dtype:
            return Tensor(array, device=self.device).realize()
        bits = Tensor(array.view(np.uint16 if array.itemsize == 2 else np.uint8), device=self.device).realize()
        return bits.bitcast(getattr(dtypes, dtype)).realize()

    def array(self, result):
        if not isinstance(result, self.tg.Tensor):
            return type(result).__name__, np.asarray(result)
        dtype = result.dtype
        result = result.realize()
        if dtype in (self.tg.dtypes.bfloat16, *self.tg.dtypes.fp8s):
            bits = result.bitcast(self.tg.dtypes.uint16 if dtype.itemsize == 2 else self.tg.dtypes.uint8).numpy()
            name = next(n for n in values.NUMPY if getattr(self.tg.dtypes, n) == dtype)
            with np.errstate(all="ignore"):
                return str(dtype), bits.view(values.NUMPY[name]).astype(np.float32)
        return str(dtype), result.numpy()

    def __call__(self, case):
        tg = self.tg
        tg.Tensor.manual_seed(1)
        names = {name: self.tensor(*value) for name, value in values.inputs(case).items()}
        started = dict(names)
        names.update(Tensor=tg.Tensor, dtypes=tg.dtypes, np=np, tg=tg, D=self.device, Variable=tg.Variable)
        names.update(add_kernel=self.add_kernel, with_wino=self.under(WINO=1), with_training=self.under(TRAINING=1))
        results = flat(run_code(case.row.code, names))
        if case.gradient:
            targets = [started[name] for name in case.row.grad.split()]
            outputs = [out for out in results if isinstance(out, tg.Tensor) and out.is_floating_point()]
            total = None
            for number, out in enumerate(outputs):
                flow = values.cotangent(out.shape, number).astype(np.float32)
                part = (out * tg.Tensor(flow, device=self.device).cast(out.dtype).realize()).sum()
                total = part if total is None else total + part
            results = total.gradient(*targets)
        tensors = [out for out in results if isinstance(out, tg.Tensor)]
        key = zlib.crc32(b"".join(t.uop.key for t in tensors)) if tensors else 0
        if len(tensors) > 1:
            tensors[0].realize(*tensors[1:])
        return "%08x" % key, [self.array(result) for result in results]


def numpy_value(dtype, array):
    if not values.is_float(dtype):
        return array
    return array.astype(np.longdouble if dtype == "float64" else np.float64)


def by_numpy(case):
    names = {name: numpy_value(*value) for name, value in values.inputs(case).items()}
    names.update({name: getattr(numpy_forms, name) for name in dir(numpy_forms)}, np=np, dtype=case.dtype)
    with np.errstate(all="ignore"):
        results = flat(run_code(case.row.numpy, names))
    return "", [("", np.asarray(result)) for result in results]


def main(device, names_path, out_path):
    every = tables.by_name()
    engine = by_numpy if device == "numpy" else Device(device)
    signal.signal(signal.SIGALRM, on_alarm)
    with open(names_path) as names, open(out_path, "ab") as out:
        for number, name in enumerate(names.read().split("\n")):
            pickle.dump(name, out)
            out.flush()
            if device == "KILN":
                engine.reset()
            outcome = rows.Outcome(name, [], [], 0, {})
            signal.alarm(LONGEST_CASE)
            started = time.monotonic()
            try:
                outcome.key, pairs = engine(every[name])
                outcome.dtypes, outcome.results = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                file = place.filename.split("/")[-1]
                outcome.error = "%s: %s (%s:%d)" % (type(error).__name__, error, file, place.lineno)
            finally:
                signal.alarm(0)
            outcome.seconds = time.monotonic() - started
            if device == "KILN":
                outcome.fallbacks = dict(engine.stats().fallbacks)
            pickle.dump(outcome, out)
            out.flush()
            if number % 50 == 49:
                gc.collect()


if __name__ == "__main__":
    main(*sys.argv[1:])
