"""kiln.grad: derivatives of a function of trees of arrays.

    slopes = kiln.grad(loss)(weights, x, y)            # a tree like weights

Within a traced function the loss is traced on stand-ins for what it is differentiated by; the
server differentiates that graph (Client.gradient), and its answer is put in their place. So a
gradient is part of the graph like anything else: in a jit, of a jit, of a gradient. Outside,
each call traces; programs and gradients of equal graphs are kept.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Sequence, Tuple, TypeVar, Union

from kiln.errors import DTypeError, InvalidArgument, ShapeError
from kiln.functional.jit import Jitted, name_of
from kiln.functional.kept import of_client
from kiln.functional.leaves import OUTSIDE
from kiln.functional.tracing import Trace, active
from kiln.functional.trees import flatten, paths, unflatten
from kiln.tensor import Tensor
from kiln.v1 import graph_pb2
from kiln.value import Value

R = TypeVar("R")

# Gradients that one client keeps.
MOST = 256


def value_and_grad(function: Callable[..., R], argnums: Union[int, Sequence[int]] = 0,
                   has_aux: bool = False) -> Callable[..., Tuple[R, Any]]:  # fmt: skip
    """A function that returns (value, gradient); with has_aux, of one that returns (value, more): ((value, more), gradient).

    The value is one float. The gradient has the form of the argument, or is a tuple of such for
    several argnums. Raises DTypeError for an argument or a value that is no float, ShapeError
    for a value of several elements, and what the server says of a graph that it cannot differentiate.
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    name = name_of(function)

    @functools.wraps(function)
    def differentiated(*args: Any, **named: Any) -> Any:
        trace = active()
        if trace is None:
            return Jitted(differentiated, None, (), (), (), OUTSIDE)(*args, **named)
        return _traced(trace, function, name, numbers, isinstance(argnums, int), has_aux, args, named)

    return differentiated


def grad(function: Callable[..., Any], argnums: Union[int, Sequence[int]] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """As value_and_grad, of which it returns the gradient; with has_aux (gradient, more)."""
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def differentiated(*args: Any, **named: Any) -> Any:
        value, gradient = both(*args, **named)
        return (gradient, value[1]) if has_aux else gradient

    return differentiated


def _traced(trace: Trace, function: Callable[..., Any], name: str, numbers: Sequence[int], single: bool, has_aux: bool,
            args: Sequence[Any], named: Dict[str, Any]) -> Any:
    if max(numbers, default=0) >= len(args) or min(numbers, default=0) < 0:
        raise InvalidArgument("grad of %s by argument %d of %d" % (name, max(numbers), len(args)), code="BAD_ARGUMENT",
                              remedy="arguments that are differentiated by are given by place")  # fmt: skip
    leaves, tree = flatten(tuple(args[number] for number in numbers))
    values = [trace.lift(leaf, "an argument of %s" % name) for leaf in leaves]
    for value, path in zip(values, paths(tree)):
        if not value.dtype.is_float:
            raise DTypeError("grad of %s: argument %s is %s, and only floats have a gradient" % (name, path, value.dtype.name),
                             remedy="convert it, or choose others by argnums")  # fmt: skip
    mark = trace.stand_ins(values)
    given = list(args)
    for number, part in zip(numbers, unflatten(tree, mark.values)):
        given[number] = part
    out = function(*given, **named)
    loss, more = _loss(trace, name, out, has_aux)
    rest, form = flatten(more)
    rest = [trace.lift(leaf, "a result of %s" % name) if isinstance(leaf, Value) else leaf for leaf in rest]
    set_there = trace.changed(mark)
    tensors = [one for one in rest if isinstance(one, Tensor)] + [followed.now[at] for followed, at in set_there]
    results, slopes = differentiate(trace, loss, tensors, mark.values, values)
    for (followed, at), tensor in zip(set_there, results[len(results) - len(set_there) :]):
        followed.now[at] = tensor
    back = iter(results[1:])
    rest = [next(back) if isinstance(one, Value) else one for one in rest]
    gradient = unflatten(tree, slopes)
    return ((results[0], unflatten(form, rest)) if has_aux else results[0]), gradient[0] if single else gradient


def _loss(trace: Trace, name: str, out: Any, has_aux: bool) -> Tuple[Tensor, Any]:
    if has_aux and (type(out) is not tuple or len(out) != 2):
        raise InvalidArgument("grad of %s with has_aux: it returns (value, more), not %r" % (name, out), code="BAD_ARGUMENT")
    loss, more = out if has_aux else (out, None)
    if flatten(loss)[0] != [loss]:
        raise InvalidArgument("grad of %s: it returns one float, not %r" % (name, loss), code="BAD_ARGUMENT",
                              remedy="has_aux=True for one that returns more")  # fmt: skip
    loss = trace.lift(loss, "the value of %s" % name)
    if loss.size != 1:
        raise ShapeError("grad of %s: its value is %s, not one number" % (name, loss.shape), remedy="sum() or mean() makes it one")
    if not loss.dtype.is_float:
        raise DTypeError("grad of %s: its value is %s, no float" % (name, loss.dtype.name))
    return loss, more


def differentiate(trace: Trace, loss: Tensor, more: Sequence[Tensor], stand_ins: Sequence[Tensor],
                  values: Sequence[Tensor]) -> Tuple[List[Tensor], List[Tensor]]:
    """(loss and more with values for their stand-ins, the loss's gradients by them)."""
    results = [loss, *more]
    message = trace.message([one.node for one in results])
    slots = [one.slot for one in stand_ins]
    there = {uop.buffer.slot for uop in message.nodes if uop.op == graph_pb2.PARAM}
    wanted = [slot for slot in slots if slot in there]
    places = {slot: value.node for slot, value in zip(slots, values)}
    if not wanted:
        return results, [trace.zeros(value.shape, value.dtype) for value in values]
    nodes = trace.splice(gradient_of(trace.client, message, wanted), places)
    replaced = [trace.tensor(node, one.dtype, one.shape, weak=one.weak) for node, one in zip(nodes, results)]
    found = dict(zip(wanted, nodes[len(results) :]))
    slopes = [trace.tensor(found[slot], value.dtype, value.shape) if slot in found else trace.zeros(value.shape, value.dtype)
              for slot, value in zip(slots, values)]  # fmt: skip
    return replaced, slopes


def gradient_of(client: Any, message: graph_pb2.Graph, slots: Sequence[int]) -> graph_pb2.Graph:
    """The server's answer, or that which it has given before."""
    known, key = of_client(client, "gradients", MOST), (message.SerializeToString(), tuple(slots))
    return known.get(key) or known.put(key, client.gradient(message, wrt=slots, include_results=True).graph)
