package kiln;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.AbstractList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import kiln.inference.ModelInferRequest;
import kiln.inference.ModelInferResponse;
import kiln.inference.ModelInferResponse.InferOutputTensor;
import kiln.inference.ModelMetadataResponse;
import kiln.inference.ModelMetadataResponse.TensorMetadata;
import kiln.inference.ModelStreamInferResponse;
import kiln.v1.ErrorCode;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A stream of requests to a served model, and what it withstands of a server that lies. */
@Timeout(value = 120)
class InferStreamTest {
    private final Liar liar = new Liar();
    private final KilnClient client = liar.client();

    @AfterEach
    void stop() {
        client.close();
        liar.close();
    }

    private static Map<String, NdArray> x(int value) {
        return Map.of("x", NdArray.of(new int[] {value}));
    }

    /** What the request was, as the answer to it. */
    private static ModelInferResponse.Builder honest(ModelInferRequest request) {
        ModelInferResponse.Builder made = ModelInferResponse.newBuilder().setId(request.getId());
        request.getInputsList()
                .forEach(
                        row ->
                                made.addOutputs(
                                        InferOutputTensor.newBuilder()
                                                .setName(row.getName())
                                                .setDatatype(row.getDatatype())
                                                .addAllShape(row.getShapeList())));
        return made.addAllRawOutputContents(request.getRawInputContentsList());
    }

    private static void say(
            StreamObserver<ModelStreamInferResponse> to, ModelInferResponse.Builder answer) {
        to.onNext(ModelStreamInferResponse.newBuilder().setInferResponse(answer).build());
    }

    private static int[] ints(CompletableFuture<Map<String, NdArray>> answer) {
        return Operation.await(answer).get("x").ints();
    }

    private static void fails(
            Status.Code status, CompletableFuture<Map<String, NdArray>> answer, String text) {
        KilnException failed = Fails.with(status, () -> Operation.await(answer));
        assertTrue(failed.getMessage().contains(text), failed.getMessage());
    }

    @Test
    void aTypeThatIsNotKnown() {
        TensorMetadata row = TensorMetadata.newBuilder().setName("x").setDatatype("FP4").build();
        liar.metadata = ModelMetadataResponse.newBuilder().addInputs(row).build();
        Fails.with(ErrorCode.INTERNAL_FAULT, () -> client.model("m"));
    }

    @Test
    void anErrorIsToldToWhoWaits() {
        List<String> broken =
                new AbstractList<>() {
                    @Override
                    public String get(int at) {
                        throw new OutOfMemoryError("none left");
                    }

                    @Override
                    public int size() {
                        return 1;
                    }
                };
        CompletableFuture<Map<String, NdArray>> future = new CompletableFuture<>();
        new InferStream.Asked(broken, future)
                .settle(
                        ModelStreamInferResponse.newBuilder()
                                .setInferResponse(ModelInferResponse.getDefaultInstance())
                                .build());
        ExecutionException told = assertThrows(ExecutionException.class, future::get);
        assertInstanceOf(OutOfMemoryError.class, told.getCause());
    }

    @Test
    void afterAStreamIsClosedAllIsTold() {
        liar.inferStream = (request, to) -> say(to, honest(request));
        ServedModel model = client.model("m");
        for (int round = 0; round < 200; round++) {
            InferStream stream = model.stream();
            List<CompletableFuture<Map<String, NdArray>>> answers =
                    List.of(stream.infer(x(1)), stream.infer(x(2)), stream.infer(x(3)));
            stream.close();
            answers.forEach(answer -> assertTrue(answer.isDone()));
        }
    }

    @Test
    void whatFollowsAFutureMayCloseItsStream() {
        liar.inferStream = (request, to) -> say(to, honest(request));
        InferStream stream = client.model("m").stream();
        Operation.await(stream.infer(x(1)).thenRun(stream::close));
        liar.inferStream = (request, to) -> to.onCompleted();
        InferStream ended = client.model("m").stream();
        Operation.await(ended.infer(x(1)).handle((outputs, failed) -> null).thenRun(ended::close));
    }

    @Test
    void answersThatComeTwice() {
        liar.inferStream =
                (request, to) -> {
                    say(to, honest(request));
                    say(to, honest(request));
                };
        try (InferStream stream = client.model("m").stream()) {
            List<CompletableFuture<Map<String, NdArray>>> answers =
                    List.of(stream.infer(x(1)), stream.infer(x(2)), stream.infer(x(3)));
            for (int at = 0; at < 3; at++) {
                assertArrayEquals(new int[] {at + 1}, ints(answers.get(at)));
            }
        }
    }

