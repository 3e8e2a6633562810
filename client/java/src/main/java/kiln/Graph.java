package kiln;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import kiln.v1.AddrSpace;
import kiln.v1.BufferArg;
import kiln.v1.ConstArg;
import kiln.v1.ErrorCode;
import kiln.v1.GradientResponse;
import kiln.v1.Op;
import kiln.v1.Signature;
import kiln.v1.UOp;

/**
 * A graph under construction, of one thread. Tensors are its nodes; nothing is computed here, and
 * equal nodes are one. A mistake throws where it is made.
 */
public final class Graph {
    private record Parameter(String name, DType dtype, long[] shape) {
        boolean takes(DType other, long[] otherShape) {
            return dtype == other && Arrays.equals(shape, otherShape);
        }
    }

    /** Ops through which a tensor is a view of a parameter. */
    private static final Set<Op> VIEWS =
            Set.of(Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.BITCAST);

    private final List<UOp> nodes = new ArrayList<>();
    private final Map<ByteString, Integer> numbers = new HashMap<>();
    private final TreeMap<Integer, Parameter> slots = new TreeMap<>();
    private final List<Integer> outputs = new ArrayList<>();
    private final List<Tensor> results =
            new ArrayList<>(); // of the outputs, those that are no updates

    /** Begins a graph. */
    public Graph() {}

    /** An argument of the program, in the next free slot. */
    public Tensor param(String name, DType dtype, long... shape) {
        return paramAt(slots.isEmpty() ? 0 : slots.lastKey() + 1, name, dtype, shape);
    }

    /** An argument of the program, in a slot of the caller's choice. */
    public Tensor paramAt(int slot, String name, DType dtype, long... shape) {
        Shapes.bytes(dtype, shape);
        if (slot < 0) {
            throw Failures.badArgument("param: %d is no slot: it is a number of 0 or more", slot);
        }
        Parameter held = slots.get(slot);
        if (held != null && !held.takes(dtype, shape)) {
            String text = "param: slot %d is %s %s already, not %s %s";
            throw Failures.wrongShape(
                    text,
                    slot,
                    held.dtype,
                    Arrays.toString(held.shape),
                    dtype,
                    Arrays.toString(shape));
        }
        slots.forEach(
                (other, row) -> {
                    if (!name.isEmpty() && row.name.equals(name) && other != slot) {
                        throw Failures.badArgument(
                                "param: slot %d is named \"%s\" already", other, name);
                    }
                });
        slots.put(slot, new Parameter(name, dtype, shape.clone()));
        BufferArg.Builder arg =
                BufferArg.newBuilder().setSlot(slot).setDtype(dtype.wire).setName(name);
        return tensor(dtype, shape, Value.op(Op.PARAM, shapeNode(shape)).setBuffer(arg));
    }

    /** A number as a tensor of no axes. */
    public Tensor scalar(DType dtype, Number value) {
        return tensor(dtype, new long[0], Value.op(Op.CONST).setConstant(constant(dtype, value)));
    }

    /** A bool as a tensor of no axes. */
    public Tensor scalar(boolean value) {
        return scalar(DType.BOOL, value ? 1 : 0);
    }

    /** An array of one number. */
    public Tensor full(DType dtype, Number value, long... shape) {
        return scalar(dtype, value).broadcast(shape);
    }

    /** 0, 1, …, stop - 1. */
    public Tensor arange(DType dtype, long stop) {
        if (stop < 0 || stop > Integer.MAX_VALUE) {
            throw Failures.badArgument("arange of %d numbers", stop);
        }
        // A number is the sum of its binary digits, and each digit is an axis of two.
        Tensor total = full(dtype, 0, 1);
        for (long count = 1; count < stop; count *= 2) {
            UOp.Builder digits =
                    Value.op(Op.STACK, scalar(dtype, 0).node, scalar(dtype, count).node);
            Tensor digit = tensor(dtype, new long[] {2}, digits);
            total = digit.reshape(2, 1).add(total.reshape(1, count)).reshape(2 * count);
        }
        return total.shrink(new long[] {0, stop});
    }

