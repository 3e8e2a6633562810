package kiln;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import kiln.v1.CommandFailed;
import kiln.v1.ErrorCode;
import kiln.v1.ErrorDetail;
import kiln.v1.SubmitRequest;
import kiln.v1.SubmitResponse;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Streams of a server that is lost, silent, or lies. */
@Timeout(value = 120)
class StreamLiesTest {
    private final Liar liar = new Liar();
    private final KilnClient client = liar.client();

    @AfterEach
    void stop() {
        client.close();
        liar.close();
    }

    private static void lost(StreamObserver<SubmitResponse> to, Status.Code code) {
        to.onError(code.toStatus().withDescription("so").asRuntimeException());
    }

    private static SubmitResponse.Builder to(SubmitRequest request) {
        return SubmitResponse.newBuilder().setCommandId(request.getCommandId());
    }

    private void isTold(Liar.Submit lie) {
        liar.submit = lie;
        CommandStream stream = client.stream();
        CompletableFuture<Void> first = stream.fenceAsync();
        KilnException ended = KilnException.of(first.handle((done, failed) -> failed).join());
        assertEquals(ErrorCode.INTERNAL_FAULT, ended.code(), ended.getMessage());
        Fails.with(ErrorCode.INTERNAL_FAULT, stream::fence);
        assertNotSame(stream, client.stream());
    }

    @Test
    void answersThatCannotBe() {
        isTold(
                (request, to, number) -> {
                    if (request.hasHello()) {
                        Liar.welcome(to, 0);
                        Liar.done(to, -1); // the greatest of all
                    }
                });
        isTold((request, to, number) -> Liar.welcome(to, 99));
        isTold((request, to, number) -> Liar.welcome(to, -1));
        isTold(
                (request, to, number) -> {
                    Liar.honest(request.toBuilder().setAnswer(false).build(), to);
                    if (request.getAnswer()) {
                        to.onNext(
                                to(request)
                                        .setMore(true)
                                        .setData(ByteString.copyFrom(new byte[1]))
                                        .build());
                    }
                });
        isTold(
                (request, to, number) -> {
                    Liar.honest(request.toBuilder().setAnswer(false).build(), to);
                    if (request.getAnswer()) {
                        CommandFailed.Builder said = CommandFailed.newBuilder();
                        said.setStatus(ByteString.copyFromUtf8("no status"));
                        to.onNext(to(request).setFailed(said).build());
                        Liar.done(to, 1L << 40);
                    }
                });
    }

    @Test
    void answersThatArePassedOver() {
        liar.submit =
                (request, to, number) -> {
                    if (!request.hasRead()) {
                        Liar.honest(request, to);
                    }
                };
        CommandStream stream = client.stream();
        CompletableFuture<NdArray> read = stream.read(stream.zeros(DType.FLOAT32, 4));
        Fails.with(ErrorCode.INTERNAL_FAULT, stream::fence);
        Fails.with(ErrorCode.INTERNAL_FAULT, () -> Operation.await(read));
    }

    @Test
    void readsThatAreTooLongOrTooShort() {
        for (int bytes : new int[] {0, 8, 17}) {
            liar.submit =
                    (request, to, number) -> {
                        if (request.hasRead()) {
                            to.onNext(
                                    to(request)
                                            .setData(ByteString.copyFrom(new byte[bytes]))
                                            .build());
                        } else {
                            Liar.honest(request, to);
                        }
                    };
            CommandStream stream = client.stream();
            CompletableFuture<NdArray> read = stream.read(stream.zeros(DType.FLOAT32, 4));
            Fails.with(ErrorCode.INTERNAL_FAULT, () -> Operation.await(read));
        }
    }

    @Test
    void aClosedStreamHasEnded() {
        CommandStream stream = client.stream();
        for (int round = 0; round < 20; round++) {
            for (int count = 0; count < 200; count++) {
                stream.zeros(DType.FLOAT32, 4)
                        .takeForFree(); // or the collector sends commands, too
            }
            stream.fence();
        }
        assertEquals(0, stream.link.unconfirmed());
        stream.zeros(DType.FLOAT32, 4).takeForFree();
        client.close();
        assertEquals(4022, stream.link.answered());
        assertEquals(1, liar.streams.get());
        Fails.with(Status.Code.CANCELLED, () -> client.stream());
        Fails.with(Status.Code.CANCELLED, () -> stream.zeros(DType.FLOAT32, 4));
    }

    @Test
    void aStreamThatIsBegunAnewNumbersOn() {
        List<Long> numbers = new CopyOnWriteArrayList<>();
        liar.submit =
                (request, to, number) -> {
                    numbers.add(request.getCommandId());
                    if (request.getCommandId() == 2) {
                        lost(to, Status.Code.ABORTED);
                    } else {
                        Liar.honest(request, to);
                    }
                };
        CommandStream first = client.stream();
        DeviceBuffer one = first.zeros(DType.INT32, 1);
        Fails.with(Status.Code.ABORTED, first::fence);
        CommandStream second = client.stream();
        assertNotSame(first, second);
        DeviceBuffer two = second.zeros(DType.INT32, 1);
        second.fence();
        assertEquals(List.of(0L, 1L, 2L, 0L, 3L, 4L), numbers);
        assertEquals(one.bytes(), two.bytes());
    }

