"""All 65,536 pairs of each 8-bit float, for a few ops: digests of the results.

  pairs OP DTYPE DIGEST     FNV-1a over OP(a, b) for a, b in 0…255, b the faster

NaN is the format's one pattern of encode's comment in base/float_bits.h, -0 of a
MAX counts as 0 (docs/ir.md leaves its sign open).
"""

from reference_scalars import FLOAT8, evaluate, fnuz
from reference_tensors import digest

NAN = {"float8_e4m3": 0x7F, "float8_e5m2": 0x7E}


def lines():
    for dtype in FLOAT8:
        nan = 0x80 if fnuz(dtype) else NAN[dtype]
        for op in ("ADD", "MUL", "MAX", "CMPLT"):
            results = bytearray()
            for a in range(256):
                for b in range(256):
                    bits = evaluate(op, dtype, [a, b])
                    bits = nan if bits == "nan" else bits
                    results.append(0 if op == "MAX" and bits == 0x80 and not fnuz(dtype) else bits)
            yield f"pairs {op} {dtype} {digest(results):x}"
