package kiln;

import java.util.Arrays;
import java.util.function.UnaryOperator;
import kiln.v1.Op;

/**
 * What computes each element by itself. The other operand is a tensor of the same graph, or a
 * number, which takes the type of the tensor that it meets. Tensors that meet have one type ({@link
 * #cast} makes it so), and shapes that broadcast as numpy's do.
 */
abstract class Elementwise extends Movement {
    private static final double LOG2_E = 1.4426950408889634;
    private static final double LN_2 = 0.6931471805599453;

    Elementwise(Graph graph, int node, DType dtype, long[] shape) {
        super(graph, node, dtype, shape);
    }

    private Tensor binary(Op op, Tensor other, DType made) {
        graph.check(other);
        if (other.dtype != dtype) {
            throw Failures.wrongDType("%s and %s: cast one", dtype, other.dtype);
        }
        long[] all = Shapes.broadcast(shape, other.shape);
        if (all == null) {
            String text = "%s and %s do not broadcast";
            throw Failures.wrongShape(text, Arrays.toString(shape), Arrays.toString(other.shape));
        }
        return graph.tensor(made, all, op(op, broadcast(all).node, other.broadcast(all).node));
    }

    private Tensor number(Number value) {
        return graph.scalar(dtype, value);
    }

    /** The sum. */
    public Tensor add(Tensor other) {
        return binary(Op.ADD, other, dtype);
    }

    /** The sum. */
    public Tensor add(Number value) {
        return add(number(value));
    }

    /** The difference. */
    public Tensor sub(Tensor other) {
        return binary(Op.SUB, other, dtype);
    }

    /** The difference. */
    public Tensor sub(Number value) {
        return sub(number(value));
    }

    /** The product of elements. */
    public Tensor mul(Tensor other) {
        return binary(Op.MUL, other, dtype);
    }

    /** The product of elements. */
    public Tensor mul(Number value) {
        return mul(number(value));
    }

    /** Of floats the quotient, of integers the greatest that is not above it. */
    public Tensor div(Tensor other) {
        return binary(dtype.isFloat() ? Op.FDIV : Op.FLOORDIV, other, dtype);
    }

    /** Of floats the quotient, of integers the greatest that is not above it. */
    public Tensor div(Number value) {
        return div(number(value));
    }

    /** The greater of both; NaN if one of them is. */
    public Tensor maximum(Tensor other) {
        return binary(Op.MAX, other, dtype);
    }

    /** The greater of both; NaN if one of them is. */
    public Tensor maximum(Number value) {
        return maximum(number(value));
    }

    /** Whether this is below the other. */
    public Tensor less(Tensor other) {
        return binary(Op.CMPLT, other, DType.BOOL);
    }

    /** Whether this is below the other. */
    public Tensor less(Number value) {
        return less(number(value));
    }

    /** Whether this is above the other. */
    public Tensor greater(Tensor other) {
        return binary(Op.CMPGT, other, DType.BOOL);
    }

    /** Whether this is above the other. */
    public Tensor greater(Number value) {
        return greater(number(value));
    }

    /** Whether both are equal. */
    public Tensor equal(Tensor other) {
        return binary(Op.CMPEQ, other, DType.BOOL);
    }

    /** Whether both are equal. */
    public Tensor equal(Number value) {
        return equal(number(value));
    }

    /** One where this tensor of bools is true, and the other elsewhere. */
    public Tensor where(Tensor then, Tensor otherwise) {
        graph.check(then);
        graph.check(otherwise);
        if (dtype != DType.BOOL) {
            throw Failures.wrongDType("where: the condition is %s, not bool", dtype);
        }
        if (then.dtype != otherwise.dtype) {
            throw Failures.wrongDType("where: %s and %s: cast one", then.dtype, otherwise.dtype);
        }
        long[] both = Shapes.broadcast(then.shape, otherwise.shape);
        long[] all = both == null ? null : Shapes.broadcast(shape, both);
        if (all == null) {
            throw Failures.wrongShape(
                    "where: %s, %s and %s do not broadcast", this, then, otherwise);
        }
        int[] sources = {
            broadcast(all).node, then.broadcast(all).node, otherwise.broadcast(all).node
        };
        return graph.tensor(then.dtype, all, op(Op.WHERE, sources));
    }

    /** A tensor where this tensor of bools is true, and a number elsewhere. */
    public Tensor where(Tensor then, Number otherwise) {
        return where(then, graph.scalar(then.dtype, otherwise));
    }

    /** A number where this tensor of bools is true, and a tensor elsewhere. */
    public Tensor where(Number then, Tensor otherwise) {
        return where(graph.scalar(otherwise.dtype, then), otherwise);
    }

    /** The elements as another type. */
    public Tensor cast(DType other) {
        return other == dtype
                ? self()
                : graph.tensor(other, shape, op(Op.CAST, node).setCastTo(other.wire));
    }

    private Tensor ofFloats(Op op) {
        if (!dtype.isFloat()) {
            throw Failures.wrongDType("a function of floats, of %s: cast it", dtype);
        }
        return same(op);
    }

    /** Computes floats of less than 32 bits in 32, and rounds once. */
    Tensor wide(UnaryOperator<Tensor> of) {
        return dtype.isNarrow() ? of.apply(cast(DType.FLOAT32)).cast(dtype) : of.apply(self());
    }

    /** The element with the other sign. */
    public Tensor neg() {
        return same(Op.NEG);
    }

    /** One divided by the element. */
    public Tensor reciprocal() {
        return ofFloats(Op.RECIPROCAL);
    }

    /** The square root. */
    public Tensor sqrt() {
        return ofFloats(Op.SQRT);
    }

    /** The sine. */
    public Tensor sin() {
        return ofFloats(Op.SIN);
    }

    /** Euler's number to this power. */
    public Tensor exp() {
        if (!dtype.isFloat()) {
            throw Failures.wrongDType("exp of %s: cast it", dtype);
        }
        return wide(x -> ((Elementwise) x.mul(LOG2_E)).ofFloats(Op.EXP2));
    }

    /** The natural logarithm. */
    public Tensor log() {
        return wide(x -> ((Elementwise) x).ofFloats(Op.LOG2).mul(LN_2));
    }

    /** The element where it is above 0, else 0. */
    public Tensor relu() {
        return maximum(0);
    }

    /** The same, through which no gradient flows. */
    public Tensor detach() {
        return same(Op.DETACH);
    }
}
