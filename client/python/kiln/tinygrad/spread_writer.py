"""Writes graphs over several of the server's devices: names of devices, copies, and tuples of rows."""

from __future__ import annotations

from typing import List

from tinygrad.uop.ops import Ops, UOp

from kiln.tinygrad import server
from kiln.tinygrad.devices import devices_of, is_kiln
from kiln.tinygrad.graphs import Writer
from kiln.v1 import graph_pb2 as pb

# Tags of UOps that say what tinygrad has no op for: whole on each device; of rows, each its own;
# rows of values on one device each; the row that one device has.
WHOLE, OWN, EACH, ONE = "kiln: whole", "kiln: own", "kiln: each", "kiln: one"


class SpreadWriter(Writer):
    """Writes what a Spreader made; what lies on the host is sent to `home`."""

    def __init__(self, home: str):
        super().__init__()
        self._home = home

    def _names(self, u: UOp) -> List[str]:
        return [server.device_name(device) if is_kiln(device) else self._home for device in devices_of(u)]

    def _write_one(self, u: UOp) -> int:
        if u.op is Ops.COPY:
            names = self._names(u)
            source, shape = self.at(u.src[0]), u.src[0].shape
            if u.tag != WHOLE:
                return self.node(pb.COPY, [source], load=pb.LoadArg(device=names))
            row = self.node(pb.RESHAPE, [source, self.shape((1, *shape))])
            rows = self.node(pb.EXPAND, [row, self.shape((len(names), *shape))])
            return self._own(self.node(pb.COPY, [rows], load=pb.LoadArg(device=names)))
        if u.tag == OWN:
            return self._own(self.at(u.src[0]))
        if u.tag == EACH:
            return self.node(pb.MSTACK, [self.at(s) for s in u.src])
        if u.tag == ONE:
            return self.node(pb.MSELECT, [self.at(u.src[0])], index=u.marg[0][0])
        number = super()._write_one(u)
        if u.op is Ops.PARAM and not u.is_variable:
            self.graph.nodes[number].buffer.device.extend(self._names(u))
        return number

    def _own(self, rows: int) -> int:
        return self.node(pb.REPLICATED, [rows], index=0)
