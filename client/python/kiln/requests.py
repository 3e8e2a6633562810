"""What a client asks a server to compile, differentiate and explain, as messages.

CompileOptions are a client's (connect), but for those that a call gives.
"""

from __future__ import annotations

import difflib
from typing import Any, Iterable, List, Mapping, Optional, Sequence

from kiln.arguments import names_of
from kiln.errors import GraphError, InvalidArgument, Unimplemented
from kiln.v1 import debug_service_pb2, graph_pb2, kernel_service_pb2


def message_of(graph: Any) -> graph_pb2.Graph:
    """A kiln.v1.Graph, from one or from a builder (Graph.build())."""
    if isinstance(graph, graph_pb2.Graph):
        return graph
    if callable(getattr(graph, "build", None)):
        return graph.build()
    raise GraphError("a graph is wanted, and not %s" % type(graph).__name__, code="BAD_ARGUMENT",
                     remedy=_instead_of(graph))  # fmt: skip


def _instead_of(graph: Any) -> str:
    """What who gave this may have meant."""
    if hasattr(graph, "node") and hasattr(graph, "graph"):  # a builder's Tensor
        return "graph.output(x) makes it a result of its graph: give compile() that"
    if callable(graph):
        return "kiln.jit makes programs of functions"
    return "compile() takes a kiln.Graph or a kiln.v1.graph_pb2.Graph; its program takes the arrays"


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
            near = difflib.get_close_matches(name, OPTIONS, 1)
            meant = ("is %s meant? " % near[0] if near else "") + "there are " + ", ".join(OPTIONS)
            raise InvalidArgument("there is no option %r" % name, code="BAD_ARGUMENT", remedy=meant)
        try:
            setattr(merged, name, value)
        except (TypeError, ValueError):
            kind = "True or False" if isinstance(getattr(merged, name), bool) else "an integer, 0 or more"
            raise InvalidArgument("%s=%r" % (name, value), code="BAD_ARGUMENT", remedy="%s is %s" % (name, kind)) from None
    return merged


def check_files(client: Any) -> None:
    """Unimplemented by a server that reads no files."""
    if "load" not in client.features:
        raise Unimplemented("the server at %s has no folder of files" % client.target, code="NOT_IMPLEMENTED",
                            remedy="kilnd --data_folder=PATH names one; client.buffer(array) sends what is here")  # fmt: skip


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
