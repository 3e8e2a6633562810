"""Clients that make single calls under a session of their own: every answered one must have happened, and stay so."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np
import programs
import world  # noqa: F401: finds the package
from load import Caller, Excused
from model import FORGOTTEN, STOPPED, Held, Wrong

import kiln
from kiln.v1 import buffer_service_pb2, dtype_pb2, kernel_service_pb2, tensor_pb2

LARGE = 200_000  # elements
CHUNK = 128 << 10
MOST = 12  # buffers


class Calls(Caller):
    """Chains of Allocate, Write, Execute, Copy, Fill, Read and Free."""

    def life(self) -> None:
        self.held: List[Held] = []
        self.hashes: Dict[int, bytes] = {}  # by id of a program
        self.connect()
        try:
            self.open()
            self.programs: List[Any] = [programs.Affine(*programs.pair(self.random)), programs.Gather(self.random.randrange(99)),
                                        programs.Affine(5, 7)]  # fmt: skip
            for _ in range(self.random.randrange(20, 60)):
                if not self.going():
                    break
                self.step()
            if self.kills != self.world.kills_done:
                return self.is_forgotten()
            for held in self.held:
                self.quietly(lambda held=held: self.read(held))
            self.end()
        finally:
            if self.token:
                self.end()
            self.channel.close()

    def step(self) -> None:
        self.quietly(self.renew)
        kinds = [(self.make, 6), (self.write, 6), (self.fill, 2), (self.copy, 4), (self.read_any, 6), (self.free, 4),
                 (self.execute, 8), (self.by_value, 4), (self.gather, 6), (self.take_up, 1), (self.compile_new, 2)]  # fmt: skip
        use = self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        self.quietly(use)

    def quietly(self, use: Any) -> None:
        """A failure that is allowed is not the end, as long as there is a session."""
        try:
            use()
        except Excused as failure:
            if failure.code in FORGOTTEN:
                raise

    def is_forgotten(self) -> None:
        """Of a server that was killed nothing is left, and nothing of anybody else's is in its place."""
        token, self.token = self.token, b""
        self.refused("SessionService.Renew", ("UNKNOWN_HANDLE",), token=token)
        for held in self.held:
            for session in (token, b""):
                self.refused("BufferService.Read", ("UNKNOWN_HANDLE",), session, self._reading(held))

    # -- choices

    def clean(self, size: int = 0) -> Held:
        """A buffer that is not doubtful; of `size` elements, or of any number."""
        there = [held for held in self.held if not held.doubtful and size in (0, len(held.values))]
        return self.random.choice(there) if there else self.make(size or programs.SIZE)

    def numbers(self, size: int) -> np.ndarray:
        return programs.numbers(self.random.getrandbits(32), size)

    # -- memory

    def make(self, size: int = 0) -> Held:
        size = size or (LARGE if self.random.random() < 0.1 else programs.SIZE)
        if len(self.held) >= MOST:
            self.free()
        made = self.call("BufferService.Allocate", bytes=4 * size).buffer
        return self._keep(made, np.zeros(size, np.int32))

    def write(self) -> None:
        held = self.clean()
        values = self.numbers(len(held.values))
        data = programs.written(values)

        def messages() -> Any:
            yield buffer_service_pb2.WriteRequest(header={"buffer": {"handle": held.handle}, "bytes": len(data)})
            for at in range(0, len(data), CHUNK):
                yield buffer_service_pb2.WriteRequest(chunk=data[at : at + CHUNK])

        self._change(held, values, lambda: self.calling("BufferService.Write", lambda stub, **how: stub(messages(), **how)), mixed=True)

    def fill(self) -> None:
        held, value = self.clean(), self.random.randrange(1 << 31)
        self._change(held, np.full(len(held.values), value, np.int32),
                     lambda: self.call("BufferService.Fill", buffer={"handle": held.handle}, pattern=value.to_bytes(4, "little")))

    def copy(self) -> None:
        source, target = self.clean(programs.SIZE), self.clean(programs.SIZE)
        if source is not target:
            self._change(target, source.values, lambda: self.call(
                "BufferService.Copy", **{"from": {"handle": source.handle}}, to={"handle": target.handle}, bytes=4 * programs.SIZE))

    def read_any(self) -> None:
        if self.held:
            self.read(self.random.choice(self.held))

    def read(self, held: Held) -> None:
        data = self.calling("BufferService.Read", self._reading(held), expected=STOPPED if held.doubtful else ())
        if isinstance(data, kiln.KilnError):
            return self.free(held)
        held.check(programs.read(data))
        if held.doubtful and self.random.random() < 0.5:
            self.free(held)

    def free(self, held: Optional[Held] = None) -> None:
        if held is None:
            if not self.held:
                return
            held = self.random.choice(self.held)
        self.held.remove(held)
        self.call("BufferService.Free", handle=[held.handle])

    def _reading(self, held: Held) -> Any:
        request = buffer_service_pb2.ReadRequest(buffer=tensor_pb2.BufferRef(handle=held.handle))
        return lambda stub, **how: b"".join(part.chunk for part in stub(request, **how))

    def _keep(self, made: Any, values: np.ndarray) -> Held:
        if any(held.handle == made.handle for held in self.held):
            raise Wrong("handle %x was given twice" % made.handle)
        self.held.append(Held(made.handle, values))
        self.world.published.append((self.tenant, "handle", (made.handle, self.token)))
        return self.held[-1]

    def _change(self, held: Held, values: np.ndarray, use: Any, mixed: bool = False) -> None:
        try:
            use()
        except Excused:
            held.doubt(values, mixed)
            raise
        held.wrote(values)

    # -- programs

    def compile_new(self) -> None:
        self.programs[0] = programs.Affine(*programs.pair(self.random))
        self.compile(self.programs[0])

    def compile(self, program: Any) -> None:
        answer = self.call("KernelService.Compile", graph=program.graph().build())
        self.hashes[id(program)] = answer.graph_hash
        self.world.published.append((self.tenant, "program", answer.graph_hash))

    def launch(self, program: Any, **fields: Any) -> Any:
        """By its hash; a program that has made room for others is compiled again."""
        while True:
            if id(program) not in self.hashes:
                self.compile(program)
            request = kernel_service_pb2.ExecuteRequest(graph_hash=self.hashes[id(program)], **fields)
            answer = self.calling("KernelService.Execute", lambda stub, **how: stub(request, **how), expected=("NEED_GRAPH",))
            if not isinstance(answer, kiln.KilnError):
                return answer
            del self.hashes[id(program)]

    def execute(self) -> None:
        program, x = self.random.choice([self.programs[0], self.programs[2]]), self.clean(programs.SIZE)
        answer = self.launch(program, arguments=[{"slot": 0, "buffer": {"handle": x.handle}}])
        if len(self.held) < MOST:
            self._keep(answer.results[0].buffer, program.of(x.values))
        else:
            self.call("BufferService.Free", handle=[answer.results[0].buffer.handle])

    def by_value(self) -> None:
        program, values = self.programs[0], self.numbers(programs.SIZE)
        tensor = tensor_pb2.Tensor(dtype=dtype_pb2.INT32, shape=[programs.SIZE], data=programs.written(values))
        answer = self.launch(program, arguments=[{"slot": 0, "tensor": tensor}], result_mode=kernel_service_pb2.RESULT_INLINE)
        if not np.array_equal(programs.read(answer.results[0].tensor.data), program.of(values)):
            raise Wrong("a program by value has wrong values")

    def gather(self) -> None:
        program, x, y = self.programs[1], self.clean(programs.SIZE), self.clean(programs.SIZE)
        if x is not y:
            self._change(x, program.of(x.values, y.values), lambda: self.launch(
                program, arguments=[{"slot": 0, "buffer": {"handle": x.handle}}, {"slot": 1, "buffer": {"handle": y.handle}}]))
