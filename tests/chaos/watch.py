"""Looks at the server from outside, as its operator: what tenants have of what they may have, and what the process takes.

It connects to the server itself, past the ways that are cut.
"""

from __future__ import annotations

import threading
import traceback
from typing import Any, Dict, Tuple

import grpc
from model import Quotas, Wrong
from world import PATIENCE, World, wire

import processes
from processes import Usage

# What is kept for later, by design, and passes on a quota of its own.
KEPT = ("program_bytes", "disk_bytes")
# The operator's own call counts while it is under way.
ITS_OWN = ("operator", ("requests_in_flight", "host_bytes"))
# What a server may hold more than before: as tests/hostile/suite.py has it.
MORE = Usage(resident=192 << 20, descriptors=4, threads=24, mappings=1200)


class Watch(threading.Thread):
    """Asks from time to time. A limit that was passed ends the run."""

    def __init__(self, world: World):
        super().__init__(name="watch", daemon=True)
        self.world, self.quotas = world, Quotas()
        self.looks = 0
        self._kills = 0

    def run(self) -> None:
        channel = self.world.channel("127.0.0.1:%d" % self.world.port)
        while not self.world.ended.wait(0.25):
            try:
                self.look(channel)
            except Wrong as wrong:
                self.world.fail(str(wrong))
            except Exception:
                self.world.fail("the watch: " + traceback.format_exc())
        channel.close()

    def look(self, channel: grpc.Channel) -> None:
        kills = self.world.kills_done
        if self._kills != kills:
            self._kills = kills
            self.quotas.forget()
        try:
            seen = held(self.world, channel)
        except grpc.RpcError as error:
            # Of a server that is stopped or killed meanwhile nothing is seen.
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return
        if self._kills != self.world.kills_begun:
            return
        for (tenant, quota), (limit, used) in seen.items():
            self.quotas.saw(tenant, quota, limit, used)
        self.looks += 1


def held(world: World, channel: grpc.Channel) -> Dict[Tuple[str, str], Tuple[int, int]]:
    """(limit, used) by tenant and quota, of what is held."""
    request = wire.METHODS["SessionService.Usage"].request(all_tenants=True)
    answer = wire.stub(channel, "SessionService.Usage")(request, timeout=PATIENCE, metadata=world.metadata("operator"),
                                                        wait_for_ready=True)  # fmt: skip
    return {(tenant.name, quota.name): (quota.limit, quota.used) for tenant in answer.tenants for quota in tenant.quotas
            if quota.window_seconds == 0}  # fmt: skip


def rest(world: World, tenant: str = "") -> Dict[Tuple[str, str], int]:
    """What tenants still have, though nobody should have anything; of one, or of all."""
    channel = world.channel("127.0.0.1:%d" % world.port)
    try:
        seen = held(world, channel)
    finally:
        channel.close()
    return {key: used for key, (_, used) in seen.items()
            if used and key[1] not in KEPT and (not tenant or key[0] == tenant)
            and not (key[0] == ITS_OWN[0] and key[1] in ITS_OWN[1])}  # fmt: skip


def wait_for_zero(world: World, what: str, tenant: str = "") -> None:
    """Until accounts are at zero, and what the admin port shows too."""
    left: Any = None

    def none() -> bool:
        nonlocal left
        left = rest(world, tenant)
        return not left

    try:
        world.wait("%s: accounts are at zero" % what, none)
    except Wrong as wrong:
        raise Wrong("%s; left are %s" % (wrong, left)) from None
    if tenant:
        return
    samples: Dict[Any, float] = {}

    def shown() -> bool:
        samples.update(world.admin().samples())
        return samples["kiln_sessions",] == 0 and samples["kiln_handles",] == 0

    world.wait("%s: the admin port shows no session and no handle" % what, shown)


def wait_for_baseline(world: World, before: Usage) -> Usage:
    """Until the process holds no more than before."""
    after = before

    def no_more() -> bool:
        nonlocal after
        after = processes.usage(world.server.process.pid)
        return all(now <= was + more for now, was, more in zip(after, before, MORE))

    try:
        world.wait("the server holds no more than before", no_more)
    except Wrong as wrong:
        raise Wrong("%s: %s before, %s after" % (wrong, before, after)) from None
    return after
