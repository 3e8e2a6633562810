package kiln;

import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.function.Supplier;
import kiln.v1.CompileRequest;
import kiln.v1.ErrorCode;
import kiln.v1.KernelServiceGrpc;
import kiln.v1.RecordSequenceRequest;
import kiln.v1.RecordSequenceResponse;
import kiln.v1.RecordedArgument;
import kiln.v1.RecordedMemory;
import kiln.v1.RecordedProgram;
import kiln.v1.RecordedStep;
import kiln.v1.ReplaySequenceRequest;

/** Calls in a row that the server keeps, and runs again in one round trip. */
public final class Recording {
    /**
     * One call of a recording.
     *
     * @param program what is called
     * @param memory where each of its parameters lies, in ascending order of slot
     */
    public record Step(Program program, List<Memory> memory) {
        /** A step whose parameters each lie at the beginning of one of a replay's buffers. */
        public static Step of(Program program, int... buffers) {
            List<Memory> memory = new ArrayList<>();
            for (int buffer : buffers) {
                memory.add(new Memory(buffer, 0));
            }
            return new Step(program, memory);
        }
    }

    /**
     * A part of one of a replay's buffers.
     *
     * @param buffer which of them
     * @param offset from which byte on
     */
    public record Memory(int buffer, long offset) {}

    private final KilnClient client;
    private final RecordSequenceRequest request;
    private final List<Program> programs;
    private final ByteString hash;

    private Recording(
            KilnClient client,
            RecordSequenceRequest request,
            List<Program> programs,
            ByteString hash) {
        this.client = client;
        this.request = request;
        this.programs = programs;
        this.hash = hash;
    }

    static CompletableFuture<Recording> of(
            KilnClient client, Operation operation, List<Step> steps) {
        RecordSequenceRequest.Builder request = RecordSequenceRequest.newBuilder();
        List<String> devices = client.devices();
        request.setDevice(
                client.device().isEmpty() && !devices.isEmpty() ? devices.get(0) : client.device());
        Map<Program, Integer> numbers = new LinkedHashMap<>();
        for (Step step : steps) {
            Program program = step.program;
            int number = numbers.computeIfAbsent(program, made -> numbers.size());
            List<Program.Taken> takes = program.takes;
            if (step.memory.size() != takes.size()) {
                String text = "step %d gives %d memories to a program of %d parameters";
                throw Failures.badArgument(
                        text, request.getStepsCount(), step.memory.size(), takes.size());
            }
            RecordedStep.Builder recorded = RecordedStep.newBuilder().setProgram(number);
            for (int at = 0; at < takes.size(); at++) {
                Memory memory = step.memory.get(at);
                RecordedMemory.Builder place =
                        RecordedMemory.newBuilder()
                                .setBuffer(memory.buffer)
                                .setOffset(memory.offset);
                recorded.addArguments(
                        RecordedArgument.newBuilder()
                                .setSlot(takes.get(at).slot())
                                .setMemory(place));
            }
            request.addSteps(recorded);
        }
        for (Program program : numbers.keySet()) {
            RecordedProgram.Builder row =
                    RecordedProgram.newBuilder().setGraphHash(program.compiled.getGraphHash());
            request.addPrograms(program.options == null ? row : row.setOptions(program.options));
        }
        RecordSequenceRequest built = request.build();
        List<Program> programs = List.copyOf(numbers.keySet());
        return operation
                .call(KernelServiceGrpc.getRecordSequenceMethod(), built)
                .thenApply(answer -> new Recording(client, built, programs, answer.getRecording()));
    }

    /** Runs the calls on these buffers. What the server has forgotten is recorded again. */
    public CompletableFuture<Void> replayAsync(List<DeviceBuffer> buffers, CallOptions options) {
        List<DeviceBuffer> given = List.copyOf(buffers);
        ReplaySequenceRequest.Builder replay =
                ReplaySequenceRequest.newBuilder().setRecording(hash);
        given.forEach(buffer -> replay.addBuffers(buffer.ref(0)));
        ReplaySequenceRequest built = replay.build();
        return Operation.of(
                client.connection,
                options,
                operation ->
                        orAfter(
                                        () ->
                                                operation.call(
                                                        KernelServiceGrpc.getReplaySequenceMethod(),
                                                        built),
                                        () -> again(operation))
                                .thenAccept(
                                        answer ->
                                                java.lang.ref.Reference.reachabilityFence(given)));
    }

    /** Runs the calls on these buffers, and waits. */
    public void replay(DeviceBuffer... buffers) {
        Operation.await(replayAsync(List.of(buffers), CallOptions.DEFAULT));
    }

    /**
     * Makes a call; if the server has forgotten what it wants, mends that and makes it once more.
     */
    private static <T> CompletableFuture<T> orAfter(
            Supplier<CompletableFuture<T>> call, Supplier<CompletableFuture<Void>> mend) {
        return call.get()
                .handle(
                        (answer, failure) -> {
                            if (failure == null) {
                                return CompletableFuture.completedFuture(answer);
                            }
                            KilnException failed = Failures.of(failure);
                            return failed.is(ErrorCode.NEED_GRAPH)
                                    ? mend.get().thenCompose(mended -> call.get())
                                    : CompletableFuture.<T>failedFuture(failed);
                        })
                .thenCompose(Function.identity());
    }

    /** For a server that has forgotten the recording, and perhaps its programs. */
    private CompletableFuture<Void> again(Operation operation) {
        Supplier<CompletableFuture<RecordSequenceResponse>> record =
                () -> operation.call(KernelServiceGrpc.getRecordSequenceMethod(), request);
        return orAfter(record, () -> compileAll(operation)).thenApply(answer -> null);
    }

    private CompletableFuture<Void> compileAll(Operation operation) {
        CompletableFuture<Void> made = CompletableFuture.completedFuture(null);
        for (Program program : programs) {
            CompileRequest.Builder one =
                    CompileRequest.newBuilder()
                            .setGraph(program.graph())
                            .setDevice(request.getDevice());
            if (program.options != null) {
                one.setOptions(program.options);
            }
            made =
                    made.thenCompose(
                                    before ->
                                            operation.call(
                                                    KernelServiceGrpc.getCompileMethod(),
                                                    one.build()))
                            .thenApply(answer -> null);
        }
        return made;
    }
}
