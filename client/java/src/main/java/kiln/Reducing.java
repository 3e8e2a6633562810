package kiln;

import java.util.Arrays;
import java.util.stream.IntStream;
import kiln.v1.Op;
import kiln.v1.ReduceArg;

/** What combines elements along axes. Without axes it is along all of them. */
abstract class Reducing extends Elementwise {
    Reducing(Graph graph, int node, DType dtype, long[] shape) {
        super(graph, node, dtype, shape);
    }

    private boolean[] along(int[] axes) {
        boolean[] along = new boolean[shape.length];
        Arrays.fill(along, axes.length == 0);
        for (int axis : axes) {
            along[axis(axis)] = true;
        }
        return along;
    }

    private Tensor reduced(Reduction how, boolean[] along) {
        ReduceArg.Builder arg = ReduceArg.newBuilder().setOp(how.op);
        long[] kept = shape.clone();
        for (int at = 0; at < kept.length; at++) {
            if (along[at]) {
                arg.addAxis(at);
                kept[at] = 1;
            }
        }
        return arg.getAxisCount() == 0
                ? self()
                : graph.tensor(dtype, kept, op(Op.REDUCE, node).setReduce(arg));
    }

    /**
     * Keeps the axes, with size 1. Floats of less than 32 bits are added and multiplied in 32, and
     * rounded once.
     */
    private Tensor kept(Reduction how, int... axes) {
        boolean[] along = along(axes);
        return how == Reduction.MAXIMUM
                ? reduced(how, along)
                : wide(x -> ((Reducing) x).reduced(how, along));
    }

    /** Combines along axes, which go away. */
    public Tensor reduce(Reduction how, int... axes) {
        boolean[] along = along(axes);
        long[] left =
                IntStream.range(0, shape.length)
                        .filter(at -> !along[at])
                        .mapToLong(at -> shape[at])
                        .toArray();
        return kept(how, axes).reshape(left);
    }

    /** The sum along axes, in the same type. */
    public Tensor sum(int... axes) {
        return reduce(Reduction.SUM, axes);
    }

    /** The greatest along axes. */
    public Tensor max(int... axes) {
        return reduce(Reduction.MAXIMUM, axes);
    }

    /** The mean along axes. */
    public Tensor mean(int... axes) {
        return wide(
                x -> {
                    Tensor total = x.sum(axes);
                    return total.mul((double) Shapes.count(total.shape) / Shapes.count(x.shape));
                });
    }

    /**
     * The place (int32) of the greatest along an axis, the first of several; of the first NaN if
     * there is one.
     */
    public Tensor argMax(int axis) {
        // Counted from the end, the first place is the greatest.
        int at = axis(axis);
        long size = shape[at];
        Tensor ascending = graph.arange(DType.INT32, size);
        Tensor fromEnd = ascending.neg().add(size).reshape(Shapes.along(shape.length, at, size));
        Tensor places = equal(kept(Reduction.MAXIMUM, at)).where(fromEnd, 0);
        if (dtype.isFloat()) { // what is not even itself is NaN, and no greatest is equal to it
            places = equal(self()).where(places, fromEnd);
        }
        return places.max(at).neg().add(size);
    }

    /** The matrix product of the last two axes; those before broadcast. */
    public Tensor matmul(Tensor other) {
        graph.check(other);
        int n = shape.length;
        int m = other.shape.length;
        if (n < 2 || m < 2 || shape[n - 1] != other.shape[m - 2]) {
            throw Failures.wrongShape(
                    "matmul: %s and %s: the last axis of one is not the last but one of the other",
                    Arrays.toString(shape), Arrays.toString(other.shape));
        }
        Tensor rows = reshape(Shapes.inserted(shape, n - 1));
        Tensor turned = other.transpose();
        Tensor columns = turned.reshape(Shapes.inserted(turned.shape, m - 2));
        if (dtype.isNarrow() && dtype == other.dtype) {
            return rows.cast(DType.FLOAT32).mul(columns.cast(DType.FLOAT32)).sum(-1).cast(dtype);
        }
        return rows.mul(columns).sum(-1);
    }

    /** exp(x) / sum(exp(x)) along an axis, safe for large x. */
    public Tensor softmax(int axis) {
        return wide(
                x -> {
                    Reducing powers = x.sub(((Reducing) x).kept(Reduction.MAXIMUM, axis)).exp();
                    return powers.mul(powers.kept(Reduction.SUM, axis).reciprocal());
                });
    }

    /** The logarithm of softmax. */
    public Tensor logSoftmax(int axis) {
        return wide(
                x -> {
                    Tensor shifted = x.sub(((Reducing) x).kept(Reduction.MAXIMUM, axis));
                    return shifted.sub(((Reducing) shifted.exp()).kept(Reduction.SUM, axis).log());
                });
    }
}
