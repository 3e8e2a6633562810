"""A client that is to be killed in the middle of something: a process of its own.

    dying.py ADDRESS AUTHORITY TOKEN_FILE PHASE

It gets into the phase, says so ("there"), and stays until it is killed. From then on its session's lease is short.
"""

from __future__ import annotations

import random
import sys
import threading
from typing import Any, Callable, Dict

import programs
import world  # noqa: F401: finds the package
import grpc

from kiln.transport import wire
from kiln.v1 import buffer_service_pb2, kernel_service_pb2, tensor_pb2

LEASE, SHORT = 300, 1
LARGE = 64 << 20
FOR_EVER = threading.Event()


class Dying:
    def __init__(self, address: str, authority: str, token_file: str):
        with open(authority, "rb") as roots, open(token_file) as token:
            self.channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(roots.read()), wire.CHANNEL_OPTIONS)
            self.metadata = [("authorization", "Bearer " + token.read())]
        opened = self.call("SessionService.Open", lease_seconds=LEASE)
        self.token = opened.token
        self.metadata.append(("kiln-session-bin", opened.token))

    def call(self, name: str, **fields: Any) -> Any:
        return wire.stub(self.channel, name)(wire.METHODS[name].request(**fields), metadata=self.metadata, wait_for_ready=True)

    def there(self) -> None:
        self.call("SessionService.Open", resume_token=self.token, lease_seconds=SHORT)
        print("there", flush=True)

    def allocate(self, nbytes: int) -> int:
        return self.call("BufferService.Allocate", bytes=nbytes).buffer.handle

    # -- phases

    def session(self) -> None:
        """It has buffers, and asks for nothing."""
        for _ in range(20):
            self.allocate(4096)
        self.there()
        FOR_EVER.wait()

    def upload(self) -> None:
        """Some of what it promised is there."""
        handle = self.allocate(LARGE)

        def messages() -> Any:
            yield buffer_service_pb2.WriteRequest(header={"buffer": {"handle": handle}, "bytes": LARGE})
            for _ in range(4):
                yield buffer_service_pb2.WriteRequest(chunk=bytes(1 << 20))
            self.there()
            FOR_EVER.wait()

        wire.stub(self.channel, "BufferService.Write")(messages(), metadata=self.metadata)

    def download(self) -> None:
        """It asked for much, and reads a little of it."""
        request = buffer_service_pb2.ReadRequest(buffer=tensor_pb2.BufferRef(handle=self.allocate(LARGE)))
        parts = wire.stub(self.channel, "BufferService.Read")(request, metadata=self.metadata)
        next(parts)
        self.there()
        FOR_EVER.wait()

    def stream(self) -> None:
        """Commands are under way, and their answers unread."""
        program = programs.Gather(3)
        graph_hash = self.call("KernelService.Compile", graph=program.graph().build()).graph_hash

        def commands() -> Any:
            yield kernel_service_pb2.SubmitRequest(hello={"session_token": self.token})
            for number in (1, 2):
                yield kernel_service_pb2.SubmitRequest(command_id=number, allocate={"handle": number, "bytes": 4 * programs.SIZE})
            for number in range(3, 2000):
                run = kernel_service_pb2.SubmitRequest(command_id=number, answer=True)
                run.execute.request.graph_hash = graph_hash
                for slot in (0, 1):
                    run.execute.request.arguments.add(slot=slot).buffer.handle = slot + 1
                yield run
            FOR_EVER.wait()

        answers = wire.stub(self.channel, "KernelService.Submit")(commands(), metadata=self.metadata)
        for _ in range(4):
            next(answers)
        self.there()
        FOR_EVER.wait()

    def compile(self) -> None:
        """It waits for a compilation, of many."""
        slow = programs.Slow(random.SystemRandom().randrange(1 << 20), steps=400).graph().build()
        futures = [wire.stub(self.channel, "KernelService.Compile").future(
            kernel_service_pb2.CompileRequest(graph=slow), metadata=self.metadata) for _ in range(3)]
        self.there()
        for future in futures:
            future.result()
        FOR_EVER.wait()


PHASES: Dict[str, Callable[[Dying], None]] = {
    "session": Dying.session, "upload": Dying.upload, "download": Dying.download, "stream": Dying.stream, "compile": Dying.compile,
}  # fmt: skip

if __name__ == "__main__":
    PHASES[sys.argv[4]](Dying(*sys.argv[1:4]))