    /** Makes tensors results of the program, in the order of all calls. */
    public void output(Tensor... tensors) {
        for (Tensor tensor : tensors) {
            check(tensor);
        }
        for (Tensor tensor : tensors) {
            outputs.add(tensor.node);
            results.add(tensor);
        }
    }

    /**
     * Stores a value to a parameter, or to a view of one, when the program has run. Others see what
     * was before.
     */
    public void update(Tensor target, Tensor value) {
        check(target);
        check(value);
        UOp base = nodes.get(target.node);
        while (VIEWS.contains(base.getOp())) {
            base = nodes.get(base.getSrc(0));
        }
        if (base.getOp() != Op.PARAM) {
            throw Failures.badArgument(
                    "update: only a parameter or a view of one can be; this is computed");
        }
        if (value.dtype != target.dtype) {
            String text = "update: the parameter is %s, the value %s: cast it";
            throw Failures.wrongDType(text, target.dtype, value.dtype);
        }
        outputs.add(number(Value.op(Op.STORE, target.node, value.broadcast(target.shape).node)));
    }

    /**
     * Calls another graph as a function: argument k stands in the place of its parameter in slot k.
     * What it gives are the other graph's outputs. A large body that is called twice is compiled
     * once.
     */
    public List<Tensor> call(Graph body, Tensor... given) {
        kiln.v1.Graph built = body.build();
        body.slots.forEach(
                (slot, row) -> {
                    if (slot >= given.length) {
                        String text = "call: no argument for slot %d";
                        throw Failures.coded(
                                ErrorCode.MISSING_ARGUMENT,
                                Status.Code.INVALID_ARGUMENT,
                                text,
                                slot);
                    }
                    check(given[slot]);
                    if (!row.takes(given[slot].dtype, given[slot].shape)) {
                        String text = "call: parameter \"%s\" is %s %s, the argument %s";
                        throw Failures.wrongShape(
                                text, row.name, row.dtype, Arrays.toString(row.shape), given[slot]);
                    }
                });
        for (Tensor more : given) {
            check(more);
        }
        if (body.results.size() != body.outputs.size()) {
            throw Failures.badArgument("call: the body updates a parameter");
        }
        int[] copied = copied(built.getNodesList());
        UOp.Builder function = Value.op(Op.FUNCTION, copied[copied.length - 1]);
        for (Tensor argument : given) {
            function.addSrc(argument.node);
        }
        int call = number(function);
        List<Tensor> made = new ArrayList<>();
        for (Tensor result : body.results) {
            made.add(
                    tensor(
                            result.dtype,
                            result.shape,
                            Value.op(Op.GETTUPLE, call).setIndex(made.size())));
        }
        return made;
    }

    /**
     * Puts a gradient's graph into this one, and gives its results in order. Its parameters are
     * those of equal slots.
     */
    public List<Tensor> append(GradientResponse gradient) {
        List<UOp> given = gradient.getGraph().getNodesList();
        UOp root = given.isEmpty() ? UOp.getDefaultInstance() : given.get(given.size() - 1);
        if (given.isEmpty() || root.getSrcCount() != gradient.getResultsCount()) {
            throw Failures.coded(
                    ErrorCode.BAD_ROOT, Status.Code.INVALID_ARGUMENT, "append: no gradient");
        }
        for (UOp uop : given) {
            BufferArg arg = uop.getBuffer();
            boolean isParameter = uop.getOp() == Op.PARAM && arg.getAddrspace() != AddrSpace.ALU;
            if (isParameter && (!uop.hasBuffer() || !slots.containsKey(arg.getSlot()))) {
                String text = "append: there is no parameter in slot %d: make it with paramAt";
                throw Failures.coded(
                        ErrorCode.UNKNOWN_ARGUMENT,
                        Status.Code.INVALID_ARGUMENT,
                        text,
                        arg.getSlot());
            }
        }
        int[] copied = copied(given.subList(0, given.size() - 1));
        List<Tensor> made = new ArrayList<>();
        for (Signature.Result row : gradient.getResultsList()) {
            int source = root.getSrc(made.size());
            DType dtype = DType.of(row.getDtype());
            if (source < 0 || source >= copied.length || dtype == null) {
                String text = "append: result %d is no earlier node, or has no type";
                throw Failures.coded(
                        ErrorCode.GRAPH_CYCLE, Status.Code.INVALID_ARGUMENT, text, made.size());
            }
            long[] shape = Shapes.of(row.getShapeList());
            Shapes.bytes(dtype, shape);
            made.add(new Tensor(this, copied[source], dtype, shape));
        }
        return made;
    }

