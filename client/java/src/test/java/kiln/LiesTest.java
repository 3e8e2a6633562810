package kiln;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import kiln.v1.AllocateResponse;
import kiln.v1.BufferDescription;
import kiln.v1.CompileResponse;
import kiln.v1.ErrorCode;
import kiln.v1.ErrorDetail;
import kiln.v1.ExecuteResponse;
import kiln.v1.ReadResponse;
import kiln.v1.ResultValue;
import kiln.v1.Signature;
import kiln.v1.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A server that says what no kilnd would: the client tells, and neither falls over nor waits for
 * ever.
 */
@Timeout(value = 120)
class LiesTest {
    private final Liar liar = new Liar();
    private KilnClient client;

    @AfterEach
    void stop() {
        if (client != null) {
            client.close();
        }
        liar.close();
    }

    private KilnClient client() {
        client = liar.client();
        return client;
    }

    private static Graph added() {
        Graph graph = new Graph();
        graph.output(graph.param("x", DType.FLOAT32, 4).add(1));
        return graph;
    }

    private static Signature.Result.Builder result() {
        return Signature.Result.newBuilder().setDtype(DType.FLOAT32.wire).addShape(4).setBytes(16);
    }

    private static CompileResponse signed(Signature.Builder signature) {
        return CompileResponse.newBuilder().setSignature(signature).build();
    }

    private static BufferDescription described(
            long handle, long bytes, DType dtype, long... shape) {
        BufferDescription.Builder made = BufferDescription.newBuilder().setHandle(handle);
        made.setBytes(bytes).setDtype(dtype.wire);
        return made.addAllShape(Shapes.boxed(shape)).build();
    }

    private static ResultValue held(BufferDescription said) {
        return ResultValue.newBuilder().setBuffer(said).build();
    }

    @Test
    void signaturesThatCannotBe() {
        client();
        Fails.with(ErrorCode.INTERNAL_FAULT, () -> client.compile(added()));
        List<Signature.Builder> lies = new ArrayList<>();
        lies.add(Signature.newBuilder());
        lies.add(Signature.newBuilder().addResults(result().setAliases(7)));
        lies.add(Signature.newBuilder().addResults(result().setAliases(-1)));
        lies.add(Signature.newBuilder().addResults(result()).addResults(result()));
        for (Signature.Builder lie : lies) {
            liar.compile = request -> signed(lie);
            Fails.with(ErrorCode.INTERNAL_FAULT, () -> client.compile(added()));
        }
        // What a stream makes has the size that the signature says.
        for (long bytes : new long[] {-1, 17, Long.MAX_VALUE}) {
            liar.compile =
                    request -> signed(Signature.newBuilder().addResults(result().setBytes(bytes)));
            Program program = client.compile(added());
            Fails.with(ErrorCode.INTERNAL_FAULT, () -> client.stream().run(program));
        }
        liar.compile = request -> signed(Signature.newBuilder().addResults(result().addShape(-3)));
        Program program = client.compile(added());
        assertThrows(KilnException.class, () -> client.stream().run(program));
    }

    @Test
    void resultsThatCannotBe() {
        liar.compile = request -> signed(Signature.newBuilder().addResults(result()));
        Program program = client().compile(added());
        long huge = 1L << 62;
        List<List<ResultValue>> lies =
                List.of(
                        List.of(),
                        List.of(ResultValue.getDefaultInstance()),
                        List.of(held(described(5, huge, DType.INT8, huge))),
                        List.of(held(described(5, 16, DType.FLOAT32, 5))),
                        List.of(held(described(5, 16, DType.FLOAT32, huge, huge))),
                        List.of(
                                held(described(5, 16, DType.FLOAT32, 4)),
                                ResultValue.getDefaultInstance()));
        for (List<ResultValue> lie : lies) {
            liar.execute = request -> ExecuteResponse.newBuilder().addAllResults(lie).build();
            liar.freed.clear();
            Fails.with(ErrorCode.INTERNAL_FAULT, () -> program.run());
            Fails.with(ErrorCode.INTERNAL_FAULT, () -> program.runKeep());
            boolean made = !lie.isEmpty() && lie.get(0).hasBuffer();
            untilTrue(() -> liar.freed.equals(made ? List.of(5L, 5L) : List.of()));
        }
    }

