"""One tenant against another, and nobody against both."""

from __future__ import annotations

import base64
import json

from attack import DTYPES, NOT_BUILT, TENANTS, UNARY, Nodes, answered, attack, doubled, refused, support, unknown
from kiln.transport import wire
from kiln.v1 import kernel_service_pb2, tensor_pb2

A, B = TENANTS


def _claims(header, claims, signature=b"x" * 64):
    return ".".join(base64.urlsafe_b64encode(part if isinstance(part, bytes) else json.dumps(part).encode()).decode().rstrip("=")
                    for part in (header, claims, signature))  # fmt: skip


def _nobody(name, token, promise):
    def run(target):
        unknown(target, token)

    run.__doc__ = promise
    attack(run, name="nobody_" + name, tenants=True)


FOREVER = {"iss": "https://issuer.example", "aud": "kiln", "sub": "a", "exp": 1 << 40}
for _name, _token, _promise in (
    ("with_a_wrong_secret", "secret-c", "A secret is the tenant's, or nobody's."),
    ("with_a_part_of_a_secret", A[:-1], "A part of a secret is none."),
    ("with_more_than_a_secret", A + "x", "Nor is more than it."),
    ("with_a_hash", "a9c1b3e2" * 8, "The hash of a secret is not the secret."),
    ("with_a_secret_in_capitals", A.upper(), "Secrets are compared byte by byte."),
    ("with_a_token_of_no_algorithm", _claims({"alg": "none"}, FOREVER, b""), "A token that signs itself by none is refused."),
    ("with_a_token_of_nobody", _claims({"alg": "ES256", "kid": "x"}, FOREVER), "A token of no issuer is refused."),
    ("with_a_token_of_odd_parts", "a.b.c", "A token whose parts are none is refused."),
    ("with_a_token_of_dots", "." * 4000, "So is one of dots."),
    ("with_a_token_that_nests", _claims(b"[" * 1500, b"{" * 1500), "JSON that nests is no recursion."),
    ("with_a_long_token", "x" * 7000, "A long token is one."),
    ("with_the_name_of_a_tenant", "a", "A tenant's name is no secret."),
):
    _nobody(_name, _token, _promise)


@attack(tenants=True)
def nobody_without_a_token(target):
    """Who brings nothing is served nothing, but for the health of the server."""
    for method in UNARY:
        stub = wire.stub(target.channel, method)
        outcome = target.outcome(lambda stub=stub, method=method: stub(wire.METHODS[method].request(), timeout=20))
        assert outcome.code in ("NOT_AUTHENTICATED", *NOT_BUILT), (method, outcome.error)
    stub = target.channel.unary_unary("/grpc.health.v1.Health/Check")
    assert stub(b"", timeout=20) == b"\x08\x01"


@attack(tenants=True)
def nobody_with_odd_authorization(target):
    """Authorization is Bearer and a token."""
    stub = wire.stub(target.channel, "DeviceService.List")
    request = wire.METHODS["DeviceService.List"].request()
    for said in ("", "Bearer", "Bearer ", "Basic " + A, A, "bearer", "Bearer  " + A, "Bearer " + A + " "):
        outcome = target.outcome(lambda said=said: stub(request, timeout=20, metadata=[("authorization", said)]))
        assert outcome.code == "NOT_AUTHENTICATED", (said, outcome.code)


@attack(tenants=True)
def tenant_reads_anothers_buffers(target):
    """Another tenant's buffer does not exist."""
    handle = target.call("BufferService.Allocate", bytes=64, tenant=A).answer.buffer.handle
    for name, fields in (("Describe", {"handle": handle}), ("Free", {"handle": [handle]}), ("View", {"of": {"handle": handle}}),
                         ("Fill", {"buffer": {"handle": handle}, "pattern": b"\1"}),
                         ("Copy", {"from": {"handle": handle}, "to": {"handle": handle}, "bytes": 1})):  # fmt: skip
        refused(target.call("BufferService." + name, tenant=B, **fields), "UNKNOWN_HANDLE")
    assert target.call("BufferService.Free", handle=[handle], tenant=A)