    /** The graph as a message: the nodes that outputs and updates need, the root last. */
    public kiln.v1.Graph build() {
        if (outputs.isEmpty()) {
            throw Failures.coded(
                    ErrorCode.BAD_ROOT,
                    Status.Code.INVALID_ARGUMENT,
                    "the graph has neither an output nor an update");
        }
        boolean[] needed = new boolean[nodes.size()];
        outputs.forEach(node -> needed[node] = true);
        for (int node = needed.length - 1; node >= 0; node--) {
            if (needed[node]) {
                nodes.get(node).getSrcList().forEach(source -> needed[source] = true);
            }
        }
        kiln.v1.Graph.Builder built = kiln.v1.Graph.newBuilder();
        int[] placed = new int[needed.length];
        for (int node = 0; node < needed.length; node++) {
            if (needed[node]) {
                placed[node] = built.getNodesCount();
                built.addNodes(renumbered(nodes.get(node), placed));
            }
        }
        UOp.Builder root = Value.op(Op.TUPLE);
        outputs.forEach(node -> root.addSrc(placed[node]));
        return built.addNodes(root).build();
    }

    private static UOp.Builder renumbered(UOp uop, int[] places) {
        UOp.Builder made = uop.toBuilder().clearSrc();
        uop.getSrcList().forEach(source -> made.addSrc(places[source]));
        return made;
    }

    /** How many results the program will have; updates are none. */
    int resultCount() {
        return results.size();
    }

    void check(Tensor tensor) {
        if (tensor.graph != this) {
            throw Failures.badArgument("a tensor of another graph");
        }
    }

    Tensor tensor(DType dtype, long[] shape, UOp.Builder uop) {
        Shapes.bytes(dtype, shape);
        return new Tensor(this, number(uop), dtype, shape.clone());
    }

    /** A shape as a source of movement ops. */
    int shapeNode(long[] shape) {
        UOp.Builder stack = Value.op(Op.STACK);
        for (long size : shape) {
            ConstArg.Builder value =
                    ConstArg.newBuilder().setDtype(kiln.v1.DType.WEAKINT).setI(size);
            stack.addSrc(number(Value.op(Op.CONST).setConstant(value)));
        }
        return number(stack);
    }

    /** A number as the message has it; a failure if the type does not hold it. */
    ConstArg constant(DType dtype, Number value) {
        ConstArg.Builder made = ConstArg.newBuilder().setDtype(dtype.wire);
        if (value instanceof Double || value instanceof Float) {
            made.setF(value.doubleValue());
        } else if (value instanceof Long
                || value instanceof Integer
                || value instanceof Short
                || value instanceof Byte) {
            made.setI(value.longValue());
        } else {
            throw Failures.badArgument(
                    "%s is neither a long, a double nor one of the smaller types", value);
        }
        try {
            CanonicalConstant.write(new CanonicalBytes(), made.build());
        } catch (KilnException unfit) {
            throw Failures.badArgument("%s does not hold %s", dtype, value);
        }
        return made.build();
    }

    /** Puts nodes into this graph, and gives their indices here. */
    private int[] copied(List<UOp> given) {
        int[] places = new int[given.size()];
        for (int at = 0; at < places.length; at++) {
            for (int source : given.get(at).getSrcList()) {
                if (source < 0 || source >= at) {
                    String text = "source %d of node %d is not earlier";
                    throw Failures.coded(
                            ErrorCode.GRAPH_CYCLE, Status.Code.INVALID_ARGUMENT, text, source, at);
                }
            }
            places[at] = number(renumbered(given.get(at), places));
        }
        return places;
    }

    /** The index of a node, which is that of an equal one if there is any. */
    private int number(UOp.Builder uop) {
        UOp made = uop.build();
        Integer found = numbers.putIfAbsent(made.toByteString(), nodes.size());
        if (found == null) {
            nodes.add(made);
            return nodes.size() - 1;
        }
        return found;
    }
}
