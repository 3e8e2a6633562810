"""A traced function: its program, and where arguments and results go.

trace() runs the function once and compiles what it did, by content: equal graphs are one
program, here and on the server. Traced.run() calls the program for other arguments of the
same specs; nothing is waited for.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from kiln import arrays
from kiln.buffers import Buffer
from kiln.deferred import ALONG, SMALL
from kiln.errors import InvalidArgument
from kiln.functional import leaves as leaf_kinds
from kiln.functional.held import Held, made
from kiln.functional.kept import of_client
from kiln.functional.state import State
from kiln.functional.trees import NOTHING, Tree, flatten, paths, unflatten
from kiln.functional.tracing import Trace
from kiln.tensor import Tensor
from kiln.value import emit

log = logging.getLogger("kiln.jit")

# Programs that one client keeps, beside those in use.
MOST = 1024


class Same(NamedTuple):
    """A result that is an argument, by place, or an array that the function brought along."""

    of: Any


class Traced:
    """`program` (None where there is nothing to compute), `nodes`, `graph` (kiln.v1.Graph, or None)."""

    def __init__(self, name: str, client: Any, device: str):
        self.name, self.client, self.device = name, client, device
        self.program: Optional[Any] = None
        self.arguments: List[Tuple[int, int]] = []  # (slot, place of the leaf)
        self.donated: Dict[int, int] = {}  # those among them that are given up
        self.ended: List[int] = []  # the places of all that are
        self.captured: List[Tuple[int, Held]] = []
        self.states: List[Tuple[Any, List[Tuple[int, int, bool]]]] = []  # (State or a leaf's place, (slot, leaf of it, whether set))
        self.results: List[Any] = []  # number of the program's result, or Same
        self.twice: Set[int] = set()  # those that come out more than once: arrays of one memory
        self.tree: Tree = NOTHING

    def run(self, leaves: Sequence[Any], specs: Sequence[Any]) -> Any:
        """The function's value for these leaves. Raises BufferFreed, and what a call of a program does."""
        given: Sequence[Any] = () if self.program is None else self._put_off(leaves, specs)
        if self.program is not None and not given:
            values: Dict[int, Any] = {}
            for slot, array in self.captured:
                values[slot] = array.buffer
            for slot, at in self.arguments:
                leaf = leaves[at]
                values[slot] = leaf.buffer if isinstance(leaf, Held) else leaf_kinds.argument(leaf, specs[at])
            for slot, at in self.donated.items():
                values[slot] = self._donated(leaves[at], values, slot)
            for owner, rows in self.states:
                state = leaves[owner] if isinstance(owner, int) else owner
                if state is owner and any(leaf is owner for leaf in leaves):
                    raise InvalidArgument("%s is given a state that it also finds by itself" % self.name,
                                          code="BAD_ARGUMENT", remedy="let it come in one way")  # fmt: skip
                for slot, at, is_set in rows:
                    values[slot] = state.buffer(at, is_set)
            given = self.program.run(values, out="buffers").results
        for at in self.ended:
            self._end(leaves[at], given)
        client = self.client
        return unflatten(self.tree, [
            Held._made(client, given[one], one in self.twice) if type(one) is int else self._same(one.of, leaves)
            for one in self.results])  # fmt: skip

    def _put_off(self, leaves: Sequence[Any], specs: Sequence[Any]) -> Sequence[Any]:
        """The results of a call that need not be sent at once (kiln/deferred.py); none where it is to be."""
        if self.ended or self.states or not self.program._waits:
            return ()
        values: Dict[int, Any] = {}
        left = SMALL
        for slot, array in self.captured:
            values[slot] = array.buffer
            if array.device != self.device:  # which a call by itself says
                return ()
        for slot, at in self.arguments:
            leaf = leaves[at]
            value = leaf.buffer if isinstance(leaf, Held) else leaf_kinds.argument(leaf, specs[at])
            if isinstance(value, Buffer):
                if value.device != self.device or value._connection is not self.client._connection:
                    return ()
                later = value._later
                if later is not None and later.here and value.nbytes <= ALONG:
                    value = later.content(value)
            if isinstance(value, (np.ndarray, np.generic)):
                value = arrays.host_array(value)
                left -= value.nbytes
                if left < 0:
                    return ()
            values[slot] = value
        return self.program._put_off(values) or ()

    def _donated(self, leaf: Any, values: Dict[int, Any], slot: int) -> Any:
        """A buffer that the program may write."""
        if not isinstance(leaf, Held):
            return self.client.buffer(values[slot], device=self.device)
        also = any(other is leaf.buffer for at, other in values.items() if at != slot)
        return leaf.buffer.copy() if also else leaf.own_buffer()

    def _end(self, leaf: Any, given: Sequence[Any]) -> None:
        if isinstance(leaf, Held):
            buffer, free = leaf._buffer, not leaf.shared
            leaf.give_up(self.name)
            if free and not any(result is buffer for result in given):
                buffer.free()

    def _same(self, of: Any, leaves: Sequence[Any]) -> Any:
        """An array that comes out as it went in: another one of the same memory."""
        array = leaves[of] if isinstance(of, int) else of
        if not isinstance(array, Held):
            return made(self.client, self.client.buffer(leaf_kinds.argument(array, leaf_kinds.spec_of(array)), device=self.device))
        array.shared = True
        return Held._made(array.client, array.buffer, True)


