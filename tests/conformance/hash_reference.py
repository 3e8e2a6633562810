"""The graph hash, written a second time from proto/README.md alone.

Reads graphs as protobuf JSON, knows nothing of our C++ and no generated code,
and must arrive at the hashes of hash_vectors.json. Slow and plain on purpose:
exact rational arithmetic instead of bit tricks.
"""

import base64
import fractions
import json
import math
import pathlib
import re
import struct
import unittest

import blake3

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto" / "kiln" / "v1"

# protobuf JSON writes -0.0 as -0, which Python would read as the integer 0.
INTEGER = lambda text: -0.0 if text == "-0" else int(text)


def enum_numbers(proto, enum):
    """Name -> number, from the text of the .proto file."""
    body = re.search(r"enum %s \{(.*?)\n\s*\}" % enum, (PROTO / proto).read_text(), re.S).group(1)
    return {name: int(number) for name, number in re.findall(r"^\s*(\w+) = (\d+);", body, re.M)}


DTYPE = enum_numbers("dtype.proto", "DType")
OP = enum_numbers("graph.proto", "Op")
DIALECT = enum_numbers("graph.proto", "Dialect")
ADDRSPACE = enum_numbers("graph.proto", "AddrSpace")
AXIS_TYPE = enum_numbers("graph.proto", "AxisType")
OPT_KIND = enum_numbers("graph.proto", "Kind")

WIDTH = {"BOOL": 8, "INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64, "UINT8": 8, "UINT16": 16, "UINT32": 32,
         "UINT64": 64, "WEAKINT": 64}

# exponent bits, mantissa bits, bias, style
FLOAT = {"FLOAT16": (5, 10, 15, "ieee"), "BFLOAT16": (8, 7, 127, "ieee"), "FLOAT32": (8, 23, 127, "ieee"),
         "FLOAT64": (11, 52, 1023, "ieee"), "WEAKFLOAT": (11, 52, 1023, "ieee"), "FLOAT8_E4M3": (4, 3, 7, "no inf"),
         "FLOAT8_E5M2": (5, 2, 15, "saturating"), "FLOAT8_E4M3_FNUZ": (4, 3, 8, "fnuz"),
         "FLOAT8_E5M2_FNUZ": (5, 2, 16, "fnuz")}


def float_pattern(dtype, value):
    """The pattern of a number (int, Fraction or float), rounded to nearest even."""
    exponent_bits, mantissa_bits, bias, style = FLOAT[dtype]
    sign = 1 << (exponent_bits + mantissa_bits)
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    nan = {"fnuz": sign, "no inf": sign - 1}.get(style, infinity | 1 << (mantissa_bits - 1))
    greatest = {"fnuz": sign - 1, "no inf": sign - 2}.get(style, infinity - 1)
    negative = math.copysign(1, value) < 0 if isinstance(value, float) else value < 0
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value) or style in ("fnuz", "no inf"):
            return nan
        return infinity | (sign if negative else 0)
    exact = abs(fractions.Fraction(value))
    exponent = 1 - bias
    while exact >= fractions.Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = fractions.Fraction(2) ** (exponent - mantissa_bits)
    # round() of a Fraction ties to even.
    pattern = ((exponent + bias - 1) << mantissa_bits) + round(exact / unit)
    if pattern > greatest:
        pattern = infinity if style == "ieee" else greatest
    if negative and not (style == "fnuz" and pattern == 0):
        pattern |= sign
    return pattern


def u8(value):
    return struct.pack("<B", value)


def u32(value):
    return struct.pack("<I", value)


def i64(value):
    return struct.pack("<q", int(value))


def u64(value):
    return struct.pack("<Q", value)


def string(value):
    data = value.encode() if isinstance(value, str) else value
    return u32(len(data)) + data


def many(values, encode):
    return u32(len(values)) + b"".join(encode(value) for value in values)


def i64s(values):
    return many(values, i64)


class Refused(Exception):
    """A graph without a hash: an ErrorCode's name, and the node."""

    def __init__(self, code, node=None):
        super().__init__(code, node)
        self.code, self.node = code, node


def refuse_unless(holds, code="BAD_ARGUMENT"):
    if not holds:
        raise Refused(code)


