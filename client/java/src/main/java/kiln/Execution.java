package kiln;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import kiln.v1.BufferDescription;
import kiln.v1.BufferServiceGrpc;
import kiln.v1.ErrorCode;
import kiln.v1.ExecuteRequest;
import kiln.v1.ExecuteResponse;
import kiln.v1.FreeRequest;
import kiln.v1.KernelServiceGrpc;
import kiln.v1.ResultMode;
import kiln.v1.ResultValue;
import kiln.v1.Signature;

/**
 * One run of a program: what is large goes there before and comes back after it, each by itself.
 */
final class Execution {
    /** Arrays of more bytes travel in chunks of their own, not in the message of a call. */
    private static final int INLINE = 4 << 20;

    private final Program program;
    private final KilnClient client;
    private final Operation operation;
    private final List<DeviceBuffer> made =
            new ArrayList<>(); // of results that are no argument's memory

    Execution(Program program, Operation operation) {
        this.program = program;
        this.client = program.client;
        this.operation = operation;
    }

    CompletableFuture<List<NdArray>> run(List<Argument> arguments) {
        SortedMap<Integer, Argument> bound = program.bind(arguments);
        List<DeviceBuffer> staged = new ArrayList<>();
        return stage(bound, staged)
                .thenCompose(all -> execute(bound, isSmall()))
                .thenCompose(
                        rows ->
                                inTurn(rows, row -> fetched(bound, row))
                                        .whenComplete((arrays, failed) -> giveBack(bound, rows)))
                .whenComplete(
                        (arrays, failed) ->
                                staged.forEach(buffer -> buffer.free(operation.regardless())));
    }

    CompletableFuture<List<DeviceBuffer>> keep(List<Argument> arguments) {
        SortedMap<Integer, Argument> bound = program.bind(arguments);
        List<DeviceBuffer> uploaded = new ArrayList<>();
        return execute(bound, false)
                .thenCompose(
                        rows ->
                                inTurn(rows, row -> kept(bound, row, uploaded))
                                        .whenComplete(
                                                (buffers, failed) -> {
                                                    if (failed != null) {
                                                        uploaded.forEach(
                                                                buffer ->
                                                                        buffer.free(
                                                                                operation
                                                                                        .regardless()));
                                                        giveBack(bound, rows);
                                                    }
                                                }));
    }

    /** Each made of its row when the one before it was. */
    private static <R, T> CompletableFuture<List<T>> inTurn(
            List<R> rows, Function<R, CompletableFuture<T>> make) {
        CompletableFuture<List<T>> made = CompletableFuture.completedFuture(new ArrayList<>());
        for (R row : rows) {
            made =
                    made.thenCompose(
                            list ->
                                    make.apply(row)
                                            .thenApply(
                                                    one -> {
                                                        list.add(one);
                                                        return list;
                                                    }));
        }
        return made;
    }

    private CompletableFuture<List<DeviceBuffer>> stage(
            SortedMap<Integer, Argument> bound, List<DeviceBuffer> staged) {
        List<Map.Entry<Integer, Argument>> large =
                bound.entrySet().stream()
                        .filter(
                                row ->
                                        row.getValue() instanceof NdArray array
                                                && array.memory().limit() > INLINE)
                        .toList();
        return inTurn(
                large,
                row ->
                        client.upload(operation, (NdArray) row.getValue(), client.device())
                                .thenApply(
                                        buffer -> {
                                            staged.add(buffer);
                                            row.setValue(buffer);
                                            return buffer;
                                        }));
    }

    private boolean isSmall() {
        long total = 0;
        for (Signature.Result row : program.signature().getResultsList()) {
            long bytes = row.getBytes();
            total =
                    bytes < 0 || bytes > INLINE
                            ? INLINE + 1L
                            : Math.min(INLINE + 1L, total + bytes);
            if (total > INLINE) {
                return false;
            }
        }
        return true;
    }

    /** Sends the graph if, and only if, the server has forgotten it. */
    private CompletableFuture<List<ResultValue>> execute(
            Map<Integer, Argument> bound, boolean byValue) {
        ResultMode mode = byValue ? ResultMode.RESULT_INLINE : ResultMode.RESULT_HANDLES;
        ExecuteRequest request = program.request(bound).setResultMode(mode).build();
        return operation
                .call(KernelServiceGrpc.getExecuteMethod(), request)
                .handle(
                        (answer, failure) -> {
                            if (failure == null) {
                                return CompletableFuture.completedFuture(answer);
                            }
                            KilnException failed = Failures.of(failure);
                            return failed.is(ErrorCode.NEED_GRAPH)
                                    ? operation.call(
                                            KernelServiceGrpc.getExecuteMethod(),
                                            request.toBuilder().setGraph(program.graph()).build())
                                    : CompletableFuture.<ExecuteResponse>failedFuture(failed);
                        })
                .thenCompose(Function.identity())
                .thenApply(answer -> checked(bound, answer.getResultsList()));
    }

