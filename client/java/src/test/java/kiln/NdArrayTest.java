package kiln;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import kiln.v1.ErrorCode;
import org.junit.jupiter.api.Test;

class NdArrayTest {
    @Test
    void javasArraysComeBack() {
        assertArrayEquals(new float[] {1.5f, -2}, NdArray.of(new float[] {1.5f, -2}).floats());
        assertArrayEquals(new double[] {1e300}, NdArray.of(new double[] {1e300}).doubles());
        assertArrayEquals(new byte[] {1, -2}, NdArray.of(new byte[] {1, -2}).bytes());
        assertArrayEquals(new short[] {1, -2}, NdArray.of(new short[] {1, -2}).shorts());
        assertArrayEquals(new int[] {1, -2}, NdArray.of(new int[] {1, -2}).ints());
        assertArrayEquals(new long[] {1, -2}, NdArray.of(new long[] {1, -2}).longs());
        assertArrayEquals(new byte[] {1, 0}, NdArray.of(new boolean[] {true, false}).bytes());
        NdArray array = NdArray.of(new float[6], 2, 3);
        assertArrayEquals(new long[] {2, 3}, array.shape());
        assertSame(DType.FLOAT32, array.dtype());
        assertArrayEquals(new long[0], NdArray.of(new int[] {7}).reshape().shape());
    }

    @Test
    void aBuffersMemoryIsShared() {
        for (ByteBuffer memory :
                new ByteBuffer[] {ByteBuffer.allocate(9), ByteBuffer.allocateDirect(9)}) {
            memory.order(ByteOrder.LITTLE_ENDIAN).position(1);
            NdArray array = NdArray.of(DType.INT64, memory, 1);
            memory.putLong(1, -8);
            assertArrayEquals(new long[] {-8}, array.longs());
            assertTrue(array.data().isReadOnly());
            assertEquals(ByteOrder.LITTLE_ENDIAN, array.data().order());
        }
    }

    @Test
    void whatIsNoArrayIsRefused() {
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> NdArray.of(new byte[3], 2));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> NdArray.of(new byte[3], -3, -1));
        Fails.with(ErrorCode.SIZE_OVERFLOW, () -> NdArray.of(new byte[0], 1L << 62, 4));
        Fails.with(ErrorCode.DTYPE_MISMATCH, () -> NdArray.of(new byte[1]).ints());
        Fails.with(ErrorCode.DTYPE_MISMATCH, () -> NdArray.of(new byte[1]).as(DType.FLOAT16));
        Fails.with(ErrorCode.DTYPE_MISMATCH, () -> NdArray.of(DType.INT8, new double[1]));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> DType.of("float24"));
        Fails.with(Status.Code.RESOURCE_EXHAUSTED, () -> Memory.room(1L << 31));
        assertEquals(0, NdArray.of(new byte[0], 0, Long.MAX_VALUE, Long.MAX_VALUE).count());
    }

    @Test
    void numbersOfEveryType() {
        byte[] ones = {-1, -1, -1, -1, -1, -1, -1, -1};
        double[] wanted = {-1, -1, -1, -1, 255, 65535, 4294967295.0, 18446744073709551615.0};
        DType[] dtypes = {
            DType.INT8, DType.INT16, DType.INT32, DType.INT64,
            DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64
        };
        for (int at = 0; at < dtypes.length; at++) {
            ByteBuffer one = ByteBuffer.wrap(ones, 0, dtypes[at].bytes());
            double[] found = NdArray.of(dtypes[at], one, 1).numbers();
            assertArrayEquals(new double[] {wanted[at]}, found, dtypes[at].toString());
        }
        assertArrayEquals(
                new double[] {1.5, -2},
                NdArray.of(DType.BFLOAT16, new double[] {1.5, -2}).numbers());
    }

    @Test
    void floatsRoundAsJavasOwn() {
        double[] values = {
            0,
            -0.0,
            1,
            -1.5,
            Math.PI,
            1e-45,
            7e-46,
            1e-40,
            3.4e38,
            3.5e38,
            (1 << 24) + 1,
            Double.MIN_VALUE,
            Double.MAX_VALUE,
            Double.POSITIVE_INFINITY,
            Double.NEGATIVE_INFINITY
        };
        for (double value : values) {
            long single = FloatFormat.of(kiln.v1.DType.FLOAT32).pattern(value);
            assertEquals(Float.floatToIntBits((float) value) & 0xffffffffL, single, "" + value);
            FloatFormat wide = FloatFormat.of(kiln.v1.DType.FLOAT64);
            assertEquals(Double.doubleToLongBits(value), wide.pattern(value), "" + value);
            assertEquals(value, wide.number(Double.doubleToLongBits(value)));
        }
    }

    @Test
    void everyPatternOfANarrowFloatIsItsNumbers() {
        for (DType dtype : DType.values()) {
            if (!dtype.isNarrow()) {
                continue;
            }
            FloatFormat format = FloatFormat.of(dtype.wire);
            for (long pattern = 0; pattern < 1L << 8 * dtype.bytes(); pattern++) {
                double value = format.number(pattern);
                if (!Double.isNaN(value)) {
                    assertEquals(pattern, format.pattern(value), dtype + " " + value);
                }
            }
        }
    }
}
