package kiln;

import java.util.Arrays;
import java.util.stream.IntStream;
import kiln.v1.AxesArg;
import kiln.v1.FlipArg;
import kiln.v1.Op;
import kiln.v1.PadArg;
import kiln.v1.UOp;

/** What moves elements and computes none. */
abstract class Movement extends Value {
    Movement(Graph graph, int node, DType dtype, long[] shape) {
        super(graph, node, dtype, shape);
    }

    private Tensor moved(UOp.Builder op, long[] shape, long[]... shapes) {
        for (long[] one : shapes) {
            op.addSrc(graph.shapeNode(one));
        }
        return graph.tensor(dtype, shape, op);
    }

    /** The elements, row-major, in another shape; one size may be -1. */
    public Tensor reshape(long... sizes) {
        long[] wanted = sizes.clone();
        int open =
                IntStream.range(0, sizes.length)
                        .filter(at -> sizes[at] == -1)
                        .findFirst()
                        .orElse(-1);
        if (open >= 0) {
            wanted[open] = 1;
        }
        if (Arrays.stream(wanted).allMatch(size -> size >= 0)) {
            long rest = Shapes.count(wanted);
            if (open >= 0) {
                wanted[open] = rest == 0 ? 0 : Shapes.count(shape) / rest;
            }
            if (Shapes.count(wanted) == Shapes.count(shape)) {
                return Arrays.equals(wanted, shape)
                        ? self()
                        : moved(op(Op.RESHAPE, node), wanted, wanted);
            }
        }
        throw Failures.wrongShape(
                "reshape: %s does not become %s", Arrays.toString(shape), Arrays.toString(sizes));
    }

    /** Repeats axes of size 1, and adds new ones in front. */
    public Tensor broadcast(long... sizes) {
        if (Arrays.equals(sizes, shape)) {
            return self();
        }
        Shapes.bytes(dtype, sizes);
        if (!Arrays.equals(Shapes.broadcast(shape, sizes), sizes)) {
            String text = "broadcast: %s to %s: only axes of size 1 stretch";
            throw Failures.wrongShape(text, Arrays.toString(shape), Arrays.toString(sizes));
        }
        long[] padded = new long[sizes.length];
        Arrays.fill(padded, 1);
        System.arraycopy(shape, 0, padded, sizes.length - shape.length, shape.length);
        Movement all = reshape(padded);
        return Arrays.equals(sizes, padded)
                ? all.self()
                : all.moved(op(Op.EXPAND, all.node), sizes, sizes);
    }

    /** The axes in another order. */
    public Tensor permute(int... order) {
        int[] sorted = order.clone();
        Arrays.sort(sorted);
        int[] all = IntStream.range(0, shape.length).toArray();
        if (!Arrays.equals(sorted, all)) {
            throw Failures.badArgument(
                    "permute: %s is no order of %d axes", Arrays.toString(order), shape.length);
        }
        if (Arrays.equals(order, all)) {
            return self();
        }
        long[] made = Arrays.stream(order).mapToLong(axis -> shape[axis]).toArray();
        AxesArg.Builder axes = AxesArg.newBuilder();
        Arrays.stream(order).forEach(axes::addAxis);
        return graph.tensor(dtype, made, op(Op.PERMUTE, node).setAxes(axes));
    }

    /** The last two axes exchanged. */
    public Tensor transpose() {
        int last = shape.length - 1;
        if (last < 1) {
            throw Failures.wrongShape(
                    "transpose of %s: two axes are exchanged", Arrays.toString(shape));
        }
        int[] order = IntStream.range(0, shape.length).toArray();
        order[last - 1] = last;
        order[last] = last - 1;
        return permute(order);
    }

    /** The elements the other way round along an axis. */
    public Tensor flip(int axis) {
        int turned = axis(axis);
        FlipArg.Builder arg = FlipArg.newBuilder();
        for (int at = 0; at < shape.length; at++) {
            arg.addAxis(at == turned);
        }
        return graph.tensor(dtype, shape, op(Op.FLIP, node).setFlip(arg));
    }

    /** Elements of a number around: {before, after} for each axis. */
    public Tensor pad(Number value, long[]... widths) {
        long[] before = new long[shape.length];
        long[] made = shape.clone();
        checkPairs("pad", widths);
        for (int at = 0; at < made.length; at++) {
            if (widths[at][0] < 0 || widths[at][1] < 0) {
                throw pairs("pad", widths);
            }
            before[at] = widths[at][0];
            try {
                made[at] = Math.addExact(Math.addExact(made[at], widths[at][0]), widths[at][1]);
            } catch (ArithmeticException overflow) {
                throw pairs("pad", widths);
            }
        }
        Shapes.bytes(dtype, made);
        if (Arrays.equals(made, shape)) {
            return self();
        }
        PadArg.Builder fill = PadArg.newBuilder().setFill(graph.constant(dtype, value));
        return moved(op(Op.PAD, node).setPad(fill), made, before, made);
    }

    /** The box from begin to end of each axis: {begin, end}. */
    public Tensor shrink(long[]... ranges) {
        long[] begins = new long[shape.length];
        long[] made = new long[shape.length];
        checkPairs("shrink", ranges);
        for (int at = 0; at < made.length; at++) {
            if (ranges[at][0] < 0 || ranges[at][1] < ranges[at][0] || ranges[at][1] > shape[at]) {
                throw pairs("shrink", ranges);
            }
            begins[at] = ranges[at][0];
            made[at] = ranges[at][1] - ranges[at][0];
        }
        return Arrays.equals(made, shape) ? self() : moved(op(Op.SHRINK, node), made, begins, made);
    }

    private void checkPairs(String function, long[][] pairs) {
        if (pairs.length != shape.length
                || !Arrays.stream(pairs).allMatch(pair -> pair.length == 2)) {
            throw pairs(function, pairs);
        }
    }

    private KilnException pairs(String function, long[][] pairs) {
        String text =
                "%s: %s of a tensor of %s: one pair an axis, of 0 or more, and of a box inside of it";
        return Failures.wrongShape(
                text, function, Arrays.deepToString(pairs), Arrays.toString(shape));
    }

    /** The first elements of one axis. */
    Tensor keep(int axis, long most) {
        long[][] ranges = new long[shape.length][];
        for (int at = 0; at < shape.length; at++) {
            ranges[at] = new long[] {0, at == axis ? most : shape[at]};
        }
        return shrink(ranges);
    }
}