    @Test
    void aRequestThatFailsEndsItselfAlone() {
        List<ModelStreamInferResponse> lies =
                List.of(
                        ModelStreamInferResponse.newBuilder().setErrorMessage("so 100%d").build(),
                        ModelStreamInferResponse.getDefaultInstance(),
                        ModelStreamInferResponse.newBuilder()
                                .setInferResponse(
                                        ModelInferResponse.newBuilder()
                                                .addOutputs(InferOutputTensor.getDefaultInstance()))
                                .build());
        liar.inferStream =
                (request, to) -> {
                    int number = Integer.parseInt(request.getId());
                    if (number <= lies.size()) {
                        to.onNext(lies.get(number - 1));
                    } else {
                        say(to, honest(request));
                    }
                };
        InferStream stream = client.model("m").stream();
        List<CompletableFuture<Map<String, NdArray>>> answers =
                List.of(
                        stream.infer(x(1)),
                        stream.infer(x(2)),
                        stream.infer(x(3)),
                        stream.infer(x(4)));
        NdArray narrow = NdArray.of(DType.FLOAT8_E5M2, new double[] {1});
        fails(Status.Code.INVALID_ARGUMENT, stream.infer(Map.of("x", narrow)), "float8_e5m2");
        Fails.with(
                ErrorCode.BAD_ARGUMENT,
                () -> stream.infer(x(1), InferOptions.DEFAULT.withId("mine")));
        fails(Status.Code.UNKNOWN, answers.get(0), "so 100%d");
        fails(Status.Code.INTERNAL, answers.get(1), "gave no answer");
        fails(Status.Code.INTERNAL, answers.get(2), "the contents of 0");
        assertArrayEquals(new int[] {4}, ints(answers.get(3)));
        stream.close();
        stream.close();
        fails(Status.Code.CANCELLED, stream.infer(x(5)), "stream was closed");
    }

    @Test
    void answersToWhatWasNotAsked() {
        for (String id : List.of("2", "-", "99999999999999999999")) {
            liar.inferStream = (request, to) -> say(to, honest(request).setId(id));
            try (InferStream stream = client.model("m").stream()) {
                fails(Status.Code.INTERNAL, stream.infer(x(1)), "answers request");
                fails(Status.Code.INTERNAL, stream.infer(x(1)), "answers request");
            }
        }
    }

    @Test
    void whenAStreamEndsSoDoesWhatIsUnderWay() {
        liar.inferStream =
                (request, to) -> {
                    if (request.getId().equals("2")) {
                        to.onError(Status.UNAVAILABLE.withDescription("lost").asRuntimeException());
                    }
                };
        try (InferStream lost = client.model("m").stream()) {
            CompletableFuture<Map<String, NdArray>> first = lost.infer(x(1));
            fails(Status.Code.UNAVAILABLE, lost.infer(x(2)), "lost");
            fails(Status.Code.UNAVAILABLE, first, "lost");
        }
        liar.inferStream = (request, to) -> to.onCompleted();
        try (InferStream ended = client.model("m").stream()) {
            fails(Status.Code.UNAVAILABLE, ended.infer(x(1)), "has ended the stream");
        }
    }

    @Test
    void whatIsGivenUpOrLateEnds() throws InterruptedException {
        CountDownLatch asked = new CountDownLatch(1);
        liar.inferStream = (request, to) -> asked.countDown();
        ServedModel model = client.model("m");
        InferStream givenUp = model.stream();
        CompletableFuture<Map<String, NdArray>> waits = givenUp.infer(x(1));
        assertTrue(asked.await(60, TimeUnit.SECONDS));
        givenUp.cancel();
        fails(Status.Code.CANCELLED, waits, "");
        givenUp.close();
        try (InferStream late = model.stream(CallOptions.timeout(Duration.ofMillis(50)))) {
            fails(Status.Code.DEADLINE_EXCEEDED, late.infer(x(1)), "");
        }
        InferStream open = model.stream();
        CompletableFuture<Map<String, NdArray>> last = open.infer(x(1));
        client.close();
        fails(Status.Code.CANCELLED, last, "client is closed");
        open.close();
        fails(Status.Code.CANCELLED, model.stream().infer(x(1)), "client is closed");
    }
}
