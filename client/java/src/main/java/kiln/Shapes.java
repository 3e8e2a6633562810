package kiln;

import io.grpc.Status;
import java.util.Arrays;
import java.util.List;
import kiln.v1.ErrorCode;

/** Arithmetic of shapes, in which nothing overflows unnoticed. */
final class Shapes {
    private Shapes() {}

    /** How many elements; a failure for what is no shape, or for more than 2^63 of them. */
    static long count(long... shape) {
        long count = 1;
        boolean isEmpty = false;
        for (long size : shape) {
            if (size < 0) {
                throw Failures.badArgument(
                        "an array of shape %s: sizes are 0 or more", Arrays.toString(shape));
            }
            isEmpty |= size == 0;
        }
        if (isEmpty) {
            return 0;
        }
        try {
            for (long size : shape) {
                count = Math.multiplyExact(count, size);
            }
            return count;
        } catch (ArithmeticException overflow) {
            throw tooLarge(shape);
        }
    }

    static long bytes(DType dtype, long... shape) {
        try {
            return Math.multiplyExact(count(shape), dtype.bytes());
        } catch (ArithmeticException overflow) {
            throw tooLarge(shape);
        }
    }

    private static KilnException tooLarge(long[] shape) {
        String format = "an array of shape %s has more bytes than any address space holds";
        return Failures.coded(
                ErrorCode.SIZE_OVERFLOW,
                Status.Code.INVALID_ARGUMENT,
                format,
                Arrays.toString(shape));
    }

    static long[] of(List<Long> shape) {
        return shape.stream().mapToLong(Long::longValue).toArray();
    }

    static Iterable<Long> boxed(long[] shape) {
        return Arrays.stream(shape).boxed().toList();
    }

    /**
     * The shape of what two shapes give together, as numpy has it; null if they do not go together.
     */
    static long[] broadcast(long[] a, long[] b) {
        long[] longer = a.length < b.length ? b : a;
        long[] shorter = a.length < b.length ? a : b;
        long[] shape = longer.clone();
        for (int at = 0; at < shorter.length; at++) {
            int place = longer.length - shorter.length + at;
            if (shape[place] == 1) {
                shape[place] = shorter[at];
            } else if (shorter[at] != 1 && shorter[at] != shape[place]) {
                return null;
            }
        }
        return shape;
    }

    /** The shape with these sizes in the place of one axis. */
    static long[] replaced(long[] shape, int axis, long... sizes) {
        long[] made = new long[shape.length - 1 + sizes.length];
        System.arraycopy(shape, 0, made, 0, axis);
        System.arraycopy(sizes, 0, made, axis, sizes.length);
        System.arraycopy(shape, axis + 1, made, axis + sizes.length, shape.length - axis - 1);
        return made;
    }

    /** The shape with an axis of one element before another. */
    static long[] inserted(long[] shape, int axis) {
        long[] made = Arrays.copyOf(shape, shape.length + 1);
        System.arraycopy(shape, axis, made, axis + 1, shape.length - axis);
        made[axis] = 1;
        return made;
    }

    /** As many ones as there are axes, but for one. */
    static long[] along(int axes, int axis, long size) {
        long[] made = new long[axes];
        Arrays.fill(made, 1);
        made[axis] = size;
        return made;
    }
}
