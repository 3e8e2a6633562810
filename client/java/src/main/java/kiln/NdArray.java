package kiln;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * An array in this process: row-major, little-endian, without padding, of at most 2 GiB. Java's own
 * arrays are copied into it and out of it; a ByteBuffer, direct or not, is shared.
 */
public final class NdArray implements Argument {
    private final DType dtype;
    private final long[] shape;
    private final ByteBuffer data; // from 0 to its limit

    private NdArray(DType dtype, ByteBuffer data, long[] shape) {
        long wanted = Shapes.bytes(dtype, shape);
        if (data.remaining() != wanted) {
            String text = "an array of %s and shape %s has %d bytes, not %d";
            throw Failures.badArgument(
                    text, dtype, Arrays.toString(shape), wanted, data.remaining());
        }
        this.dtype = dtype;
        this.shape = shape.clone();
        this.data = data.slice().order(ByteOrder.LITTLE_ENDIAN);
    }

    /**
     * An array whose memory is that of a buffer, from its position to its limit: little-endian,
     * whatever its order.
     */
    public static NdArray of(DType dtype, ByteBuffer data, long... shape) {
        return new NdArray(dtype, data, shape);
    }

    /** An array of float32. Without a shape it has one axis; so it is with all that follow. */
    public static NdArray of(float[] values, long... shape) {
        ByteBuffer data = Memory.room(4L * values.length);
        data.asFloatBuffer().put(values);
        return new NdArray(DType.FLOAT32, data, shaped(values.length, shape));
    }

    /** An array of float64. */
    public static NdArray of(double[] values, long... shape) {
        ByteBuffer data = Memory.room(8L * values.length);
        data.asDoubleBuffer().put(values);
        return new NdArray(DType.FLOAT64, data, shaped(values.length, shape));
    }

    /** An array of int8. */
    public static NdArray of(byte[] values, long... shape) {
        return new NdArray(
                DType.INT8, ByteBuffer.wrap(values.clone()), shaped(values.length, shape));
    }

    /** An array of int16. */
    public static NdArray of(short[] values, long... shape) {
        ByteBuffer data = Memory.room(2L * values.length);
        data.asShortBuffer().put(values);
        return new NdArray(DType.INT16, data, shaped(values.length, shape));
    }

    /** An array of int32. */
    public static NdArray of(int[] values, long... shape) {
        ByteBuffer data = Memory.room(4L * values.length);
        data.asIntBuffer().put(values);
        return new NdArray(DType.INT32, data, shaped(values.length, shape));
    }

    /** An array of int64. */
    public static NdArray of(long[] values, long... shape) {
        ByteBuffer data = Memory.room(8L * values.length);
        data.asLongBuffer().put(values);
        return new NdArray(DType.INT64, data, shaped(values.length, shape));
    }

    /** An array of bools. */
    public static NdArray of(boolean[] values, long... shape) {
        ByteBuffer data = Memory.room(values.length);
        for (boolean value : values) {
            data.put((byte) (value ? 1 : 0));
        }
        return new NdArray(DType.BOOL, data.flip(), shaped(values.length, shape));
    }

    /** An array of one of the floats, each number rounded to nearest, ties to even. */
    public static NdArray of(DType dtype, double[] values, long... shape) {
        FloatFormat format = FloatFormat.of(dtype.wire);
        if (format == null) {
            throw Failures.wrongDType(
                    "%s is no float: give integers as one of Java's arrays, or as bytes", dtype);
        }
        ByteBuffer data = Memory.room((long) dtype.bytes() * values.length);
        for (double value : values) {
            put(data, dtype.bytes(), format.pattern(value));
        }
        return new NdArray(dtype, data.flip(), shaped(values.length, shape));
    }

    /**
     * Without a shape, one axis of so many elements; a scalar is made by {@link #reshape} to no
     * axes.
     */
    private static long[] shaped(int count, long[] shape) {
        return shape.length == 0 ? new long[] {count} : shape;
    }

