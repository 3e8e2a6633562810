package kiln;

import io.grpc.MethodDescriptor;
import java.util.List;
import kiln.v1.CollectiveRequest;
import kiln.v1.CollectiveResponse;
import kiln.v1.CollectiveServiceGrpc;
import kiln.v1.Op;

/**
 * What several devices do with one tensor together: buffers stand in the order of their ranks, one
 * a device. proto/kiln/v1/collective_service.proto says what goes where. {@link
 * KilnClient#collective} does it.
 */
public final class Collective {
    /** What is done. */
    public enum Kind {
        /** Gives the root's tensor to all. */
        BROADCAST(CollectiveServiceGrpc.getBroadcastMethod(), true, false),
        /** Gives each its part of the root's tensor. */
        SCATTER(CollectiveServiceGrpc.getScatterMethod(), true, false),
        /** Puts everyone's part, one after the other, at the root. */
        GATHER(CollectiveServiceGrpc.getGatherMethod(), false, false),
        /** Combines all tensors at the root. */
        REDUCE(CollectiveServiceGrpc.getReduceMethod(), false, true),
        /** Puts everyone's part, one after the other, at all. */
        ALL_GATHER(CollectiveServiceGrpc.getAllGatherMethod(), false, false),
        /** Gives each its part of all tensors combined. */
        REDUCE_SCATTER(CollectiveServiceGrpc.getReduceScatterMethod(), true, true),
        /** Combines all tensors at all; outputs may be the inputs. */
        ALL_REDUCE(CollectiveServiceGrpc.getAllReduceMethod(), false, true);

        final MethodDescriptor<CollectiveRequest, CollectiveResponse> method;
        private final boolean hasWholeInputs; // else the outputs are of the whole tensor
        private final boolean reduces;

        Kind(
                MethodDescriptor<CollectiveRequest, CollectiveResponse> method,
                boolean hasWholeInputs,
                boolean reduces) {
            this.method = method;
            this.hasWholeInputs = hasWholeInputs;
            this.reduces = reduces;
        }
    }

    final Kind kind;
    private final List<DeviceBuffer> inputs;
    private final List<DeviceBuffer> outputs;
    private final Reduction reduction;
    private final long count;
    private final int root;
    private final boolean isDeterministic;

    private Collective(
            Kind kind,
            List<DeviceBuffer> inputs,
            List<DeviceBuffer> outputs,
            Reduction reduction,
            long count,
            int root,
            boolean isDeterministic) {
        this.kind = kind;
        this.inputs = inputs;
        this.outputs = outputs;
        this.reduction = reduction;
        this.count = count;
        this.root = root;
        this.isDeterministic = isDeterministic;
    }

    /** A collective, which sums if it combines, and whose root is the first. */
    public static Collective of(Kind kind, List<DeviceBuffer> inputs, List<DeviceBuffer> outputs) {
        return new Collective(
                kind, List.copyOf(inputs), List.copyOf(outputs), Reduction.SUM, 0, 0, false);
    }

    /** The same, combined otherwise. */
    public Collective with(Reduction how) {
        return new Collective(kind, inputs, outputs, how, count, root, isDeterministic);
    }

    /**
     * The same with so many elements of the whole tensor, which is cut into parts as flat as can
     * be; else those of the first output, or of the first input if the outputs are its parts.
     */
    public Collective withCount(long elements) {
        return new Collective(kind, inputs, outputs, reduction, elements, root, isDeterministic);
    }

    /** The same with another root. */
    public Collective withRoot(int rank) {
        return new Collective(kind, inputs, outputs, reduction, count, rank, isDeterministic);
    }

    /** The same, combined in the order of the ranks. */
    public Collective inOrder() {
        return new Collective(kind, inputs, outputs, reduction, count, root, true);
    }

    CollectiveRequest request() {
        if (inputs.isEmpty() || outputs.isEmpty()) {
            throw Failures.badArgument("a collective of no buffers");
        }
        DType dtype =
                inputs.get(0)
                        .dtype()
                        .orElseThrow(
                                () ->
                                        Failures.badArgument(
                                                "a collective of buffers without a type"));
        DeviceBuffer whole = kind.hasWholeInputs ? inputs.get(0) : outputs.get(0);
        CollectiveRequest.Builder request =
                CollectiveRequest.newBuilder()
                        .setDtype(dtype.wire)
                        .setCount(count == 0 ? whole.bytes() / dtype.bytes() : count)
                        .setOp(kind.reduces ? reduction.op : Op.OP_UNSPECIFIED)
                        .setRoot(root)
                        .setDeterministicOrder(isDeterministic);
        inputs.forEach(buffer -> request.addInput(buffer.ref(0)));
        outputs.forEach(buffer -> request.addOutput(buffer.ref(0)));
        return request.build();
    }
}
