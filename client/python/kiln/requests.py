"""What a client asks a server to compile, differentiate and explain, as messages.

CompileOptions are a client's (connect), but for those that a call gives.
"""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, Sequence

from kiln.arguments import names_of
from kiln.errors import GraphError, InvalidArgument
from kiln.v1 import debug_service_pb2, graph_pb2, kernel_service_pb2


def message_of(graph: Any) -> graph_pb2.Graph:
    """A kiln.v1.Graph, from one or from a builder (Graph.build())."""
    return graph if isinstance(graph, graph_pb2.Graph) else graph.build()


def options_of(options: Any) -> kernel_service_pb2.CompileOptions:
    if isinstance(options, kernel_service_pb2.CompileOptions):
        return options
    return kernel_service_pb2.CompileOptions(**(options or {}))


def parameter_slots(graph: graph_pb2.Graph, items: Iterable[Any]) -> List[int]:
    """Slots of a graph's parameters, from slots, names, and Tensors that are parameters."""
    named = names_of(graph)
    slots = []
    for item in items:
        if isinstance(item, str):
            called = [slot for slot, name in named.items() if name == item]
            if len(called) != 1:
                what = "parameters of slots %s are all" % " and ".join(map(str, called)) if called else "no parameter is"
                raise GraphError("compile: %s called %s; there are %s" % (what, item, ", ".join(named.values()) or "none"),
                                 code="BAD_ARGUMENT" if called else "UNKNOWN_ARGUMENT")  # fmt: skip
            item = called[0]
        slots.append(getattr(item, "slot", item))
    return slots


OPTIONS = tuple(field.name for field in kernel_service_pb2.CompileOptions.DESCRIPTOR.fields if field.name != "constant_slots")


def options_with(defaults: kernel_service_pb2.CompileOptions, options: Mapping[str, Any]) -> kernel_service_pb2.CompileOptions:
    """The defaults, with what `options` says otherwise; InvalidArgument for a name that is none."""
    merged = kernel_service_pb2.CompileOptions()
    merged.CopyFrom(defaults)
    for name, value in options.items():
        if name not in OPTIONS:
            raise InvalidArgument("there is no option %r" % name, code="BAD_ARGUMENT", remedy="there are " + ", ".join(OPTIONS))
        setattr(merged, name, value)
    return merged


def compile_request(client: Any, graph: Any, options: Mapping[str, Any],
                    constants: Iterable[Any] = (), device: Optional[str] = None) -> kernel_service_pb2.CompileRequest:
    request = kernel_service_pb2.CompileRequest(graph=message_of(graph), device=client.device if device is None else device,
                                                options=options_with(client.options, options))  # fmt: skip
    request.options.constant_slots.extend(parameter_slots(request.graph, constants))
    return request


def gradient_request(graph: Any, wrt: Sequence[Any], result: int, cotangent: Optional[int],
                     include_results: bool) -> kernel_service_pb2.GradientRequest:
    return kernel_service_pb2.GradientRequest(graph=message_of(graph), result=result,
                                              wrt_slot=[getattr(item, "slot", item) for item in wrt],
                                              cotangent_slot=cotangent, include_results=include_results)  # fmt: skip


def explain_request(client: Any, program: Any, stages: Sequence[str], source: str,
                    options: Any) -> debug_service_pb2.ExplainRequest:
    request = debug_service_pb2.ExplainRequest(device=client.device, stages=stages, source=source)
    if options is None:
        options = getattr(program, "options", client.options)
    request.options.CopyFrom(options_of(options))
    if isinstance(program, bytes):
        request.graph_hash = program
    else:
        request.graph.CopyFrom(program.graph if hasattr(program, "hash") else message_of(program))
    return request