    private static void put(ByteBuffer data, int bytes, long bits) {
        switch (bytes) {
            case 1 -> data.put((byte) bits);
            case 2 -> data.putShort((short) bits);
            case 4 -> data.putInt((int) bits);
            default -> data.putLong(bits);
        }
    }

    /** The type of its elements. */
    public DType dtype() {
        return dtype;
    }

    /** The size along each axis. */
    public long[] shape() {
        return shape.clone();
    }

    /** How many elements there are. */
    public int count() {
        return data.limit() / dtype.bytes();
    }

    /** Its memory, to be read: a view of its own, little-endian. */
    public ByteBuffer data() {
        return data.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN);
    }

    /** The same for this package, which copies it less often. */
    ByteBuffer memory() {
        return data.duplicate();
    }

    /**
     * The same elements in another shape; without sizes, the one element that there is as a scalar.
     */
    public NdArray reshape(long... sizes) {
        return new NdArray(dtype, data, sizes);
    }

    /** The same bits as another type of the same size, as int8 as uint8. */
    public NdArray as(DType other) {
        if (other.bytes() != dtype.bytes()) {
            throw Failures.wrongDType("%s has elements of another size than %s", other, dtype);
        }
        return new NdArray(other, data, shape);
    }

    private void check(boolean is, String what) {
        if (!is) {
            throw Failures.wrongDType(
                    "an array of %s, not of %s; numbers() takes any", dtype, what);
        }
    }

    /** The elements of an array of float32. */
    public float[] floats() {
        check(dtype == DType.FLOAT32, "float32");
        float[] values = new float[count()];
        data().asFloatBuffer().get(values);
        return values;
    }

    /** The elements of an array of float64. */
    public double[] doubles() {
        check(dtype == DType.FLOAT64, "float64");
        double[] values = new double[count()];
        data().asDoubleBuffer().get(values);
        return values;
    }

    /** The bits of elements of one byte. */
    public byte[] bytes() {
        check(dtype.bytes() == 1, "8 bits");
        byte[] values = new byte[count()];
        data().get(values);
        return values;
    }

    /** The bits of elements of two bytes. */
    public short[] shorts() {
        check(dtype.bytes() == 2, "16 bits");
        short[] values = new short[count()];
        data().asShortBuffer().get(values);
        return values;
    }

    /** The elements of an array of int32 or uint32, these as Java's unsigned ints. */
    public int[] ints() {
        check(dtype == DType.INT32 || dtype == DType.UINT32, "int32 or uint32");
        int[] values = new int[count()];
        data().asIntBuffer().get(values);
        return values;
    }

    /** The elements of an array of int64 or uint64, these as Java's unsigned longs. */
    public long[] longs() {
        check(dtype == DType.INT64 || dtype == DType.UINT64, "int64 or uint64");
        long[] values = new long[count()];
        data().asLongBuffer().get(values);
        return values;
    }

    /** The elements as doubles, whatever their type; integers beyond 2^53 are rounded. */
    public double[] numbers() {
        ByteBuffer from = data();
        FloatFormat format = FloatFormat.of(dtype.wire);
        boolean isUnsigned = dtype.kind == DType.Kind.UNSIGNED;
        double[] values = new double[count()];
        for (int at = 0; at < values.length; at++) {
            long signed =
                    switch (dtype.bytes()) {
                        case 1 -> from.get();
                        case 2 -> from.getShort();
                        case 4 -> from.getInt();
                        default -> from.getLong();
                    };
            long bits = dtype.bytes() == 8 ? signed : signed & (1L << 8 * dtype.bytes()) - 1;
            if (format != null) {
                values[at] = format.number(bits);
            } else if (isUnsigned) {
                values[at] = bits >= 0 ? bits : 2.0 * ((bits >>> 1) | (bits & 1));
            } else {
                values[at] = signed;
            }
        }
        return values;
    }

    @Override
    public String toString() {
        return "NdArray(%s, %s)".formatted(dtype, Arrays.toString(shape));
    }
}