def range_of(dtype):
    width, unsigned = WIDTH[dtype], dtype.startswith("U")
    if dtype == "BOOL":
        return 0, 1
    return (0, (1 << width) - 1) if unsigned else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def check_constant(arg):
    """Refuses what has no canonical form."""
    dtype = arg.get("dtype")
    refuse_unless(dtype in WIDTH or dtype in FLOAT)
    forms = [form for form in ("b", "i", "u", "f", "bits", "decimal", "invalid") if form in arg]
    refuse_unless(forms and (forms[0] != "invalid" or arg["invalid"]))
    if forms[0] == "invalid":
        return
    text = arg.get("decimal")
    refuse_unless(text is None or dtype in WIDTH and re.fullmatch(r"-?[0-9]+", text) and len(text) <= 1000)
    if "bits" in arg:
        width = WIDTH.get(dtype) or sum(FLOAT[dtype][:2]) + 1
        refuse_unless(int(arg["bits"]) >> (1 if dtype == "BOOL" else width) == 0)
    elif dtype in WIDTH:
        if "f" in arg:
            refuse_unless(math.isfinite(float(arg["f"])) and float(arg["f"]).is_integer())
        least, greatest = range_of(dtype)
        refuse_unless(dtype == "WEAKINT" or least <= int(arg[forms[0]]) <= greatest)


def constant(arg):
    check_constant(arg)
    dtype = arg["dtype"]
    head = u32(DTYPE[dtype])
    if "invalid" in arg:
        return head + u8(1)
    if "bits" in arg:
        pattern = int(arg["bits"])
        if dtype in WIDTH and not dtype.startswith("U") and dtype != "BOOL" and pattern >> (WIDTH[dtype] - 1):
            pattern -= 1 << WIDTH[dtype]
        return head + u8(0) + u64(pattern % (1 << 64))
    for form, read in (("b", int), ("i", int), ("u", int), ("decimal", int), ("f", float)):
        if form in arg:
            value = read(arg[form])
    if dtype in FLOAT:
        return head + u8(0) + u64(float_pattern(dtype, value))
    value = int(value)
    if dtype == "WEAKINT" and not -(1 << 63) <= value < 1 << 63:
        return head + u8(2) + string(str(value))
    return head + u8(0) + u64(value % (1 << 64))


def buffer(arg, op):
    space = arg.get("addrspace") or {
        "DEFINE_LOCAL": "LOCAL", "DEFINE_REG": "REG", "DEFINE_ACC": "REG", "DEFINE_VAR": "ALU"}.get(op, "GLOBAL")
    out = u32(arg.get("slot", 0)) + u32(DTYPE[arg.get("dtype", "DTYPE_UNSPECIFIED")])
    out += many(arg.get("device", []), string) + u32(ADDRSPACE[space])
    out += string(arg.get("name", "") if space == "ALU" else "")
    for bound in ("minValue", "maxValue"):
        out += u8(1) + i64(arg[bound]) if bound in arg else u8(0)
    return out


def opt(arg):
    return u32(OPT_KIND[arg.get("kind", "OPT_UNSPECIFIED")]) + i64(arg.get("axis", 0)) + i64s(arg.get("arg", []))


def wmma(arg):
    out = i64(arg.get("n", 0)) + i64(arg.get("m", 0)) + i64(arg.get("k", 0))
    out += u32(DTYPE[arg.get("dtypeIn", "DTYPE_UNSPECIFIED")]) + u32(DTYPE[arg.get("dtypeOut", "DTYPE_UNSPECIFIED")])
    out += i64(arg.get("threads", 0))
    out += many(arg.get("upcastAxes", []), lambda axes: i64s(axes.get("axis", [])))
    return out + i64s(arg.get("reduceAxes", []))


def view(arg):
    out = i64s(arg.get("shape", [])) + i64s(arg.get("stride", [])) + i64(arg.get("offset", 0))
    return out + i64s(arg.get("maskBegin", [])) + i64s(arg.get("maskEnd", []))


def reduce_op(arg):
    refuse_unless(arg.get("op", "OP_UNSPECIFIED") in OP and OP[arg.get("op", "OP_UNSPECIFIED")])
    return arg["op"]