@attack(tenants=True)
def tenant_takes_anothers_session(target):
    """Another tenant's session does not exist, whoever knows its token."""
    session = target.call("SessionService.Open", tenant=A).answer.token
    refused(target.call("BufferService.Allocate", bytes=64, session=session, tenant=B))
    refused(target.call("SessionService.Renew", wire.METHODS["SessionService.Renew"].request(token=session), tenant=B))
    close = wire.METHODS["SessionService.Close"].request(token=session)
    refused(target.call("SessionService.Close", close, tenant=B))
    opened = target.call("SessionService.Open", wire.METHODS["SessionService.Open"].request(resume_token=session), tenant=B)
    assert not opened or not opened.answer.resumed
    hello = kernel_service_pb2.SubmitRequest()
    hello.hello.session_token = session
    stub = wire.stub(target.channel, "KernelService.Submit")
    stolen = target.outcome(lambda: list(stub(iter([hello]), timeout=20, metadata=[("authorization", "Bearer " + B)])))
    refused(stolen)
    assert target.call("SessionService.Close", close, tenant=A)
    if opened:
        target.call("SessionService.Close", wire.METHODS["SessionService.Close"].request(token=opened.answer.token), tenant=B)


@attack(tenants=True)
def tenant_runs_anothers_program(target):
    """Another tenant's program does not exist: a hash of it asks for the graph, and its graph is compiled anew."""
    graph = doubled(77)
    first = target.call("KernelService.Compile", graph=graph, tenant=A)
    assert first and not first.answer.from_cache
    again = target.call("KernelService.Compile", graph=graph, tenant=A)
    assert again and again.answer.from_cache
    request = kernel_service_pb2.ExecuteRequest(graph_hash=first.answer.graph_hash)
    request.arguments.add(slot=0).tensor.MergeFrom(_tensor(77))
    assert target.call("KernelService.Execute", request, tenant=A)
    refused(target.call("KernelService.Execute", request, tenant=B), "NEED_GRAPH")
    other = target.call("KernelService.Compile", graph=graph, tenant=B)
    assert other and not other.answer.from_cache


def _tensor(size):
    return tensor_pb2.Tensor(dtype=DTYPES["float32"], shape=[size], data=b"\0" * 4 * size)


def _recorded(graph_hash):
    """One step that runs it in place on the replay's first buffer."""
    request = kernel_service_pb2.RecordSequenceRequest()
    request.programs.add(graph_hash=graph_hash)
    request.steps.add().arguments.add(slot=0).memory.buffer = 0
    return request


@attack(tenants=True)
def tenant_replays_anothers_recording(target):
    """Another tenant's recording does not exist, whoever knows its name: not for a call, nor for a command."""
    nodes = Nodes()
    x = nodes.param(0, "float32", 76)
    graph = nodes.done(nodes.op("STORE", x, nodes.op("ADD", x, nodes.const(1, "float32"))), root="SINK")
    hash_ = target.call("KernelService.Compile", graph=graph, tenant=A).answer.graph_hash
    recorded = target.call("KernelService.RecordSequence", _recorded(hash_), tenant=A)
    assert recorded, recorded.error
    handles = {who: target.call("BufferService.Allocate", bytes=4 * 76, tenant=who).answer.buffer.handle for who in (A, B)}

    def replay(of, buffer, recording=recorded):
        request = kernel_service_pb2.ReplaySequenceRequest(recording=recording.answer.recording, handles=[handles[buffer]])
        return target.call("KernelService.ReplaySequence", request, tenant=of)

    assert replay(A, A)
    refused(replay(B, B), "NEED_GRAPH")
    # The same by a stream of b's.
    hello, command = kernel_service_pb2.SubmitRequest(), kernel_service_pb2.SubmitRequest(command_id=1)
    hello.hello.session_token = b""
    command.replay.recording = recorded.answer.recording
    command.replay.handles.append(handles[B])
    stub = wire.stub(target.channel, "KernelService.Submit")
    said = list(stub(iter([hello, command]), timeout=20, metadata=[("authorization", "Bearer " + B)]))
    assert [answer for answer in said if answer.HasField("failed")], said
    # Nor can it be made of another's program; and what b records itself is b's, and runs on b's memory alone.
    refused(target.call("KernelService.RecordSequence", _recorded(hash_), tenant=B), "NEED_GRAPH")
    assert target.call("KernelService.Compile", graph=graph, tenant=B)
    own = target.call("KernelService.RecordSequence", _recorded(hash_), tenant=B)
    ran = replay(B, B, own)
    assert ran, ran.error
    refused(replay(B, A, own), "UNKNOWN_HANDLE")
    for who, handle in handles.items():
        assert target.call("BufferService.Free", handle=[handle], tenant=who)


