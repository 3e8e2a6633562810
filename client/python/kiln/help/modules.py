"""Examples of what is in modules of its own: kiln.aio and kiln.onnx."""

TEXT = """
shapes  -
raises  NoServer if nothing answers, WrongVersion, Unauthenticated, NotFound for an unknown device.

aio.connect
>>> import asyncio
>>> async def main():
...     async with await kiln.aio.connect(address) as other:
...         return other.target == address, other.closed
>>> asyncio.run(main())
(True, False)

aio.Client
>>> import asyncio
>>> async def main():
...     async with await kiln.aio.connect(address) as other:
...         numbers = await other.arange(3)
...         return (await numbers.numpy()).tolist()
>>> asyncio.run(main())
[0, 1, 2]

shapes  A buffer has `shape`, `dtype` and `device`; a view has its own shape.
raises  ShapeError, DTypeError and OutOfRange where something does not fit, BufferFreed once it was freed.

aio.Buffer
>>> import asyncio
>>> async def main():
...     async with await kiln.aio.connect(address) as other:
...         buffer = await other.buffer([1.0, 2.0, 3.0])
...         await buffer.write([9.0], start=1)
...         return (await buffer.numpy()).tolist()
>>> asyncio.run(main())
[1.0, 9.0, 3.0]

aio.Shards
>>> import asyncio
>>> async def main():
...     async with await kiln.aio.connect(address) as other:
...         shards = await other.shards(np.arange(4.0), ["CPU:0", "CPU:1"])
...         return (await shards.shards[1].numpy()).tolist(), (await shards.numpy()).tolist()
>>> asyncio.run(main())
([2.0, 3.0], [0.0, 1.0, 2.0, 3.0])

aio.Program
>>> import asyncio
>>> graph = kiln.Graph()
>>> graph.output(graph.param("x", (2,)) * 2.0)
>>> async def main():
...     async with await kiln.aio.connect(address) as other:
...         program = await other.compile(graph)
...         return (await program(np.float32([1, 2]))).tolist()
>>> asyncio.run(main())
[2.0, 4.0]

aio.Recording
>>> import asyncio
>>> graph = kiln.Graph()
>>> x = graph.param("x", (1,))
>>> graph.update(x, x + 1.0)
>>> async def main():
...     async with await kiln.aio.connect(address) as other:
...         program = await other.compile(graph)
...         twice = await other.record([(program, [kiln.Memory(0)])] * 2)
...         buffer = await other.buffer(np.float32([1]))
...         await twice(buffer)
...         return (await buffer.numpy()).tolist()
>>> asyncio.run(main())
[3.0]

shapes  Those that the model declares; a size of a name is what `sizes` or each call says.
raises  InvalidArgument for what is no model, NotFound for no file; at a call ShapeError and DTypeError.

onnx.load
>>> model = kiln.onnx.load(folder + "/model.onnx", sizes={"batch": (1, 64)})
>>> model.inputs
(Tensor(name='x', dtype='float32', shape=('batch', 2)),)

onnx.Model
>>> model = kiln.onnx.load(folder + "/model.onnx", sizes={"batch": (1, 64)})
>>> model(np.float32([[-1, 2]])).tolist()
[[0.0, 2.0]]

onnx.Tensor
>>> kiln.onnx.Tensor("x", "float32", ("batch", 2)).shape
('batch', 2)
"""