    /** Memory is made of what the server says. */
    private List<ResultValue> checked(Map<Integer, Argument> bound, List<ResultValue> results) {
        List<Signature.Result> rows = program.signature().getResultsList();
        try {
            if (results.size() != rows.size()) {
                throw Failures.badServer("gave %d results, not %d", results.size(), rows.size());
            }
            for (int at = 0; at < rows.size(); at++) {
                check(at, rows.get(at), results.get(at));
            }
            return results;
        } catch (KilnException failed) {
            giveBack(bound, results);
            throw failed;
        }
    }

    private static void check(int at, Signature.Result row, ResultValue result) {
        switch (result.getValueCase()) {
            case BUFFER -> {
                long bytes = result.getBuffer().getBytes();
                if (!row.hasAliases() && row.getSymbolicCount() == 0 && bytes != row.getBytes()) {
                    throw Failures.badServer(
                            "gave result %d as %d bytes, not %d", at, bytes, row.getBytes());
                }
            }
            case TENSOR -> {} // its array is as large as what has come
            case SHARDS ->
                    throw Failures.badArgument(
                            "result %d is on several devices: use KilnClient.call", at);
            default -> throw Failures.badServer("gave result %d without a value", at);
        }
    }

    private CompletableFuture<NdArray> fetched(Map<Integer, Argument> bound, ResultValue row) {
        if (row.hasTensor()) {
            return CompletableFuture.completedFuture(arrayOf(row.getTensor()));
        }
        DeviceBuffer buffer = given(bound, row.getBuffer());
        if (made.contains(buffer)) {
            buffer.takeForFree(); // giveBack does it
        }
        return buffer.read(operation);
    }

    private CompletableFuture<DeviceBuffer> kept(
            Map<Integer, Argument> bound, ResultValue row, List<DeviceBuffer> uploaded) {
        if (row.hasBuffer()) {
            return CompletableFuture.completedFuture(given(bound, row.getBuffer()));
        }
        // Of a parameter that was sent by value.
        return client.upload(operation, arrayOf(row.getTensor()), client.device())
                .thenApply(
                        buffer -> {
                            uploaded.add(buffer);
                            return buffer;
                        });
    }

    private static NdArray arrayOf(kiln.v1.Tensor said) {
        DType dtype = DType.of(said.getDtype());
        if (dtype == null) {
            throw Failures.badServer("gave an array of dtype %d", said.getDtypeValue());
        }
        long[] shape = Shapes.of(said.getShapeList());
        try {
            return NdArray.of(dtype, said.getData().asReadOnlyByteBuffer(), shape);
        } catch (KilnException impossible) {
            String text = "gave %d bytes as %s %s";
            throw Failures.badServer(text, said.getData().size(), dtype, Arrays.toString(shape));
        }
    }

    /** A result as a buffer: the caller's own, if it is an argument's memory. */
    private DeviceBuffer given(Map<Integer, Argument> bound, BufferDescription said) {
        for (Argument value : bound.values()) {
            if (value instanceof DeviceBuffer buffer && buffer.handle() == said.getHandle()) {
                return buffer;
            }
        }
        DeviceBuffer buffer = DeviceBuffer.of(client, said);
        if (own(bound).contains(said.getHandle())) {
            buffer.takeForFree(); // whose it is frees it
        } else {
            made.add(buffer);
        }
        return buffer;
    }

    private static Set<Long> own(Map<Integer, Argument> bound) {
        Set<Long> own = new HashSet<>();
        for (Argument value : bound.values()) {
            if (value instanceof DeviceBuffer buffer) {
                own.add(buffer.handle());
            } else if (value instanceof Argument.Part part) {
                own.add(part.buffer().handle());
            }
        }
        return own;
    }

    /**
     * Gives back what a run made, whatever has become of it: the results that are no argument's
     * memory.
     */
    private void giveBack(Map<Integer, Argument> bound, List<ResultValue> rows) {
        made.forEach(DeviceBuffer::takeForFree);
        Set<Long> own = own(bound);
        Set<Long> handles = new HashSet<>();
        for (ResultValue row : rows) {
            if (row.hasBuffer() && !own.contains(row.getBuffer().getHandle())) {
                handles.add(row.getBuffer().getHandle());
            }
        }
        if (!handles.isEmpty()) {
            FreeRequest request = FreeRequest.newBuilder().addAllHandle(handles).build();
            operation.regardless().call(BufferServiceGrpc.getFreeMethod(), request);
        }
    }
}
