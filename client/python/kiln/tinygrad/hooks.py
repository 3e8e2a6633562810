"""Where tinygrad is taken hold of: a device module, and a few names, most of them for level T.

What level T does not take goes to K, and what K does not take to L.

tinygrad has no entry point for devices out of its tree, and none for whole graphs, so
names are replaced at import; each replacement serves what is not KILN's as before.
"""

from __future__ import annotations

import pathlib
from typing import Any

import tinygrad.engine.jit as jit
import tinygrad.engine.realize as realize
import tinygrad.runtime
import tinygrad.tensor as tensor
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

from kiln.tinygrad import hashing, kernel_level, levels, sorting, tensor_level, windows
from kiln.tinygrad.devices import devices_of, is_kiln


def _with_prepared(original: Any, answer: Any) -> Any:
    """`original`, a function of a call, with `answer` for calls of prepared graphs."""

    def replaced(call: UOp, *args: Any) -> Any:
        return answer(call) if tensor_level.is_prepared(call) else original(call, *args)

    return replaced


def _run_if_prepared(ctx: Any, call: UOp, ast: UOp) -> Any:
    return tensor_level.run_call(ctx, call) if tensor_level.is_prepared(call) else None


def _unless_prepared(original: Any) -> Any:
    """tinygrad's memory planner, for schedules without a call of ours."""

    def replaced(linear: UOp, *args: Any) -> UOp:
        return linear if any(map(tensor_level.is_prepared, linear.src)) else original(linear, *args)

    return replaced


def _unbatched(original: Any) -> Any:
    """tinygrad's division of a captured step into graphs, without its limit on how many kernels one has."""

    def replaced(linear: UOp, max_batch_size: int = 0) -> UOp:
        ours = any(is_kiln(device) for call in linear.src for u in call.src[1:] for device in devices_of(u))
        return original(linear, 0 if ours else max_batch_size)

    return replaced


def install() -> None:
    """Registers the devices, and the hooks of the level. A second time it does nothing."""
    where = str(pathlib.Path(__file__).parent / "runtime")
    if where in tinygrad.runtime.__path__:
        return
    tinygrad.runtime.__path__.append(where)
    tensor.Tensor.sort = sorting.make_sort(tensor.Tensor.sort)
    tensor.Tensor.keccak = hashing.make_keccak(tensor.Tensor.keccak)
    jit.graph_split_rewrite = _unbatched(jit.graph_split_rewrite)
    tensor.create_linear_with_vars = windows.make_create_linear(tensor.create_linear_with_vars)
    if levels.wanted() != "L":
        realize.to_program = kernel_level.make_to_program(realize.to_program)
        # Kernels are written in this process: there is nothing to do in parallel.
        realize.get_worker_pool = lambda: None
    if levels.wanted() != "T":
        return
    tensor.create_linear_with_vars = tensor_level.make_create_linear(tensor.create_linear_with_vars)
    step = UPat(Ops.CALL, src=(UPat(Ops.CUSTOM_FUNCTION, name="ast"),), name="call", allow_any_len=True)
    realize.pm_exec = PatternMatcher([(step, _run_if_prepared)]) + realize.pm_exec
    realize.get_call_outs_ins = jit.get_call_outs_ins = _with_prepared(
        realize.get_call_outs_ins, tensor_level.outs_and_ins)
    # Arguments of a whole graph stay buffers of their own: replay.py then sees what is one and what is not.
    jit.memory_plan_rewrite = _unless_prepared(jit.memory_plan_rewrite)
    realize.estimate_uop = _with_prepared(realize.estimate_uop, lambda call: tensor_level.body_of(call).estimates)
    realize.get_call_name = _with_prepared(realize.get_call_name, lambda call: "kiln %s" % call.src[0].arg[5:13])
