"""Clients that should get nothing: one that tries what others have, one that wants more than it may have."""

from __future__ import annotations

from typing import Any

import world  # noqa: F401: finds the package
from load import Caller
from model import Wrong

import kiln
from kiln.v1 import buffer_service_pb2, kernel_service_pb2, tensor_pb2

MIB = 1 << 20


class Spies(Caller):
    """Tries what other tenants' clients have just made, under its own name: none of it exists."""

    def life(self) -> None:
        self.connect()
        try:
            for _ in range(40):
                if not self.going():
                    break
                try:
                    tenant, what, value = self.random.choice(self.world.published)
                except IndexError:
                    continue
                if tenant != self.tenant:
                    getattr(self, "try_" + what)(value)
            self.sees_no_programs()
        finally:
            self.channel.close()

    def try_handle(self, value: Any) -> None:
        handle, session = value
        request = buffer_service_pb2.ReadRequest(buffer=tensor_pb2.BufferRef(handle=handle))
        for token in (b"", session):
            self.refused("BufferService.Read", ("UNKNOWN_HANDLE",), token,
                         lambda stub, **how: b"".join(part.chunk for part in stub(request, **how)))  # fmt: skip
            self.refused("BufferService.Free", ("UNKNOWN_HANDLE",), token, handle=[handle])
            self.refused("BufferService.Describe", ("UNKNOWN_HANDLE",), token, handle=handle)

    def try_session(self, token: bytes) -> None:
        self.refused("SessionService.Renew", ("UNKNOWN_HANDLE",), token=token)
        self.refused("SessionService.Close", ("UNKNOWN_HANDLE",), token=token)
        self.refused("BufferService.Allocate", ("UNKNOWN_HANDLE",), token, bytes=64)

    def try_program(self, graph_hash: bytes) -> None:
        request = kernel_service_pb2.ExecuteRequest(graph_hash=graph_hash)
        self.refused("KernelService.Execute", ("NEED_GRAPH",), b"", lambda stub, **how: stub(request, **how))

    def sees_no_programs(self) -> None:
        listed = self.call("DebugService.ListPrograms")
        if listed.programs:
            raise Wrong("a tenant that has compiled nothing sees %d programs" % len(listed.programs))


class Greedy(Caller):
    """Takes all that it may have, and a little more."""

    def life(self) -> None:
        self.connect()
        try:
            while self.going():
                self.open()
                try:
                    self.memory() if self.random.random() < 0.5 else self.handles()
                finally:
                    self.end()
        finally:
            self.channel.close()

    def memory(self) -> None:
        self.take("device_bytes", MIB // 2, lambda: MIB // 2)

    def handles(self) -> None:
        self.take("handles", 64, lambda: 1)

    def take(self, limit: str, nbytes: int, counted: Any) -> None:
        """Until it is refused, which must be for this limit and not after more than that."""
        most, taken = 0, 0
        while self.going():
            most = max(most, self.world.owner.quota(self.tenant, limit))
            answer = self.calling("BufferService.Allocate", lambda stub, **how: stub(
                buffer_service_pb2.AllocateRequest(bytes=nbytes), **how), expected=("QUOTA_EXCEEDED",))  # fmt: skip
            most = max(most, self.world.owner.quota(self.tenant, limit))
            if isinstance(answer, kiln.KilnError):
                if answer.limit != limit:
                    raise Wrong("the refusal names %s, not %s: %s" % (answer.limit, limit, answer))
                return
            taken += counted()
            if taken > most:
                raise Wrong("a tenant was given %d of %s, and may have %d" % (taken, limit, most))


