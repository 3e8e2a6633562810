package kiln;

import java.util.Arrays;
import kiln.v1.Op;
import kiln.v1.UOp;

/**
 * A node of a graph, with its type and shape. What can be made of it stands in the classes that
 * follow: Movement, then Elementwise, then Reducing; {@link Tensor} is all of them.
 */
abstract class Value {
    final Graph graph;
    final int node;
    final DType dtype;
    final long[] shape;

    Value(Graph graph, int node, DType dtype, long[] shape) {
        this.graph = graph;
        this.node = node;
        this.dtype = dtype;
        this.shape = shape;
    }

    /** The type of its elements. */
    public DType dtype() {
        return dtype;
    }

    /** The size along each axis. */
    public long[] shape() {
        return shape.clone();
    }

    @Override
    public String toString() {
        return "%s %s".formatted(dtype, Arrays.toString(shape));
    }

    /** Itself: every Value is one. */
    Tensor self() {
        return (Tensor) this;
    }

    /** An op of this node, which may have further sources. */
    static UOp.Builder op(Op op, int... sources) {
        UOp.Builder made = UOp.newBuilder().setOp(op);
        for (int source : sources) {
            made.addSrc(source);
        }
        return made;
    }

    Tensor same(Op op) {
        return graph.tensor(dtype, shape, op(op, node));
    }

    /** An axis counts from the end if it is negative. */
    int axis(int axis) {
        if (axis < -shape.length || axis >= shape.length) {
            throw Failures.wrongShape("there is no axis %d in a shape of %d", axis, shape.length);
        }
        return axis < 0 ? axis + shape.length : axis;
    }
}
