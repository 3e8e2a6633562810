package kiln;

import java.util.Locale;

/** A scalar type that arrays may have. */
public enum DType {
    /** A byte that is 0 or 1. */
    BOOL(1, Kind.TRUTH, "BOOL"),
    /** A signed integer of 8 bits. */
    INT8(1, Kind.SIGNED, "INT8"),
    /** A signed integer of 16 bits. */
    INT16(2, Kind.SIGNED, "INT16"),
    /** A signed integer of 32 bits. */
    INT32(4, Kind.SIGNED, "INT32"),
    /** A signed integer of 64 bits. */
    INT64(8, Kind.SIGNED, "INT64"),
    /** An unsigned integer of 8 bits, in Java's byte. */
    UINT8(1, Kind.UNSIGNED, "UINT8"),
    /** An unsigned integer of 16 bits, in Java's short. */
    UINT16(2, Kind.UNSIGNED, "UINT16"),
    /** An unsigned integer of 32 bits, in Java's int. */
    UINT32(4, Kind.UNSIGNED, "UINT32"),
    /** An unsigned integer of 64 bits, in Java's long. */
    UINT64(8, Kind.UNSIGNED, "UINT64"),
    /** IEEE's half, as bits in a short. */
    FLOAT16(2, Kind.FLOAT, "FP16"),
    /** The upper half of a float32, as bits in a short. */
    BFLOAT16(2, Kind.FLOAT, "BF16"),
    /** Java's float. */
    FLOAT32(4, Kind.FLOAT, "FP32"),
    /** Java's double. */
    FLOAT64(8, Kind.FLOAT, "FP64"),
    /** OCP's e4m3, as bits in a byte; without infinity. */
    FLOAT8_E4M3(1, Kind.FLOAT, ""),
    /** OCP's e5m2, as bits in a byte. */
    FLOAT8_E5M2(1, Kind.FLOAT, ""),
    /** The e4m3 without infinity and negative zero, as bits in a byte. */
    FLOAT8_E4M3_FNUZ(1, Kind.FLOAT, ""),
    /** The e5m2 without infinity and negative zero, as bits in a byte. */
    FLOAT8_E5M2_FNUZ(1, Kind.FLOAT, "");

    enum Kind {
        TRUTH,
        SIGNED,
        UNSIGNED,
        FLOAT
    }

    private final int bytes;
    final Kind kind;
    final kiln.v1.DType wire;

    /** As served models call it; empty where none has it. */
    final String datatype;

    DType(int bytes, Kind kind, String datatype) {
        this.bytes = bytes;
        this.kind = kind;
        this.datatype = datatype;
        this.wire = kiln.v1.DType.valueOf(name());
    }

    /** The bytes of one element. */
    public int bytes() {
        return bytes;
    }

    /** Whether it is one of the floats. */
    public boolean isFloat() {
        return kind == Kind.FLOAT;
    }

    /** Whether it is a float of less than 32 bits. */
    boolean isNarrow() {
        return isFloat() && bytes < 4;
    }

    /** The protocol's name in small letters, as "float32". */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** The type of a name, as "float8_e4m3". */
    public static DType of(String name) {
        for (DType dtype : values()) {
            if (dtype.toString().equals(name)) {
                return dtype;
            }
        }
        throw Failures.badArgument("\"%s\" names no dtype", name);
    }

    /** Of a served model's tensors, by the open inference protocol's name; null for another. */
    static DType served(String datatype) {
        for (DType dtype : values()) {
            if (!datatype.isEmpty() && dtype.datatype.equals(datatype)) {
                return dtype;
            }
        }
        return null;
    }

    /** Null for what no array has. */
    static DType of(kiln.v1.DType wire) {
        for (DType dtype : values()) {
            if (dtype.wire == wire) {
                return dtype;
            }
        }
        return null;
    }
}
