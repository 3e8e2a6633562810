"""The Python client, as the conformance suite drives it: a JSON object a line in, one out.

tests/clients/README.md says what each request means. Each is a function of `Adapter`, by its name.
"""

import base64
import contextlib
import json
import os
import pathlib
import signal
import sys
import threading
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "client" / "python"))

import numpy as np
from python_bench import Bench

import kiln
from kiln.hash import graph_hash
from kiln.v1 import graph_pb2


def array_of(tensor):
    data = base64.b64decode(tensor.get("data", ""))
    return np.frombuffer(data, kiln.dtype(tensor["dtype"]).numpy).reshape(tensor.get("shape") or ())


def tensor_of(array):
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": kiln.dtype(array.dtype).name, "shape": list(array.shape), "data": data}


def graph_of(data):
    return graph_pb2.Graph.FromString(base64.b64decode(data))


class Adapter:
    def __init__(self):
        self.clients, self.programs, self.buffers, self.recordings, self.begun, self.served = {}, {}, {}, {}, {}, {}

    @property
    def client(self):
        return self.clients[self.of]

    def reset(self, ask):
        for client in self.clients.values():
            client.close()
        self.__init__()

    def connect(self, ask):
        options = {name: ask.get(name) for name in ("token", "token_file", "certificate", "key")}
        options = {**options, "stream": ask.get("stream", False), "shared_memory": False,
                   "connect_timeout": ask.get("timeout_ms", 30000) / 1000}  # fmt: skip
        if "ca" in ask:
            options["tls"] = ask["ca"]
        if "lease_seconds" in ask:
            options["lease"] = ask["lease_seconds"]
        client = self.clients[self.of] = kiln.connect(ask["address"], **options)
        return {"features": sorted(client.features), "devices": [row.name for row in client.devices()]}

    def close(self, ask):
        self.clients.pop(self.of).close()

    def hash(self, ask):
        return {"hash": graph_hash(graph_of(ask["graph"])).hex()}

    def build(self, ask):
        graph, values = kiln.Graph(), []
        for name, *arguments in ask["calls"]:
            given = (values[item["value"]] if isinstance(item, dict) else item for item in arguments)
            values.append(BUILD[name](graph, *given))
        return {"graph": base64.b64encode(graph.build().SerializeToString()).decode()}

    def compile(self, ask):
        program = self.programs[ask["as"]] = self.client.compile(graph_of(ask["graph"]))
        return {"hash": program.hash.hex(), "from_cache": program.from_cache}

    def gradient(self, ask):
        made = self.client.gradient(graph_of(ask["graph"]), ask["wrt"])
        return {"graph": base64.b64encode(made.graph.SerializeToString()).decode()}

    def upload(self, ask):
        self.buffers[ask["as"]] = self.client.buffer(array_of(ask["tensor"]), device=ask.get("device"))

    def allocate(self, ask):
        self.buffers[ask["as"]] = self.client.allocate(ask["bytes"], wait=True)

    def write(self, ask):
        self.buffers[ask["buffer"]].write_bytes(base64.b64decode(ask["data"]), offset=ask.get("offset", 0))

    def read(self, ask):
        buffer = self.buffers[ask["buffer"]]
        if "bytes" not in ask:
            return {"tensor": tensor_of(buffer.numpy())}
        offset = ask.get("offset", 0)
        return {"data": base64.b64encode(buffer[offset : offset + ask["bytes"]].numpy().tobytes()).decode()}

    def free(self, ask):
        for name in ask["buffers"]:
            self.buffers.pop(name).free()

    def run(self, ask):
        keep = ask.get("keep")
        arguments = [self.argument(item) for item in ask["arguments"]]
        timeout = ask["timeout_ms"] / 1000 if "timeout_ms" in ask else None
        out = "arrays" if keep is None else "buffers"
        program, tag = self.programs[ask["program"]], ask.get("tag", "")
        with interrupted(ask.get("cancel_after_ms")):
            results = program.run(dict(enumerate(arguments)), out=out, timeout=timeout, tag=tag).results
        if keep is None:
            return {"results": [tensor_of(np.asarray(item)) for item in results]}
        self.buffers.update(zip(keep, results))

    def argument(self, item):
        if "buffer" in item:
            return self.buffers[item["buffer"]]
        return array_of(item["tensor"]) if "tensor" in item else item["integer"]

    def run_files(self, ask):
        """The name of a constant begins with its slot."""
        program = self.client.compile(graph_pb2.Graph.FromString(pathlib.Path(ask["graph_file"]).read_bytes()))
        constants = kiln.load(ask["constants_file"], client=self.client)
        given = {int(name.split("_")[0]): array for name, array in constants.items()}
        given.update(enumerate(array_of(item["tensor"]) for item in ask["arguments"]))
        return {"results": [tensor_of(np.asarray(item)) for item in program.run(given, out="arrays").results]}

    def begin(self, ask):
        """Does another request beside what follows; `end` answers."""
        answer = []
        thread = threading.Thread(target=lambda: answer.append(self.answer(ask["request"])), daemon=True)
        thread.start()
        self.begun[ask["as"]] = thread, answer

    def end(self, ask):
        thread, answer = self.begun.pop(ask["of"])
        thread.join()
        if "error" in answer[0]:
            raise Told(answer[0])
        return answer[0]

    def handle(self, ask):
        return {"handle": str(self.buffers[ask["buffer"]].handle)}

    def describe(self, ask):
        """Of a handle, whosever it is."""
        request = kiln.v1.buffer_service_pb2.DescribeBufferRequest(handle=int(ask["handle"]))
        return {"bytes": self.client._connection.call("BufferService.Describe", request).buffer.bytes}

    def unchecked_run(self, ask):
        """On one buffer, and with one result, whatever the program takes: as a command whose failure is met later."""
        kept = mock.patch.object(kiln.program.ProgramLike, "_prepare", lambda self, values: (dict(values), []))
        with kept:
            self.run({**ask, "arguments": [{"buffer": ask["buffer"]}], "keep": [ask["keep"]]})

    def models(self, ask):
        return {"models": [row._asdict() for row in self.client.models()]}

    def model(self, ask):
        model = self.served[ask["as"]] = self.client.model(ask["name"], ask.get("version", ""))
        sides = {side: [{"name": row.name, "dtype": row.dtype and row.dtype.name, "shape": list(row.shape)} for row in getattr(model, side)]
                 for side in ("inputs", "outputs")}  # fmt: skip
        return {"ready": model.ready(), "versions": list(model.versions), **sides}

    def infer(self, ask):
        timeout = ask["timeout_ms"] / 1000 if "timeout_ms" in ask else None
        with interrupted(ask.get("cancel_after_ms")):
            return outputs_of(self.served[ask["model"]].infer(**inferred(ask), timeout=timeout))

    def infer_stream(self, ask):
        with self.served[ask["model"]].stream() as stream:
            return {"answers": [told_of(answer) for answer in [stream.infer(**inferred(row)) for row in ask["requests"]]]}

    def fence(self, ask):
        self.client.fence()

    def record(self, ask):
        steps = [(self.programs[name], [kiln.Memory(number) for number in memory]) for name, memory in ask["steps"]]
        self.recordings[ask["as"]] = self.client.record(steps)

    def replay(self, ask):
        self.recordings[ask["recording"]].run([self.buffers[name] for name in ask["buffers"]])

    def collective(self, ask):
        inputs, outputs = ([self.buffers[name] for name in ask[side]] for side in ("inputs", "outputs"))
        kind = ask["kind"]
        options = {name: ask[name] for name in ("op", "root") if name in ask}
        if kind in ("broadcast", "scatter"):
            getattr(self.client, kind)(inputs[0], outputs, **options)
        elif kind in ("gather", "reduce"):
            getattr(self.client, kind)(inputs, outputs[0], **options)
        else:
            getattr(self.client, kind)(inputs, outputs, **options)

    def transfer(self, ask):
        """There and back, without holding it as JSON: the bytes that differ from what was sent."""
        sent = np.resize(np.arange(251, dtype=np.uint8), ask["bytes"])
        with self.client.allocate(ask["bytes"]) as buffer:
            buffer.write_bytes(sent)
            return {"wrong": int(np.count_nonzero(sent != buffer.numpy()))}

    def bench(self, ask):
        if ask["what"] == "prepare":
            self.measures = Bench(ask, graph_of)
            return None
        return self.measures.measure(ask)

    def answer(self, ask):
        self.of = ask.get("client", "")
        try:
            return getattr(self, ask["do"])(ask) or {}
        except kiln.KilnError as error:
            return {"error": told(error)}
        except Told as error:
            return error.args[0]


