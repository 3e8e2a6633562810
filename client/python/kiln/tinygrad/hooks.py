"""Where tinygrad is taken hold of: a device module, and for level T five names.

tinygrad has no entry point for devices out of its tree, and none for whole graphs, so
names are replaced at import; each replacement serves what is not KILN's as before.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, Tuple

import tinygrad.engine.jit as jit
import tinygrad.engine.realize as realize
import tinygrad.runtime
import tinygrad.tensor as tensor
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat

from kiln.tinygrad import kernel_level, tensor_level

LEVELS = ("T", "K", "L")


def level() -> str:
    wanted = os.environ.get("KILN_LEVEL", "T").upper()
    if wanted not in LEVELS:
        raise ValueError("KILN_LEVEL=%s: it is one of %s" % (wanted, ", ".join(LEVELS)))
    return wanted


def is_prepared(call: UOp) -> bool:
    ast = call.src[0]
    return ast.op is Ops.CUSTOM_FUNCTION and isinstance(ast.arg, str) and ast.arg.startswith(tensor_level.PREFIX)


def _with_prepared(original: Any, answer: Any) -> Any:
    """`original`, a function of a call, with `answer` for calls of prepared graphs."""

    def replaced(call: UOp, *args: Any) -> Any:
        return answer(call) if is_prepared(call) else original(call, *args)

    return replaced


def _run_if_prepared(ctx: Any, call: UOp, ast: UOp) -> Any:
    return tensor_level.run_call(ctx, call, ast) if is_prepared(call) else None


def _outs_ins(call: UOp) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    prepared = tensor_level.prepared(call.src[0].arg)
    return prepared.outs, prepared.ins


def install() -> None:
    """Registers the devices; with KILN_LEVEL=T, the hooks. A second time it does nothing."""
    where = str(pathlib.Path(__file__).parent / "runtime")
    if where in tinygrad.runtime.__path__:
        return
    tinygrad.runtime.__path__.append(where)
    if level() == "K":
        realize.to_program = kernel_level.make_to_program(realize.to_program)
        # Kernels are written in this process: there is nothing to do in parallel.
        realize.get_worker_pool = lambda: None
    if level() != "T":
        return
    tensor.create_linear_with_vars = tensor_level.make_create_linear(tensor.create_linear_with_vars)
    step = UPat(Ops.CALL, src=(UPat(Ops.CUSTOM_FUNCTION, name="ast"),), name="call", allow_any_len=True)
    realize.pm_exec = PatternMatcher([(step, _run_if_prepared)]) + realize.pm_exec
    realize.get_call_outs_ins = jit.get_call_outs_ins = _with_prepared(realize.get_call_outs_ins, _outs_ins)
    realize.get_call_name = _with_prepared(realize.get_call_name, lambda call: "kiln %s" % call.src[0].arg[5:13])
