"""Every public method of tinygrad.Tensor: that some row calls it, or why none does.

The list of methods is tinygrad's own, found by introspection, so that a method
that a release adds is missed here and not forgotten.
"""

import ast

LEFT_OUT = {
    "decode_hevc_frame": "needs a video engine of one maker's cards",
    "from_blob": "adopts a pointer into this process's memory, which a server does not share",
    "from_url": "downloads; what it makes is an ordinary tensor",
    "linear_with_vars": "hands out the schedule instead of running it",
    "schedule_linear": "hands out the schedule instead of running it",
    "grad": "an attribute that backward fills; rows read it",
    "is_param": "an attribute; is_param_ sets it",
    "uop": "an attribute: the graph itself",
}
OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
# What Python calls on its own, or forbids.
NO_OPERATORS = {
    "__annotations__", "__bool__", "__del__", "__delitem__", "__dict__", "__module__", "__slots__", "__weakref__",
}  # fmt: skip


def public(tensor_class):
    """Names of public methods and properties."""
    return {name for name in dir(tensor_class) if not name.startswith("_")}


def operators(tensor_class):
    return {name for name in dir(tensor_class) if name.startswith("__") and name not in dir(object)} - NO_OPERATORS


def named(rows):
    """Every attribute and operator in the code of rows."""
    found = set()
    for row in rows:
        found.update(row.covers.split())
        for node in ast.walk(ast.parse(row.code)):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.BinOp):
                name = OPERATORS[type(node.op)]
                found.add(("__r%s__" if isinstance(node.left, ast.Constant) else "__%s__") % name)
            elif isinstance(node, ast.AugAssign):
                found.add("__i%s__" % OPERATORS[type(node.op)])
            elif isinstance(node, ast.UnaryOp):
                found.add("__invert__" if isinstance(node.op, ast.Invert) else "__neg__")
            elif isinstance(node, ast.Subscript):
                found.add("__setitem__" if isinstance(node.ctx, ast.Store) else "__getitem__")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
                found.add("__len__")
    return found


def missing(tensor_class, rows):
    """(methods that no row calls and no reason leaves out, reasons that are no longer needed)."""
    called = named(rows)
    every = public(tensor_class)
    return sorted((every | operators(tensor_class)) - called - set(LEFT_OUT)), sorted(set(LEFT_OUT) - every)
