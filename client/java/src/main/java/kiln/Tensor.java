package kiln;

import java.util.Arrays;
import java.util.stream.IntStream;

/** A value in a graph, with all that can be computed of it. Nothing is computed here. */
public final class Tensor extends Reducing {
    Tensor(Graph graph, int node, DType dtype, long[] shape) {
        super(graph, node, dtype, shape);
    }

    /**
     * Slides a weight (out channels, in channels, height, width) over images (batch, channels,
     * height, width).
     */
    public Tensor conv2d(Tensor weight) {
        return conv2d(weight, 1, 1, 0, 0);
    }

    /**
     * The same with windows so many rows and columns apart, over images with so many rows and
     * columns of zeros on each side.
     */
    public Tensor conv2d(
            Tensor weight, long rowStride, long columnStride, long rowPadding, long columnPadding) {
        graph.check(weight);
        if (shape.length != 4 || weight.shape.length != 4 || shape[1] != weight.shape[1]) {
            throw Failures.wrongShape(
                    "conv2d: images are (batch, channels, height, width) and a weight (out, channels, height, width), "
                            + "not %s and %s",
                    Arrays.toString(shape), Arrays.toString(weight.shape));
        }
        long out = weight.shape[0];
        long channels = weight.shape[1];
        long high = weight.shape[2];
        long wide = weight.shape[3];
        long[] whole = {0, 0};
        long[] rows = {rowPadding, rowPadding};
        long[] columns = {columnPadding, columnPadding};
        Tensor around = pad(0, whole, whole, rows, columns);
        Tensor x = around.windows(2, high, rowStride).windows(3, wide, columnStride);
        // patches (n, 1, oh, ow, c, kh, kw) · weight (1, o, 1, 1, c, kh, kw), summed over the last
        // three.
        Tensor turned = x.permute(0, 2, 3, 1, 4, 5);
        Tensor patches =
                turned.reshape(x.shape[0], 1, x.shape[2], x.shape[3], channels, high, wide);
        return patches.mul(weight.reshape(1, out, 1, 1, channels, high, wide)).sum(-3, -2, -1);
    }

    /** The greatest of each window of images, which lie side by side. */
    public Tensor maxPool2d(long high, long wide) {
        if (shape.length != 4) {
            String text = "maxPool2d: images are (batch, channels, height, width), not %s";
            throw Failures.wrongShape(text, Arrays.toString(shape));
        }
        return windows(2, high, high).windows(3, wide, wide).max(-2, -1);
    }

    /**
     * Makes of one axis the windows that fit, and puts the elements of each into a new last axis.
     *
     * <p>The axis is laid end to end many times and the tape cut into rows one longer than the
     * axis: then each row begins one element further along. Row k, column c holds element k + c,
     * which for every window that fits is inside the axis. The windows are then every stride-th
     * column.
     */
    private Tensor windows(int axis, long size, long stride) {
        long whole = shape[axis];
        if (size < 1 || size > whole || stride < 1) {
            String text = "a window of %d elements, %d apart, on axis %d of %s";
            throw Failures.wrongShape(text, size, stride, axis, Arrays.toString(shape));
        }
        long count = (whole - size) / stride + 1;
        // Elements that are part of no window, so that whole strides are cut.
        long more = Math.max(0, exactly(count, stride) - whole);
        long[][] widths = new long[shape.length][2];
        widths[axis][1] = more;
        Tensor x = pad(0, widths);
        long length = whole + more;
        long row = length + 1;
        long times = (exactly(size, row) + length - 1) / length;

        Tensor tape =
                x.reshape(Shapes.replaced(shape, axis, 1, length))
                        .broadcast(Shapes.replaced(shape, axis, times, length))
                        .reshape(Shapes.replaced(shape, axis, exactly(times, length)));
        Tensor rows = tape.keep(axis, size * row).reshape(Shapes.replaced(shape, axis, size, row));
        Tensor strides =
                rows.keep(axis + 1, count * stride)
                        .reshape(Shapes.replaced(shape, axis, size, count, stride));
        Tensor made = strides.keep(axis + 2, 1).reshape(Shapes.replaced(shape, axis, size, count));
        IntStream others = IntStream.range(0, made.shape.length).filter(at -> at != axis);
        return made.permute(IntStream.concat(others, IntStream.of(axis)).toArray());
    }

    private static long exactly(long a, long b) {
        return Shapes.count(a, b);
    }
}
