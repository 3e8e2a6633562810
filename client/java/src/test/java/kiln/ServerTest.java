package kiln;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.grpc.Context;
import io.grpc.Status;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import kiln.inference.GRPCInferenceServiceGrpc;
import kiln.inference.ModelInferRequest;
import kiln.v1.DebugServiceGrpc;
import kiln.v1.ErrorCode;
import kiln.v1.TraceRequest;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** With a server: KILN_ADDR names it, as tests/clients/java_client_test.py does. */
@EnabledIfEnvironmentVariable(named = "KILN_ADDR", matches = ".+")
@Timeout(value = 300)
class ServerTest {
    private static final ConnectOptions MINUTE =
            ConnectOptions.DEFAULT.withTimeout(Duration.ofMinutes(1));
    private static KilnClient client;

    @BeforeAll
    static void connect() {
        client = KilnClient.connect("", MINUTE);
    }

    @AfterAll
    static void close() {
        client.close();
    }

    private static NdArray ran(Graph graph, Argument... arguments) {
        return client.compile(graph).run(arguments).get(0);
    }

    private static float[] counted(int count) {
        float[] values = new float[count];
        for (int at = 0; at < count; at++) {
            values[at] = at % 7 - 3;
        }
        return values;
    }

    @Test
    void aConvolutionIsALoopOverWindows() {
        int n = 2, c = 3, o = 4, h = 7, w = 6, kh = 3, kw = 2, pad = 1;
        float[] x = counted(n * c * h * w);
        float[] weight = counted(o * c * kh * kw);
        for (int stride = 1; stride <= 3; stride++) {
            Graph g = new Graph();
            Tensor filters = g.paramAt(1, "w", DType.FLOAT32, o, c, kh, kw);
            Tensor images = g.paramAt(0, "x", DType.FLOAT32, n, c, h, w);
            g.output(images.conv2d(filters, stride, stride, pad, pad));
            List<Float> wanted = new ArrayList<>();
            for (int image = 0; image < n; image++) {
                for (int out = 0; out < o; out++) {
                    for (int top = -pad; top + kh <= h + pad; top += stride) {
                        for (int left = -pad; left + kw <= w + pad; left += stride) {
                            float sum = 0;
                            for (int at = 0; at < c * kh * kw; at++) {
                                int in = at / (kh * kw);
                                int y = top + at / kw % kh;
                                int z = left + at % kw;
                                boolean isInside = y >= 0 && y < h && z >= 0 && z < w;
                                float pixel = isInside ? x[((image * c + in) * h + y) * w + z] : 0;
                                sum += pixel * weight[out * c * kh * kw + at];
                            }
                            wanted.add(sum);
                        }
                    }
                }
            }
            float[] found =
                    ran(g, NdArray.of(x, n, c, h, w), NdArray.of(weight, o, c, kh, kw)).floats();
            List<Float> list = new ArrayList<>();
            for (float value : found) {
                list.add(value);
            }
            assertEquals(wanted, list, "stride " + stride);
        }
    }

    /**
     * Sums of narrow floats leave their range, or stand still at 2^11 ones, unless they are wide
     * until the end.
     */
    @Test
    void narrowFloatsAreWideWithin() {
        for (DType dtype : DType.values()) {
            if (!dtype.isNarrow() || dtype.name().endsWith("FNUZ")) {
                continue;
            }
            Graph g = new Graph();
            Tensor zeros = g.full(dtype, 0.0, 70000);
            g.output(g.full(dtype, 1.0, 100000).mean().cast(DType.FLOAT64));
            g.output(zeros.logSoftmax(0).max().cast(DType.FLOAT64));
            g.output(zeros.softmax(0).max().cast(DType.FLOAT64));
            List<NdArray> results = client.compile(g).run();
            double[] exact = {1, -Math.log(70000), 1.0 / 70000};
            for (int at = 0; at < exact.length; at++) {
                double rounded = NdArray.of(dtype, new double[] {exact[at]}).numbers()[0];
                assertEquals(rounded, results.get(at).doubles()[0], dtype + ", result " + at);
            }
        }
    }