    /** What nobody waits for is told of by the next fence, when its answer is lost. */
    @Test
    void aLostAnswerIsTold() {
        liar.submit =
                (request, to, number) -> {
                    if (number > 1 && request.hasHello()) {
                        Liar.welcome(to, 1);
                    } else if (number == 1 && !request.hasHello()) {
                        lost(to, Status.Code.UNAVAILABLE);
                    } else if (number > 1) {
                        Liar.honest(request, to);
                    }
                };
        CommandStream stream = client.stream();
        stream.zeros(DType.FLOAT32, 4).takeForFree();
        Fails.with(Status.Code.UNAVAILABLE, stream::fence);
        stream.fence();
    }

    /** A server that welcomes and then fails is given up with the lease. */
    @Test
    void noStreamForLongerThanTheLease() {
        client.connection.session.grant(Duration.ofSeconds(1));
        liar.submit =
                (request, to, number) -> {
                    if (request.hasHello()) {
                        Liar.welcome(to, 0);
                        lost(to, Status.Code.INTERNAL);
                    }
                };
        CommandStream stream = client.stream();
        Fails.with(Status.Code.INTERNAL, stream::fence);
        assertTrue(liar.streams.get() <= 8, liar.streams + " connections, ever farther apart");
        Fails.with(Status.Code.INTERNAL, () -> stream.zeros(DType.INT32, 1));
    }

    @Test
    void aFreeThatWasNotSentCanBeSent() {
        CommandStream stream = client.stream();
        DeviceBuffer buffer = stream.zeros(DType.INT32, 1);
        liar.submit = (request, to, number) -> lost(to, Status.Code.ABORTED);
        Fails.with(Status.Code.ABORTED, stream::fence);
        Fails.with(Status.Code.ABORTED, () -> stream.free(buffer));
        assertTrue(buffer.takeForFree());
    }

    @Test
    void mistakesHarmNoOtherCommand() {
        CommandStream stream = client.stream();
        DeviceBuffer buffer = stream.zeros(DType.INT32, 4);
        Fails.with(ErrorCode.OUT_OF_BOUNDS, () -> stream.write(buffer, -1, ByteBuffer.allocate(4)));
        Fails.with(ErrorCode.OUT_OF_BOUNDS, () -> stream.write(buffer, 13, ByteBuffer.allocate(4)));
        stream.upload(NdArray.of(new byte[20 << 20])).takeForFree(); // more than may be unconfirmed
        stream.fence();
    }

    /** To wait for room where an answer was told would otherwise be to wait for oneself. */
    @Test
    void whatFollowsAnAnswerMayFillTheStream() {
        CommandStream stream = client.stream();
        CompletableFuture<Void> filled =
                stream.fenceAsync()
                        .thenRun(
                                () -> {
                                    for (int count = 0; count < 3000; count++) {
                                        stream.zeros(DType.INT8, 1).takeForFree();
                                    }
                                });
        filled.join();
        stream.fence();
    }

    @Test
    void aTokenThatCannotBeSentEndsTheStream(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("token"), "good");
        ConnectOptions options =
                ConnectOptions.DEFAULT.withTokenFile(file).withTimeout(Duration.ofMinutes(1));
        try (KilnClient one = KilnClient.connect(liar.address(), options)) {
            liar.submit = (request, to, number) -> lost(to, Status.Code.UNAVAILABLE);
            Files.writeString(file, "a\nb");
            CommandStream stream = one.stream();
            KilnException failed = Fails.with(ErrorCode.BAD_ARGUMENT, stream::fence);
            assertTrue(failed.getMessage().contains("the token has characters"));
        }
        assertThrows(KilnException.class, () -> KilnClient.connect(liar.address(), options));
    }

    @Test
    void aTokenThatCannotBeSentInThePlaceOfOneThatCountsNoMore(@TempDir Path folder)
            throws IOException {
        Path file = Files.writeString(folder.resolve("token"), "good");
        ConnectOptions options = ConnectOptions.DEFAULT.withTokenFile(file);
        ErrorDetail detail = ErrorDetail.newBuilder().setCode(ErrorCode.NOT_AUTHENTICATED).build();
        com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder();
        status.setCode(Status.Code.UNAUTHENTICATED.value()).addDetails(Any.pack(detail));
        try (KilnClient one = KilnClient.connect(liar.address(), options)) {
            CommandStream stream = one.stream();
            stream.fence();
            Files.writeString(file, "a\nb");
            liar.submit =
                    (request, to, number) ->
                            to.onError(StatusProto.toStatusRuntimeException(status.build()));
            KilnException failed = Fails.with(ErrorCode.BAD_ARGUMENT, stream::fence);
            assertTrue(failed.getMessage().contains("the token has characters"));
        }
    }
}
