"""What one tenant's work leaves of another's, and of the server's memory once nobody wants it."""

from __future__ import annotations

import threading
from typing import Any, Dict, Tuple

from attack import TENANTS, Target, attack, kiln, support
from attacks_compile import kernels
from kiln.transport import wire
from kiln.v1 import debug_service_pb2, kernel_service_pb2

A, B = TENANTS


def _product(rows: int, inner: int, columns: int) -> Any:
    graph = kiln.Graph()
    graph.output(graph.param("x", (rows, inner)) @ graph.param("y", (inner, columns)))
    return graph.build()


def _schedules(target: Target, who: str, graph_hash: bytes) -> Dict[str, str]:
    request = debug_service_pb2.ExplainRequest(graph_hash=graph_hash, stages=["optimize"])
    explained = target.call("DebugService.Explain", request, tenant=who)
    assert explained, explained.error
    return {kernel.symbol: kernel.schedule for kernel in explained.answer.kernels}


@attack(tenants=True)
def tenant_tunes_what_another_has_too(target):
    """A search of one tenant's gives the program that another has of the same graph no other schedule, nor is it found."""
    # Sizes for which the rules are not the best that there is, on processors of today. Where little time is left, as on
    # a busy one or under a sanitizer, a search may still find nothing better, and then this sees nothing.
    for sizes in ((3, 1000, 1000), (1000, 3, 17), (5, 700, 900)):
        graph = _product(*sizes)
        compiled = {who: target.call("KernelService.Compile", graph=graph, tenant=who) for who in (A, B)}
        assert all(compiled.values()), compiled
        hash_ = compiled[A].answer.graph_hash
        assert hash_ == compiled[B].answer.graph_hash
        rules = _schedules(target, A, hash_)
        assert rules and _schedules(target, B, hash_) == rules
        request = debug_service_pb2.TuneRequest(
            graph_hash=hash_, options=kernel_service_pb2.CompileOptions(beam=4, beam_budget_ms=1500))
        stub = wire.stub(target.channel, "DebugService.Tune")
        said = target.outcome(
            lambda stub=stub, request=request: list(stub(request, timeout=60, metadata=[("authorization", "Bearer " + A)])))
        assert said, said.error
        found = {kernel.symbol: kernel.schedule for kernel in said.answer[-1].done.kernels}
        assert _schedules(target, A, hash_) == found
        assert _schedules(target, B, hash_) == rules
        # Nor for who comes later: what was compiled for b is gone, and is compiled by the rules again.
        assert target.call("DebugService.Evict", graph_hash=hash_, tenant=B)
        again = target.call("KernelService.Compile", graph=graph, tenant=B)
        assert again and not again.answer.from_cache
        assert _schedules(target, B, hash_) == rules


def _used(target: Target, who: str) -> Dict[str, int]:
    usage = target.call("SessionService.Usage", tenant=who)
    assert usage, usage.error
    (tenant,) = usage.answer.tenants
    return {quota.name: quota.used for quota in tenant.quotas}


@attack(bombs=True)
def compile_graphs_that_wait_and_are_called_off(target):
    """Large graphs that wait to be compiled count against their tenant, and give their bytes back as soon as they are called
    off, not when their turn would have come."""
    def held_by(who: str) -> Tuple[int, int]:
        used = _used(target, who)  # the call that asks among them, each time
        return used["host_bytes"], used["requests_in_flight"]

    before = held_by(A)
    stub = wire.stub(target.new_channel(), "KernelService.Compile")

    def ask(request: Any) -> Any:
        return stub.future(request, timeout=120, metadata=[("authorization", "Bearer " + A)])

    # What is compiled for seconds, so that what comes behind has to wait: six, of which two have a thread.
    bombs, waiting = [[kernel_service_pb2.CompileRequest(graph=kernels(first + number)) for number in range(count)]
                      for first, count in ((15_100, 6), (14_000, 8))]  # fmt: skip
    size = sum(request.ByteSize() for request in waiting)
    assert size > 3 << 20, size
    bombs = [ask(request) for request in bombs]
    # They count when they have come, and their objects when these are made; then they are in the queue.
    assert support.eventually(lambda: _used(target, A)["compiles_at_once"] >= 6)
    of_bombs = held_by(A)
    waiting = [ask(request) for request in waiting]
    assert support.eventually(lambda: _used(target, A)["compiles_at_once"] >= 6 + 8 - 2)  # the first two may have ended
    assert held_by(A)[0] >= of_bombs[0] + size // 2
    kept = target.usage().resident
    called_off = threading.Event()
    for future in waiting:
        future.add_done_callback(lambda _: called_off.set())
        future.cancel()
    assert called_off.wait(10)
    # While those before them are still compiled, so their turn has not come.
    assert support.eventually(lambda: all(now <= most for now, most in zip(held_by(A), of_bombs))), (held_by(A), of_bombs)
    assert not bombs[-1].done(), "they were given back with the bombs, or after them"
    for bomb in bombs:
        bomb.cancel()
    assert support.eventually(lambda: held_by(A)[0] <= before[0])
    assert target.usage().resident < kept + (64 << 20)