def inferred(ask):
    """What Model.infer takes."""
    said = ask.get("sequence", {})
    sequence = {"sequence": int(said["id"]), "start": said.get("start", False), "end": said.get("end", False)} if said else {}
    inputs = {name: array_of(item["tensor"]) for name, item in ask["inputs"].items()}
    return {"inputs": inputs, "outputs": ask.get("outputs", ()), **sequence}


def outputs_of(arrays):
    return {"outputs": {name: tensor_of(array) for name, array in arrays.items()}}


def told_of(answer):
    """What a stream's future has."""
    try:
        return outputs_of(answer.result())
    except kiln.KilnError as error:
        return {"error": told(error)}


@contextlib.contextmanager
def interrupted(after_ms):
    """By what a person ends a program with, Ctrl-C: it ends the call at the server, and the suite is told."""
    if after_ms is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, after_ms / 1000)
    try:
        yield
    except KeyboardInterrupt:
        raise Told({"error": {"status": "CANCELLED"}}) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Told(Exception):
    """An answer that says an error."""


def told(error):
    said = {"code": error.code, "status": error.status.name if error.status else None, "message": error.message}
    for name in ("node", "op", "tag", "slot", "field", "limit", "limit_value", "used"):
        said[name] = getattr(error, name)
    if error.retry_after is not None:
        said["retry_after_ms"] = round(error.retry_after * 1000)
    return {name: value for name, value in said.items() if value is not None}