    @Test
    void poolsCallsAndPlaces() {
        Graph g = new Graph();
        g.output(g.param("x", DType.FLOAT32, 1, 1, 4, 5).maxPool2d(2, 2));
        float[] x = {1, 2, 3, 4, 9, 5, 6, 7, 8, 9, 0, 0, -1, -2, 9, 0, 1, -3, -4, 9};
        assertArrayEquals(new float[] {6, 8, 1, -1}, ran(g, NdArray.of(x, 1, 1, 4, 5)).floats());

        Graph body = new Graph();
        body.output(body.param("a", DType.FLOAT32, 3).mul(body.param("b", DType.FLOAT32, 3)));
        g = new Graph();
        Tensor y = g.param("x", DType.FLOAT32, 3);
        g.output(g.call(body, g.call(body, y, y).get(0), y).get(0));
        assertArrayEquals(
                new float[] {1, 8, 27}, ran(g, NdArray.of(new float[] {1, 2, 3})).floats());

        g = new Graph();
        g.output(g.param("x", DType.FLOAT32, 2, 3).argMax(-1));
        float[] rows = {1, 5, 5, Float.NaN, 2, Float.NaN};
        assertArrayEquals(new int[] {1, 0}, ran(g, NdArray.of(rows, 2, 3)).ints());

        g = new Graph();
        g.output(g.arange(DType.INT64, 5).flip(0), g.scalar(true));
        Tensor square = g.param("x", DType.FLOAT32, 2, 2);
        g.output(square.transpose().mean(0).detach(), square.less(3).where(square, 9).log());
        List<NdArray> results = client.compile(g).run(NdArray.of(new float[] {1, 2, 3, 5}, 2, 2));
        assertArrayEquals(new long[] {4, 3, 2, 1, 0}, results.get(0).longs());
        assertEquals(0, results.get(1).shape().length);
        assertArrayEquals(new float[] {1.5f, 4}, results.get(2).floats());
        assertEquals(Math.log(9), results.get(3).numbers()[3], 1e-6);
    }