FORMS = {  # JSON name -> (field number, encoding)
    "constant": (10, lambda arg, op: constant(arg)),
    "buffer": (11, buffer),
    "axes": (12, lambda arg, op: i64s(arg.get("axis", []))),
    "flip": (13, lambda arg, op: many(arg.get("axis", []), u8)),
    "reduce": (14, lambda arg, op: string(reduce_op(arg)) + i64s(arg.get("axis", []))),
    "pad": (15, lambda arg, op: constant(arg["fill"])),
    "castTo": (16, lambda arg, op: u32(DTYPE[arg])),
    "index": (17, lambda arg, op: i64(arg)),
    "load": (18, lambda arg, op: many(arg.get("device", []), string) +
             u32(ADDRSPACE[arg.get("addrspace", "ADDRSPACE_UNSPECIFIED")])),
    "range": (19, lambda arg, op: i64s(arg.get("axisId", [])) +
              u32(AXIS_TYPE[arg.get("type", "AXIS_TYPE_UNSPECIFIED")])),
    "special": (20, lambda arg, op: string(arg.get("name", ""))),
    "kernel": (21, lambda arg, op: many(arg.get("opts", []), opt) + u8(arg.get("dontUseLocals", False))),
    "wmma": (22, lambda arg, op: wmma(arg)),
    "text": (23, lambda arg, op: string(arg)),
    "data": (24, lambda arg, op: string(base64.b64decode(arg))),
    "view": (25, lambda arg, op: many(arg.get("view", []), view)),
    "allReduce": (26, lambda arg, op: string(reduce_op(arg)) + many(arg.get("device", []), string)),
    "opt": (27, lambda arg, op: opt(arg)),
}


def argument(node):
    for form, (number, encode) in FORMS.items():
        if form not in node:
            continue
        arg = node[form]
        if form == "pad" and ("fill" not in arg or arg["fill"].get("invalid")):
            return u8(0)
        if form == "load" and not arg:
            return u8(0)
        return u8(number) + encode(arg, node["op"])
    return u8(0)


DEFINES = ("DEFINE_GLOBAL", "DEFINE_LOCAL", "DEFINE_REG", "DEFINE_ACC")


def op_name(node, legacy):
    """The name by meaning: of the dialect, and of a dtype that says what the node is."""
    op, dtype = node["op"], node.get("dtype", "DTYPE_UNSPECIFIED")
    names = {"IDIV": "CDIV", "MOD": "CMOD"} if legacy else {"IDIV": "FLOORDIV", "MOD": "FLOORMOD"}
    name = names.get(op, op)
    if legacy and op in ("LOAD", "STORE", "RANGE"):
        name += ":LEGACY_2025"
    if dtype == "DTYPE_UNSPECIFIED":
        return name
    says = op in ("BUFFER_VIEW", "CUSTOM", "CUSTOMI", "EMPTY", "INS", "VCONST")
    says |= op in DEFINES and "dtype" not in node.get("buffer", {})
    says |= op in ("RANGE", "LOOP", "SPECIAL") and dtype not in ("INT64", "WEAKINT")
    return name + ":%d" % DTYPE[dtype] if says else name


def graph_hash(graph):
    legacy = graph.get("dialect") == "LEGACY_2025"
    refuse_unless(graph.get("dialect", "DIALECT_UNSPECIFIED") in DIALECT)
    refuse_unless(graph.get("nodes"), "GRAPH_EMPTY")
    digests = []
    for number, node in enumerate(graph["nodes"]):
        try:
            refuse_unless(OP.get(node.get("op"), 0), "UNKNOWN_OP")
            preimage = string(op_name(node, legacy)) + argument(node)
            for source in node.get("src", []):
                refuse_unless(source < len(graph["nodes"]), "SOURCE_OUT_OF_RANGE")
                refuse_unless(source < number, "GRAPH_CYCLE")
        except Refused as refused:
            raise Refused(refused.code, number)
        preimage += many(node.get("src", []), lambda source: digests[source])
        digests.append(blake3.blake3(preimage).digest())
    return blake3.blake3(b"kiln.graph\x01" + digests[-1]).hexdigest()


class HashReference(unittest.TestCase):
    vectors = json.loads((HERE / "hash_vectors.json").read_text(), parse_int=INTEGER)

    def test_every_vector(self):
        for vector in self.vectors:
            with self.subTest(vector["name"]):
                if "hash" in vector:
                    self.assertEqual(graph_hash(vector["graph"]), vector["hash"])
                    continue
                with self.assertRaises(Refused) as refused:
                    graph_hash(vector["graph"])
                self.assertEqual(refused.exception.code, vector["error"])
                self.assertEqual(refused.exception.node, vector.get("node"))

    def test_equal_only_where_said(self):
        first = {}
        by_name = {vector["name"]: vector["hash"] for vector in self.vectors if "hash" in vector}
        for vector in self.vectors:
            if "hash" not in vector:
                continue
            if "same_as" in vector:
                self.assertEqual(vector["hash"], by_name[vector["same_as"]], vector["name"])
            else:
                self.assertNotIn(vector["hash"], first, vector["name"])
                first[vector["hash"]] = vector["name"]

    def test_every_argument_form_occurs(self):
        used = {form for vector in self.vectors for node in vector["graph"].get("nodes", []) for form in FORMS if form in node}
        self.assertEqual(used, set(FORMS))


if __name__ == "__main__":
    unittest.main()