# What `build` may call: of the graph, and of values.
BUILD = {
    "param": lambda graph, name, shape, dtype: graph.param(name, tuple(shape), dtype),
    "output": lambda graph, x: graph.output(x),
    "update": lambda graph, x, value: graph.update(x, value),
    "cast": lambda graph, x, dtype: x.astype(dtype),
    "reshape": lambda graph, x, shape: x.reshape(tuple(shape)),
    "permute": lambda graph, x, axes: x.transpose(tuple(axes)),
    "broadcast": lambda graph, x, shape: kiln.broadcast_to(x, tuple(shape)),
    "pad": lambda graph, x, widths, value: kiln.pad(x, [tuple(row) for row in widths], value),
    "shrink": lambda graph, x, ranges: kiln.shrink(x, [tuple(row) for row in ranges]),
    "flip": lambda graph, x, axis: kiln.flip(x, axis),
    "sum": lambda graph, x, axes: kiln.sum(x, tuple(axes)),
    "max": lambda graph, x, axes: kiln.max(x, tuple(axes)),
    "matmul": lambda graph, x, y: kiln.matmul(x, y),
    "softmax": lambda graph, x, axis: kiln.softmax(x, axis),
    "where": lambda graph, c, x, y: kiln.where(c, x, y),
}
for _name in ("add", "subtract", "multiply", "divide", "maximum", "less", "equal"):
    BUILD[_name] = lambda graph, x, y, of=getattr(kiln, _name): of(x, y)
for _name in ("negative", "exp", "log", "sqrt", "sin", "reciprocal", "relu", "tanh"):
    BUILD[_name] = lambda graph, x, of=getattr(kiln, _name): of(x)


def main():
    # What anything prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    adapter = Adapter()
    for line in sys.stdin:
        ask = json.loads(line)
        known = hasattr(Adapter, ask["do"]) and not ask["do"].startswith("_")
        answer = adapter.answer(ask) if known else {"unsupported": ask["do"]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
