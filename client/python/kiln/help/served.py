"""Examples of models that a server serves: kiln.served, and the same awaited."""

TEXT = """
shapes  Arrays by name, of the shapes that model.inputs says; -1 there is any size.
raises  InvalidArgument for an input that does not fit, NotFound where there is no such model or sequence.

served.Model
>>> model = client.model("affine")
>>> model.infer({"x": [[1, 2, 3, 4]]})["y"].tolist()
[[3.0, 5.0, 7.0, 9.0]]

served.Stream
>>> with client.model("affine").stream() as stream:
...     answers = [stream.infer({"x": [[n, 0, 0, 0]]}) for n in range(3)]
>>> [answer.result()["y"][0, 0].item() for answer in answers]
[1.0, 3.0, 5.0]

served.Tensor
>>> client.model("affine").inputs
(Tensor(name='x', dtype=kiln.float32, shape=(-1, 4)),)

served.Version
>>> client.models()[0]
Version(name='affine', version='1', state='READY', reason='')

served.aio.Model
>>> import asyncio
>>> async def main():
...     async with await kiln.aio.connect(address) as other:
...         model = await other.model("affine")
...         return (await model.infer({"x": [[1, 2, 3, 4]]}))["y"].tolist()
>>> asyncio.run(main())
[[3.0, 5.0, 7.0, 9.0]]

served.aio.Stream
>>> import asyncio
>>> async def main():
...     async with await kiln.aio.connect(address) as other:
...         async with (await other.model("affine")).stream() as stream:
...             answers = await asyncio.gather(*(stream.infer({"x": [[n, 0, 0, 0]]}) for n in range(3)))
...         return [answer["y"][0, 0].item() for answer in answers]
>>> asyncio.run(main())
[1.0, 3.0, 5.0]
"""
