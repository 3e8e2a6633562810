"""Examples of functions of functions, clients, graphs and programs, and of what goes in and out."""

TEXT = """
shapes  Arguments and results are arrays of any shape, numbers, and trees of them.
raises  UnsupportedDType for an argument that is none, and what the function raises.

jit
>>> kiln.jit(lambda x: x * 2 + 1)(np.arange(3.0))
Array([1., 3., 5.], dtype=float64)

grad
>>> kiln.grad(lambda x: (x**2).sum())(np.array([1.0, 2.0]))
Array([2., 4.], dtype=float64)

value_and_grad
>>> kiln.value_and_grad(lambda x: (x**2).sum())(np.array([1.0, 2.0]))
(Array(5., dtype=float64), Array([2., 4.], dtype=float64))

vmap
>>> kiln.vmap(lambda row: row.max() - row.min())(np.array([[1, 5], [2, 9]]))
Array([4, 7], dtype=int64)

jax.jit
>>> kiln.jax.jit(lambda x: x * 2 + 1)(np.float32([1, 2]))
Array([3., 5.], dtype=float32)

jax.pmap
>>> kiln.jax.pmap(lambda x: x * 2, devices=["CPU:0", "CPU:1"])(np.float32([1, 2])).numpy().tolist()
[2.0, 4.0]

shapes  A tree is a dict, list, tuple, namedtuple or dataclass of arrays of any shape, or one of them.
raises  InvalidArgument for trees that differ.

tree_flatten
>>> kiln.tree_flatten({"b": [1, 2], "a": 3})[0]
[3, 1, 2]

tree_unflatten
>>> kiln.tree_unflatten(kiln.tree_flatten({"a": 1, "b": 2})[1], [10, 20])
{'a': 10, 'b': 20}

tree_map
>>> kiln.tree_map(lambda a, b: a + b, {"x": 1}, {"x": 10})
{'x': 11}

State
>>> state = kiln.State({"w": np.zeros(2)})
>>> state.value = {"w": np.ones(2)}
>>> state.value["w"]
Array([1., 1.], dtype=float64)

shapes  Values by name, of any shape.
raises  InvalidArgument for another suffix, NotFound for a name that is not there, OSError for the file.

save
>>> kiln.save(folder + "/a.npz", {"w": kiln.ones(2)})

load
>>> kiln.save(folder + "/b.npz", {"w": kiln.ones(2)})
>>> kiln.load(folder + "/b.npz")["w"]
Array([1., 1.], dtype=float64)

shapes  Inputs and outputs have any shape, whose sizes may be variables of the graph.
raises  GraphError, ShapeError and DTypeError for what is no model, OSError for the files.

save_model
>>> graph = kiln.Graph()
>>> x = graph.param("x", (graph.variable("batch", 1, 64), 2))
>>> w = graph.param("w", (2, 3))
>>> kiln.save_model(folder + "/models/mlp/1", {"y": kiln.relu(x @ w)}, constants={"w": kiln.ones((2, 3), "float32")})

shapes  Values by name, of any shape.
raises  InvalidArgument for another suffix, NotFound for a name that is not there, OSError for the file.

by_value
>>> import pickle
>>> with kiln.by_value():
...     blob = pickle.dumps(kiln.ones(2))
>>> pickle.loads(blob)
Array([1., 1.], dtype=float64)

shapes  An array has `shape`, `dtype`, `client` and `device`, and never changes.
raises  TypeError where something would write to it, BufferFreed once it was donated.

Array
>>> x = kiln.array([[1.0, 2.0], [3.0, 4.0]])
>>> (x @ x.T).shape, float(x[1, 0]), x.sum(axis=0)
((2, 2), 3.0, Array([4., 6.], dtype=float64))

shapes  A buffer has `shape`, `dtype` and `device`; a view has its own shape.
raises  ShapeError, DTypeError and OutOfRange where something does not fit, BufferFreed once it was freed.

Buffer
>>> buffer = client.buffer([1.0, 2.0, 3.0])
>>> buffer.write([9.0], start=1).numpy().tolist()
[1.0, 9.0, 3.0]

Shards
>>> shards = client.shards(np.arange(4.0), ["CPU:0", "CPU:1"])
>>> shards.shards[1].numpy().tolist()
[2.0, 3.0]

Memory
>>> kiln.Memory(0, offset=16)
Memory(buffer=0, offset=16)

Integer
>>> kiln.Integer(0)
Integer(number=0)

At
>>> kiln.At(client.buffer([1.0, 2.0]), 8).offset
8

AtShards
>>> kiln.AtShards((kiln.At(client.buffer([1.0]), 0),)).places[0].offset
0

shapes  -
raises  NoServer if nothing answers, WrongVersion, Unauthenticated, NotFound for an unknown device.

connect
>>> with kiln.connect(address) as other:
...     other.closed
False

local
>>> with kiln.local() as own:
...     own.transport in ("unix socket", "shared memory")
True

current
>>> kiln.current() is client
True

Client
>>> with kiln.connect(address) as other:
...     other.buffer([1.0, 2.0]).shape
(2,)

Traffic
>>> client.traffic["DeviceService.List"].calls > 0
True

shapes  Arrays of any shape are computed within.
raises  InvalidArgument for what is no traceparent.

traceparent
>>> with kiln.traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"):
...     client.buffer([1.0, 2.0]).shape
(2,)

shapes  A graph's values have shapes and dtypes, and no numbers before its program has run.
raises  GraphError, ShapeError and DTypeError for what is no graph.

Graph
>>> graph = kiln.Graph()
>>> graph.output(graph.param("x", (2,)) * 2.0)
>>> client.compile(graph)(np.float32([1, 2])).tolist()
[2.0, 4.0]

Tensor
>>> kiln.exp(kiln.Graph().param("x", (2, 3)).sum(axis=0))
<Tensor float32 (3,)>

Dim
>>> kiln.Graph().variable("n", 1, 8) * 2 + 1
2*n + 1

Program
>>> graph = kiln.Graph()
>>> graph.output(graph.param("x", (2,)).sum())
>>> client.compile(graph)
<Program 0a3f5fe7: (float32 (2,)) -> (float32 ())>

Run
>>> graph = kiln.Graph()
>>> graph.output(graph.param("x", (2,)).sum())
>>> client.compile(graph).run([np.float32([1, 2])]).results[0].item()
3.0

Gradient
>>> graph = kiln.Graph()
>>> v = graph.param("v", (3,))
>>> graph.output((v**2).sum())
>>> len(client.gradient(graph, wrt=[v]).results)
1

Recording
>>> graph = kiln.Graph()
>>> x = graph.param("x", (1,))
>>> graph.update(x, x + 1.0)
>>> twice = client.record([(client.compile(graph), [kiln.Memory(0)])] * 2)
>>> buffer = client.buffer(np.float32([1]))
>>> twice(buffer)
>>> buffer.numpy().tolist()
[3.0]

graph_hash
>>> graph = kiln.Graph()
>>> graph.output(graph.param("x", (2,)).sum())
>>> len(kiln.graph_hash(graph.build()))
32

message_of_nodes
>>> len(kiln.message_of_nodes([("TUPLE", [])]).nodes)
1

shapes  x is a Tensor of a graph; the devices' shares are equal.
raises  ShapeError where they would not be, GraphError for devices that are not different.

copy
>>> kiln.copy(kiln.Graph().param("x", (4,)), "CPU:1")
<Tensor float32 (4,)>

shard
>>> kiln.shard(kiln.Graph().param("x", (4, 2)), ("CPU:0", "CPU:1"))
<Tensor float32 (4, 2)>

replicate
>>> kiln.replicate(kiln.Graph().param("x", (4,)), ("CPU:0", "CPU:1"))
<Tensor float32 (4,)>

all_reduce
>>> kiln.all_reduce(kiln.Graph().param("x", (2, 3), devices=("CPU:0", "CPU:1")), 2).shape
(1, 3)

spread
>>> graph = kiln.Graph()
>>> graph.output(kiln.sum(graph.param("x", (4,))))
>>> len(kiln.spread(graph, ("CPU:0", "CPU:1"), split=["x"]).nodes) > len(graph.build().nodes)
False
"""
