"""A traced function on several devices: its graph spread over them (kiln.sharding.spread).

Arguments that are split have a share of their first axis on each device, all others are whole on each, as rows
of an array of one more axis. What each device computes of its share stays there; a sum over the split axis is
an all-reduce, which the server puts there.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Set, Tuple

from kiln.dtypes import dtype as dtype_of
from kiln.errors import ShapeError
from kiln.functional.held import Held
from kiln.functional.tracing import Trace
from kiln.sharding import Shards, equal_shares, spread

Evaluate = Callable[[Any, Sequence[Any]], List[Any]]


class Spread:
    """Called as functional/traced.py's Traced is."""

    def __init__(
        self,
        client: Any,
        devices: Tuple[str, ...],
        program: Any,
        arguments: List[Tuple[int, int]],
        split: Set[int],
        fixed: List[Tuple[int, Shards]],
        places: List[int],
    ):
        self._client, self._devices, self._program = client, devices, program
        self._arguments, self._split, self._fixed, self._places = arguments, split, fixed, places

    def run(self, leaves: Sequence[Any], specs: Any = ()) -> List[Any]:
        values: Dict[int, Any] = dict(self._fixed)
        for slot, at in self._arguments:
            values[slot] = self._argument(leaves[at], at in self._split)
        given = self._program.run(values, out="buffers").results
        return [given[place] for place in self._places]

    def _argument(self, leaf: Any, split: bool) -> Any:
        if isinstance(leaf, Shards):
            if split or leaf.axis is not None:
                return leaf
            return Shards([part.view((1, *part.shape)) for part in leaf.shards], 0)
        value = leaf.numpy() if isinstance(leaf, Held) else leaf
        return self._client.shards(value, self._devices, axis=0 if split else None)


def spread_over(
    name: str,
    client: Any,
    devices: Tuple[str, ...],
    kinds: Sequence[Any],
    evaluate: Evaluate,
    split: Sequence[int],
    options: Dict[str, Any],
) -> Spread:
    """Traces for one device, and compiles for all. ShapeError for a first axis that they do not share equally."""
    for at in split:
        if not kinds[at].shape:
            raise ShapeError("%s: a number has no axis to split" % name, code="UNSUPPORTED_SHARD")
        equal_shares(name, kinds[at].shape[0], len(devices))
    with Trace(client, devices[0], name) as graph:
        values = [graph.leaf((dtype_of(kind.dtype).number, kind.shape)) for kind in kinds]
        results = evaluate(graph, values)
        nodes: Dict[int, int] = {}
        places = [nodes.setdefault(one.node, len(nodes)) for one in results]
        for node in nodes:
            graph._outputs.append(node)
        message = graph.build()
    used = {node.buffer.slot for node in message.nodes if node.WhichOneof("arg") == "buffer"}
    arguments = [(value.slot, at) for at, value in enumerate(values) if value.slot in used]
    slots = [slot for slot, at in arguments if at in split]
    program = client.compile(spread(message, devices, split=slots), **options)
    fixed = [(tensor.slot, client.shards(array.numpy(), devices, axis=None))
             for array, tensor in graph.captured.values() if tensor.slot in used]  # fmt: skip
    return Spread(client, devices, program, arguments, set(split), fixed, places)