@attack(tenants=True)
def tenant_lists_anothers_programs(target):
    """Lists and explanations are of one's own."""
    graph = doubled(78)
    hash_ = target.call("KernelService.Compile", graph=graph, tenant=A).answer.graph_hash
    listed = target.call("DebugService.ListPrograms", tenant=B)
    assert listed and all(program.graph_hash != hash_ for program in listed.answer.programs), listed
    explain = wire.METHODS["DebugService.Explain"].request
    if "graph_hash" in explain.DESCRIPTOR.fields_by_name:
        refused(target.call("DebugService.Explain", explain(graph_hash=hash_), tenant=B), "NEED_GRAPH")


@attack(tenants=True)
def tenant_watches_anothers_load(target):
    """What devices say is what the asking tenant has itself: not how much memory is free, nor how much others run."""

    def shown(who):
        listed = target.call("DeviceService.List", tenant=who)
        assert listed, listed.error
        for device in listed.answer.devices:
            device.queue_depth = 0  # the tenant's own calls
        return [device.SerializeToString(deterministic=True) for device in listed.answer.devices]

    before, own = shown(B), shown(A)
    handle = target.call("BufferService.Allocate", bytes=10 << 20, tenant=A).answer.buffer.handle
    request = kernel_service_pb2.ExecuteRequest(graph=doubled(75), result_mode=kernel_service_pb2.RESULT_INLINE)
    request.arguments.add(slot=0).tensor.MergeFrom(_tensor(75))
    assert target.call("KernelService.Execute", request, tenant=A)
    assert shown(A) != own
    assert support.eventually(lambda: shown(B) == before)  # once its own calls have let go
    error = refused(target.call("BufferService.Allocate", bytes=1 << 60, tenant=B), "OUT_OF_MEMORY")
    assert not error.used and "in use" not in error.message, error
    assert target.call("BufferService.Free", handle=[handle], tenant=A)


@attack(tenants=True)
def tenant_without_the_right(target):
    """What concerns everybody needs the right to it."""
    assert target.call("DebugService.Trace", launch_seconds=1, tenant=A).code == "NOT_ALLOWED"
    assert target.call("SessionService.Usage", all_tenants=True, tenant=A).code == "NOT_ALLOWED"


@attack(tenants=True)
def tenant_looks_at_and_evicts_anothers(target):
    """State shows a tenant nothing of others, and Evict takes nothing of theirs."""
    compiled = target.call("KernelService.Compile", graph=doubled(91), tenant=A)
    assert compiled, compiled.error
    name = compiled.answer.graph_hash.hex()
    shown = {tenant: target.call("DebugService.State", tenant=tenant).answer for tenant in (A, B)}
    assert name in {program.graph_hash for program in shown[A].programs}
    assert not shown[B].whole and len(shown[B].tenants) == 1
    assert name not in {program.graph_hash for program in shown[B].programs}
    refused(target.call("DebugService.Evict", graph_hash=compiled.answer.graph_hash, tenant=B), "NEED_GRAPH")
    again = target.call("KernelService.Compile", graph=doubled(91), tenant=A)
    assert again and again.answer.from_cache


@attack(tenants=True)
def tenant_says_that_it_is_another(target):
    """Who asks is known by credentials, and by nothing else that a request says."""
    stub = wire.stub(target.channel, "KernelService.Compile")
    request = wire.METHODS["KernelService.Compile"].request(graph=doubled(79))
    assert target.call("KernelService.Compile", request, tenant=A)
    for key in ("tenant", "x-tenant", "kiln-tenant", "x-forwarded-user", "x-forwarded-client-cert"):
        outcome = target.outcome(
            lambda key=key: stub(request, timeout=20, metadata=[("authorization", "Bearer " + B), (key, "a")]))
        answered(outcome)
        if key == "tenant":
            assert outcome and not outcome.answer.from_cache