def trace(name: str, client: Any, device: str, specs: Sequence[Any],
          call: Callable[[List[Any]], Any], leaves: Sequence[Any], donate: Sequence[int] = ()) -> Traced:
    """Runs call(values for the leaves) once, and compiles it. `donate` are places of leaves that are given up."""
    began = time.perf_counter()
    with Trace(client, device, name) as graph:
        values: List[Any] = []
        stands: Dict[int, State] = {}
        for leaf, spec in zip(leaves, specs):
            if isinstance(leaf, State):
                # Another than the state itself, which the function may find outside, too.
                values.append(stands.setdefault(id(leaf), leaf.twin()))
                graph.follow(values[-1])
            else:
                values.append(graph.leaf(spec))
        out = call(values)
        built = _finish(graph, values, leaves, out, donate)
    log.debug("traced %s(%s) in %.1f ms: %s", name, ", ".join(map(leaf_kinds.shown, specs)),
              1e3 * (time.perf_counter() - began), built.program or "nothing to compute")  # fmt: skip
    return built


def _finish(graph: Trace, values: List[Any], leaves: Sequence[Any], out: Any, donate: Sequence[int]) -> Traced:
    """What the function did, as a program, and the way to it and from it."""
    built = Traced(graph.name, graph.client, graph.device)
    given = {at: value for at, value in enumerate(values) if isinstance(value, Tensor)}
    donated = {at: given[at] for at in donate if at in given and not given[at].weak}
    outputs = _results(graph, built, out, {value.node: at for at, value in given.items() if at not in donated})
    stored = _in_donated(outputs, donated)
    updated = [(parameter, now) for followed in graph.states.values()
               for parameter, now in zip(followed.parameters, followed.now) if now is not parameter]  # fmt: skip
    become = {target.node: one.node for target, one in stored + updated if target is not None}
    graph.output(*(one if target is None else graph.assign(target, _apart(one, become)) for target, one in stored))
    for parameter, now in updated:
        graph.update(parameter, _apart(now, become))
    if graph._outputs:
        message = graph.build()
        graph.check_whole(message)
        built.program = compiled(graph.client, message, graph.device)
    used = set(built.program._order) if built.program is not None else set()
    built.arguments = [(value.slot, at) for at, value in given.items() if value.slot in used]
    built.donated = {value.slot: at for at, value in donated.items() if value.slot in used}
    built.ended = list(donated)
    built.captured = [(tensor.slot, array) for array, tensor in graph.captured.values() if tensor.slot in used]
    where = {id(value): at for at, value in enumerate(values) if isinstance(value, State)}
    for followed in graph.states.values():
        rows = [(parameter.slot, at, now is not parameter)
                for at, (parameter, now) in enumerate(zip(followed.parameters, followed.now)) if parameter.slot in used]  # fmt: skip
        built.states.append((where.get(id(followed.state), followed.state), rows))
    return built


def _results(graph: Trace, built: Traced, out: Any, arguments: Dict[int, int]) -> List[Tensor]:
    """What the program has to give; the rest of the function's value is arguments (by node) and arrays that it found."""
    flat, built.tree = flatten(out)
    names = paths(built.tree, "its result")
    outputs: List[Tensor] = []
    places: Dict[int, int] = {}  # by node: the number of the result
    for leaf, name in zip(flat, names):
        if isinstance(leaf, Held):
            built.results.append(Same(leaf))
            continue
        tensor = graph.lift(leaf, name)
        found = [array for array, parameter in graph.captured.values() if parameter.node == tensor.node]
        if tensor.node in arguments:
            built.results.append(Same(arguments[tensor.node]))
        elif found:
            built.results.append(Same(found[0]))
        elif tensor.node in places:
            built.results.append(places[tensor.node])
            built.twice.add(places[tensor.node])
        else:
            built.results.append(places.setdefault(tensor.node, len(outputs)))
            outputs.append(tensor)
    return outputs


def _apart(one: Tensor, become: Dict[int, int]) -> Tensor:
    """What is stored; a copy of a parameter that becomes another itself, as in a swap."""
    return emit("CONTIGUOUS", (one,), one.dtype, one.shape) if become.get(one.node) in become else one


def _in_donated(outputs: List[Tensor], donated: Dict[int, Tensor]) -> List[Tuple[Optional[Tensor], Tensor]]:
    """The results, each with a donated argument of its type in whose memory it is to be, if one is left."""
    spare = list(donated.values())
    stored: List[Tuple[Optional[Tensor], Tensor]] = []
    for one in outputs:
        fit = next((parameter for parameter in spare if parameter.node != one.node
                    and (parameter.dtype, parameter.shape) == (one.dtype, one.shape)), None)  # fmt: skip
        if fit is not None:
            spare = [parameter for parameter in spare if parameter is not fit]
        stored.append((fit, one))
    return stored


def compiled(client: Any, message: Any, device: str) -> Any:
    """The program of a graph: that of an equal graph, if this client has one."""
    programs, key = of_client(client, "programs", MOST), (message.SerializeToString(), device)
    return programs.get(key) or programs.put(key, client.compile(message, device=device))