    @Test
    void argumentsHaveNamesAndAreChecked() {
        Graph g = new Graph();
        g.output(g.param("x", DType.INT32, 2).sub(g.param("y", DType.INT32, 2)));
        NdArray five = NdArray.of(new int[] {5, 5});
        NdArray two = NdArray.of(new int[] {2, 2});
        Program program = client.compile(g);
        NdArray found = program.run(Argument.named("y", two), Argument.named("x", five)).get(0);
        assertArrayEquals(new int[] {3, 3}, found.ints());
        Fails.with(ErrorCode.UNKNOWN_ARGUMENT, () -> program.run(Argument.named("z", two)));
        Fails.with(ErrorCode.UNKNOWN_ARGUMENT, () -> program.run(two, two, two));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> program.run(two, Argument.named("x", two)));
        Fails.with(ErrorCode.MISSING_ARGUMENT, () -> program.run(two));
        assertEquals(2, program.signature().getParametersCount());
    }

    /** Arrays of more than a message go through buffers, and come so. */
    @Test
    void largeArrays() {
        int count = 3 << 20;
        Graph g = new Graph();
        g.output(g.param("x", DType.FLOAT32, count).add(1));
        float[] x = counted(count);
        float[] found = ran(g, NdArray.of(x)).floats();
        for (int at = 0; at < count; at++) {
            assertEquals(x[at] + 1, found[at]);
        }
    }

    /** The server looks at a message's length before it looks for the model. */
    @Test
    void aRequestToAModelOfMoreThanTheServerTakes() {
        int bytes = 193 << 20;
        NdArray large = NdArray.of(DType.INT8, ByteBuffer.allocateDirect(bytes), bytes);
        ModelInferRequest request =
                InferMessages.request("m", "", Map.of("x", large), InferOptions.DEFAULT, "");
        KilnException failed =
                Fails.with(
                        Status.Code.RESOURCE_EXHAUSTED,
                        () -> client.call(GRPCInferenceServiceGrpc.getModelInferMethod(), request));
        assertTrue(failed.getMessage().contains("larger than max"), failed.getMessage());
    }

    @Test
    void channelsTakePartsOfABuffer() {
        byte[] sent = new byte[(3 << 20) + 3];
        for (int at = 0; at < sent.length; at++) {
            sent[at] = (byte) (at % 251);
        }
        try (DeviceBuffer buffer = client.allocate(sent.length + 10)) {
            buffer.writeFrom(
                    Channels.newChannel(new ByteArrayInputStream(sent)),
                    10,
                    sent.length,
                    CallOptions.DEFAULT);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            buffer.readTo(Channels.newChannel(out), 10, sent.length, CallOptions.DEFAULT);
            assertArrayEquals(sent, out.toByteArray());
            ByteBuffer direct = ByteBuffer.allocateDirect(1 << 20).order(ByteOrder.LITTLE_ENDIAN);
            buffer.read(2 << 20, direct);
            assertEquals(sent[(2 << 20) - 10], direct.get(0));
            buffer.write(0, direct.flip());
            assertEquals(sent[(2 << 20) - 10], buffer.read().bytes()[0]);
            // A channel that ends too soon.
            Fails.with(
                    ErrorCode.BAD_ARGUMENT,
                    () ->
                            buffer.writeFrom(
                                    Channels.newChannel(new ByteArrayInputStream(sent, 0, 5)),
                                    0,
                                    6,
                                    CallOptions.DEFAULT));
            Fails.with(
                    ErrorCode.OUT_OF_BOUNDS,
                    () -> buffer.read(8, ByteBuffer.allocate(sent.length + 9)));
        }
    }

    @Test
    void manyThreadsShareAClientAndItsStream() {
        Graph g = new Graph();
        Tensor x = g.param("x", DType.INT32, 4);
        g.update(x, x.add(1));
        Program program = client.compile(g);
        CommandStream stream = client.stream();
        List<CompletableFuture<NdArray>> reads = new ArrayList<>();
        for (int start = 0; start < 8; start++) {
            int first = start;
            reads.add(
                    CompletableFuture.supplyAsync(
                                    () -> {
                                        DeviceBuffer buffer =
                                                stream.upload(
                                                        NdArray.of(new int[] {first, 0, 0, 0}));
                                        for (int run = 0; run < 50; run++) {
                                            stream.run(program, buffer);
                                        }
                                        CompletableFuture<NdArray> read = stream.read(buffer);
                                        stream.free(buffer, buffer);
                                        return read;
                                    })
                            .thenCompose(read -> read));
        }
        for (int start = 0; start < 8; start++) {
            assertArrayEquals(new int[] {start + 50, 50, 50, 50}, reads.get(start).join().ints());
        }
        stream.fence();
    }

    /** What the collector gives back is given back behind the commands that use it. */
    @Test
    void buffersThatNobodyKeepsAreUsedFirst() {
        Graph g = new Graph();
        g.output(g.param("x", DType.INT32, 1 << 16).add(1));
        Program program = client.compile(g);
        CommandStream stream = client.stream();
        DeviceBuffer last = client.upload(NdArray.of(new int[1 << 16]));
        for (int run = 0; run < 300; run++) {
            last = stream.run(program, last).get(0);
            if (run % 50 == 0) {
                System.gc();
            }
        }
        assertEquals(300, stream.read(last).join().ints()[0]);
        stream.fence();
    }

    @Test
    void whatIsGivenUpEnds() {
        DeviceBuffer large = client.allocate(64 << 20);
        CompletableFuture<NdArray> read = large.readAsync(CallOptions.DEFAULT);
        read.cancel(true);
        assertThrows(CancellationException.class, read::join);
        CompletableFuture<Void> write =
                large.writeAsync(0, ByteBuffer.allocate(64 << 20), CallOptions.DEFAULT);
        write.cancel(true);
        assertThrows(CancellationException.class, write::join);
        CallOptions late = CallOptions.timeout(Duration.ZERO);
        Fails.with(Status.Code.DEADLINE_EXCEEDED, () -> large.read(late));
        Context.CancellableContext around = Context.current().withCancellation();
        around.cancel(null);
        Context before = around.attach();
        try {
            Fails.with(Status.Code.CANCELLED, () -> large.read());
        } finally {
            around.detach(before);
        }
        large.fill((byte) 7);
        assertEquals(7, large.read().bytes()[(64 << 20) - 1]);
        large.close();
        Fails.with(Status.Code.NOT_FOUND, () -> large.read());
    }

    /** What follows a future may ask for more, in the Context of who asked first. */
    @Test
    void oneAnswerLeadsToAnother() {
        Graph g = new Graph();
        g.output(g.param("x", DType.INT32, 2).add(1));
        NdArray x = NdArray.of(new int[] {1, 2});
        Context.Key<String> key = Context.key("who");
        Context.current()
                .withValue(key, "me")
                .run(
                        () -> {
                            CompletableFuture<String> chain =
                                    client.compileAsync(g.build(), null, CallOptions.DEFAULT)
                                            .thenCompose(program -> program.runAsync(x))
                                            .thenCompose(
                                                    results ->
                                                            client.uploadAsync(
                                                                    results.get(0),
                                                                    "",
                                                                    CallOptions.DEFAULT))
                                            .thenCompose(
                                                    made -> made.readAsync(CallOptions.DEFAULT))
                                            .thenApply(read -> read.ints()[1] + " of " + key.get());
                            assertEquals("3 of me", chain.join());
                        });
    }

    @Test
    void aCallIsPartOfItsTrace() {
        String id = "0af7651916cd43dd8448eb211c80319c";
        CallOptions traced =
                CallOptions.DEFAULT.withTraceparent("00-" + id + "-b7ad6b7169203331-01");
        client.allocateAsync(16, traced).join().close();
        ByteString bytes = ByteString.copyFrom(HexFormat.of().parseHex(id));
        assertTrue(
                client
                        .call(DebugServiceGrpc.getTraceMethod(), TraceRequest.getDefaultInstance())
                        .getCallsList()
                        .stream()
                        .anyMatch(call -> call.getTraceId().equals(bytes)));
    }

    @Test
    void aClientIsClosedOnce() {
        KilnClient other = KilnClient.connect("", MINUTE);
        DeviceBuffer made = other.stream().upload(NdArray.of(new int[] {1, 2}));
        other.close();
        other.close();
        Fails.with(Status.Code.CANCELLED, () -> other.allocate(16));
        Fails.with(Status.Code.CANCELLED, made::read);
        made.close();
        assertTrue(Arrays.equals(new long[] {2}, made.shape()));
    }
}