    private static void untilTrue(java.util.function.BooleanSupplier is) {
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
        while (!is.getAsBoolean() && System.nanoTime() < end) {
            Thread.onSpinWait();
            pause(5);
        }
        assertTrue(is.getAsBoolean());
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException failed) {
            throw new AssertionError(failed);
        }
    }

    @Test
    void arraysThatCannotBe() {
        liar.compile = request -> signed(Signature.newBuilder().addResults(result()));
        Program program = client().compile(added());
        Tensor.Builder right = Tensor.newBuilder().setDtype(DType.FLOAT32.wire).addShape(4);
        ByteString data = ByteString.copyFrom(new byte[16]);
        List<Tensor> lies =
                List.of(
                        right.build(),
                        right.clone().setData(data).addShape(-1).build(),
                        right.clone().setData(data).addShape(1L << 62).build(),
                        right.clone().setData(data).setDtypeValue(999).build());
        for (Tensor lie : lies) {
            ResultValue said = ResultValue.newBuilder().setTensor(lie).build();
            liar.execute = request -> ExecuteResponse.newBuilder().addResults(said).build();
            Fails.with(ErrorCode.INTERNAL_FAULT, () -> program.run());
            Fails.with(ErrorCode.INTERNAL_FAULT, () -> program.runKeep());
        }
    }

    @Test
    void buffersThatCannotBe() {
        client();
        List<BufferDescription> lies =
                List.of(
                        BufferDescription.getDefaultInstance(),
                        BufferDescription.newBuilder()
                                .setHandle(3)
                                .setBytes(Long.MAX_VALUE)
                                .build(),
                        BufferDescription.newBuilder().setHandle(3).setBytes(-16).build(),
                        described(3, 16, DType.FLOAT32, -2, -2),
                        described(3, 16, DType.FLOAT32, 1L << 62, 4));
        for (BufferDescription lie : lies) {
            liar.allocate = request -> AllocateResponse.newBuilder().setBuffer(lie).build();
            Fails.with(ErrorCode.INTERNAL_FAULT, () -> client.allocate(16));
        }
    }

    @Test
    void downloadsThatCannotBe() {
        BufferDescription said = described(3, 16, DType.INT8, 16);
        liar.allocate = request -> AllocateResponse.newBuilder().setBuffer(said).build();
        DeviceBuffer buffer = client().allocate(16);
        List<List<Integer>> lies =
                List.of(List.of(), List.of(15), List.of(17), List.of(8, 9), List.of(8, 8, 1));
        for (List<Integer> lie : lies) {
            liar.read = request -> lie.stream().map(LiesTest::chunk).toList();
            Fails.with(ErrorCode.INTERNAL_FAULT, () -> buffer.read());
            Fails.with(
                    ErrorCode.INTERNAL_FAULT, () -> buffer.read(0, ByteBuffer.allocateDirect(16)));
        }
        liar.read = request -> List.of(chunk(0), chunk(7), chunk(9));
        assertEquals(16, buffer.read().count());
    }

    private static ReadResponse chunk(int bytes) {
        return ReadResponse.newBuilder().setChunk(ByteString.copyFrom(new byte[bytes])).build();
    }

    @Test
    void aFreeThatFailedIsTriedAgain() {
        BufferDescription said = described(3, 16, DType.INT8, 16);
        liar.allocate = request -> AllocateResponse.newBuilder().setBuffer(said).build();
        liar.free = Status.INTERNAL;
        DeviceBuffer buffer = client().allocate(16);
        Fails.with(Status.Code.INTERNAL, buffer::free);
        buffer.close(); // tells nothing
        assertEquals(List.of(3L, 3L), liar.freed);
        liar.free = Status.OK;
        buffer.close();
        buffer.close();
        assertEquals(List.of(3L, 3L, 3L), liar.freed);
    }

    @Test
    void whatIsForgottenIsGivenBack() {
        BufferDescription said = described(77, 16, DType.INT8, 16);
        liar.allocate = request -> AllocateResponse.newBuilder().setBuffer(said).build();
        assertEquals(77, client().allocate(16).handle());
        untilTrue(
                () -> {
                    System.gc();
                    return liar.freed.equals(List.of(77L));
                });
    }

    @Test
    void aServerThatDoesNotAnswer() {
        liar.allocate = request -> null;
        client();
        CallOptions soon = CallOptions.timeout(Duration.ofMillis(50));
        CompletableFuture<DeviceBuffer> late = client.allocateAsync(16, soon);
        Fails.with(Status.Code.DEADLINE_EXCEEDED, () -> Operation.await(late));
        CompletableFuture<DeviceBuffer> givenUp = client.allocateAsync(16, CallOptions.DEFAULT);
        assertTrue(givenUp.cancel(true));
        assertThrows(CancellationException.class, givenUp::join);
        CompletableFuture<DeviceBuffer> open = client.allocateAsync(16, CallOptions.DEFAULT);
        client.close();
        assertEquals(
                Status.Code.CANCELLED,
                KilnException.of(open.handle((made, failed) -> failed).join()).status());
        Fails.with(Status.Code.CANCELLED, () -> client.allocate(16));
        Fails.with(Status.Code.CANCELLED, () -> client.stream());
    }

    /** What waits to be asked again when its client is closed is told. */
    @Test
    void noTryIsWaitedForAfterTheEnd() throws InterruptedException {
        CountDownLatch asked = new CountDownLatch(1);
        ErrorDetail detail = ErrorDetail.newBuilder().setRetryAfterMs(1900).build();
        com.google.rpc.Status.Builder busy =
                com.google.rpc.Status.newBuilder().setCode(Status.Code.RESOURCE_EXHAUSTED.value());
        busy.addDetails(Any.pack(detail));
        liar.allocate =
                request -> {
                    asked.countDown();
                    throw StatusProto.toStatusRuntimeException(busy.build());
                };
        CompletableFuture<DeviceBuffer> waits = client().allocateAsync(16, CallOptions.DEFAULT);
        assertTrue(asked.await(60, TimeUnit.SECONDS));
        client.close();
        assertTrue(waits.handle((made, failed) -> failed).join() instanceof KilnException);
    }

    @Test
    void aThreadThatIsInterruptedGivesUp() throws InterruptedException {
        CountDownLatch asked = new CountDownLatch(1);
        liar.allocate =
                request -> {
                    asked.countDown();
                    return null;
                };
        client();
        CompletableFuture<KilnException> told = new CompletableFuture<>();
        Thread waits =
                new Thread(
                        () ->
                                told.complete(
                                        assertThrows(
                                                KilnException.class, () -> client.allocate(16))));
        waits.start();
        assertTrue(asked.await(60, TimeUnit.SECONDS));
        waits.interrupt();
        assertEquals(Status.Code.CANCELLED, told.join().status());
        waits.join();
    }

    @Test
    void whoIsNoServerIsNamed() throws IOException {
        ConnectOptions soon = ConnectOptions.DEFAULT.withTimeout(Duration.ofMillis(300));
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            String address = "127.0.0.1:" + silent.getLocalPort();
            KilnException failed =
                    Fails.with(Status.Code.UNAVAILABLE, () -> KilnClient.connect(address, soon));
            assertTrue(
                    failed.getMessage().contains("no server answers at " + address),
                    failed.getMessage());
        }
        KilnException unsafe =
                Fails.with(
                        Status.Code.UNAVAILABLE,
                        () ->
                                KilnClient.connect(
                                        liar.address(),
                                        ConnectOptions.DEFAULT
                                                .withTls()
                                                .withTimeout(Duration.ofMinutes(1))));
        assertTrue(unsafe.getMessage().contains("no safe connection"), unsafe.getMessage());
        Fails.with(
                ErrorCode.UNKNOWN_DEVICE,
                () -> KilnClient.connect(liar.address(), ConnectOptions.DEFAULT.withDevice("X")));
    }

    /** What leads to a server is left for the server, if that can be reached. */
    @Test
    void theServerBehindABalancer() {
        try (Liar behind = new Liar()) {
            liar.advertised = behind.address();
            behind.advertised = liar.address(); // another than was named
            try (KilnClient one = liar.client()) {
                assertEquals(liar.address(), one.address());
            }
            behind.advertised = behind.address();
            liar.opens.set(0);
            client();
            assertEquals(behind.address(), client.address());
            assertEquals(List.of(0, 1), List.of(liar.opens.get(), behind.opens.get()));
            client.close();
        }
        for (String nobody : List.of("no address at all", "127.0.0.1:1")) {
            liar.advertised = nobody;
            try (KilnClient one = liar.client()) {
                assertEquals(liar.address(), one.address());
                one.stream().fence();
            }
        }
    }

    /**
     * A session that is gone while no other is granted is not asked after all the time; nor one of
     * no time.
     */
    @Test
    void renewalsRest() {
        liar.mayOpen = false;
        for (int lease : new int[] {3, 0, -1}) {
            liar.leaseSeconds = lease;
            liar.renewal = lease == 3 ? Status.NOT_FOUND : Status.OK;
            liar.opens.set(0);
            liar.renewals.set(0);
            long begun = System.nanoTime();
            try (KilnClient one = liar.client()) {
                one.connection.session.hasten();
                untilTrue(
                        () -> {
                            one.connection.session.hasten();
                            return liar.renewals.get() >= 3;
                        });
                long most = 2 + (System.nanoTime() - begun) / Session.REST;
                assertTrue(liar.renewals.get() <= most, liar.renewals + " renewals, not " + most);
            }
        }
    }

    @Test
    void noThreadIsLeft() {
        Set<Thread> before = Thread.getAllStackTraces().keySet();
        for (int count = 0; count < 3; count++) {
            try (KilnClient one = liar.client()) {
                one.stream().fence();
                for (Thread thread : Thread.getAllStackTraces().keySet()) {
                    boolean isNew =
                            !before.contains(thread) && thread.getName().startsWith("kiln-");
                    assertFalse(
                            isNew && !thread.isDaemon(), thread + " keeps a program from its end");
                }
            }
        }
        untilTrue(
                () ->
                        Thread.getAllStackTraces().keySet().stream()
                                .filter(thread -> !before.contains(thread))
                                .noneMatch(thread -> thread.getName().startsWith("kiln-")));
    }
}
