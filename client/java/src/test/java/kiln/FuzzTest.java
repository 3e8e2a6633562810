package kiln;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.MessageLite;
import io.grpc.Metadata;
import io.grpc.Status;
import java.io.ByteArrayInputStream;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import kiln.inference.ModelInferResponse;
import kiln.inference.ModelMetadataResponse.TensorMetadata;
import kiln.v1.AllocateResponse;
import kiln.v1.BufferDescription;
import kiln.v1.CommandFailed;
import kiln.v1.CompileResponse;
import kiln.v1.ErrorCode;
import kiln.v1.ErrorDetail;
import kiln.v1.ExecuteResponse;
import kiln.v1.GradientResponse;
import kiln.v1.ReadResponse;
import kiln.v1.ResultValue;
import kiln.v1.Signature;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Answers that were changed at random: each is used, or refused by a KilnException; nothing else is
 * thrown, and nothing waits. `-Dkiln.fuzz=1000` does a thousand times as many.
 */
@Timeout(value = 6000)
class FuzzTest {
    private static final int TIMES = Integer.getInteger("kiln.fuzz", 1);
    private static final Random RANDOM = new Random(7);

    private interface Use {
        void of(byte[] message) throws InvalidProtocolBufferException;
    }

    /**
     * Some of the bytes other ones, some gone, some more, or a great number in the place of a small
     * one.
     */
    static byte[] mutated(byte[] message, Random random) {
        byte[] made = message.clone();
        for (int change = random.nextInt(4); change >= 0 && made.length > 0; change--) {
            int at = random.nextInt(made.length);
            switch (random.nextInt(5)) {
                case 0 -> made[at] ^= (byte) (1 << random.nextInt(8));
                case 1 -> made[at] = (byte) random.nextInt(256);
                case 2 -> made = Arrays.copyOf(made, at);
                case 3 -> made = spliced(made, at, new byte[] {made[random.nextInt(made.length)]});
                default -> {
                    byte[] huge = new byte[random.nextInt(10) + 1];
                    Arrays.fill(huge, (byte) 0xff);
                    huge[huge.length - 1] = (byte) random.nextInt(128);
                    made = spliced(made, at, huge);
                }
            }
        }
        return made;
    }

    private static byte[] spliced(byte[] message, int at, byte[] more) {
        ByteBuffer made = ByteBuffer.allocate(message.length + more.length);
        return made.put(message, 0, at).put(more).put(message, at, message.length - at).array();
    }

    private static void fuzz(int times, MessageLite honest, Use use) {
        byte[] bytes = honest.toByteArray();
        int used = 0;
        for (int time = 0; time < times * TIMES; time++) {
            byte[] lie = mutated(bytes, RANDOM);
            try {
                use.of(lie);
                used++;
            } catch (KilnException | InvalidProtocolBufferException refused) {
                // as it should be
            } catch (RuntimeException | Error fault) {
                throw new AssertionError("of " + ByteString.copyFrom(lie), fault);
            }
        }
        assertTrue(used > 0, "every one is refused: the message is no honest one");
    }

    private static Graph added() {
        Graph graph = new Graph();
        graph.output(graph.param("x", DType.FLOAT32, 4).add(1).sum().cast(DType.FLOAT16));
        return graph;
    }

    @Test
    void chunks() {
        ReadResponse said =
                ReadResponse.newBuilder().setChunk(ByteString.copyFrom(new byte[200])).build();
        fuzz(
                2000,
                said,
                lie ->
                        Chunks.reading(
                                        (from, bytes) -> {
                                            if (bytes > 200) {
                                                throw Failures.badServer(
                                                        "sent more than was asked for");
                                            }
                                            from.skipNBytes(bytes);
                                        })
                                .parseResponse(new ByteArrayInputStream(lie)));
    }

    @Test
    void errors() {
        ErrorDetail detail =
                ErrorDetail.newBuilder()
                        .setCode(ErrorCode.UNKNOWN_HANDLE)
                        .setNode(7)
                        .setOp("ADD")
                        .setLimit("x")
                        .build();
        com.google.rpc.Status.Builder status =
                com.google.rpc.Status.newBuilder().setCode(5).setMessage("so");
        status.addDetails(com.google.protobuf.Any.pack((Message) detail));
        Metadata.Key<byte[]> key =
                Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);
        fuzz(
                2000,
                status.build(),
                lie -> {
                    Metadata trailers = new Metadata();
                    trailers.put(key, lie);
                    assertTrue(
                            Failures.of(Status.NOT_FOUND, trailers, null).getMessage().length()
                                    > 0);
                    CommandFailed said =
                            CommandFailed.newBuilder().setStatus(ByteString.copyFrom(lie)).build();
                    assertTrue(Failures.ofCommand(said, 3).rethrown().getMessage().length() > 0);
                });
    }

    @Test
    void graphsAndGradients() {
        kiln.v1.Graph built = added().build();
        fuzz(3000, built, lie -> GraphHash.of(kiln.v1.Graph.parseFrom(lie)));
        GradientResponse.Builder said = GradientResponse.newBuilder().setGraph(built);
        said.addResults(Signature.Result.newBuilder().setDtype(DType.FLOAT16.wire).setBytes(2));
        fuzz(
                3000,
                said.build(),
                lie -> {
                    Graph g = new Graph();
                    Tensor x = g.param("x", DType.FLOAT32, 4);
                    g.output(g.append(GradientResponse.parseFrom(lie)).get(0).mul(2));
                    g.output(x);
                    g.build();
                });
    }

    @Test
    void answersOfModels() {
        ModelInferResponse.Builder said = ModelInferResponse.newBuilder();
        said.addOutputsBuilder().setName("y").setDatatype("FP32").addShape(2);
        said.addRawOutputContents(ByteString.copyFrom(new byte[8]));
        fuzz(
                3000,
                said.build(),
                lie ->
                        InferMessages.outputs(ModelInferResponse.parseFrom(lie), List.of())
                                .values()
                                .forEach(NdArray::numbers));
        TensorMetadata row =
                TensorMetadata.newBuilder().setName("x").setDatatype("INT64").addShape(-1).build();
        fuzz(1000, row, lie -> InferMessages.specs(List.of(TensorMetadata.parseFrom(lie))));
    }

    /** On its whole way, through gRPC. */
    @Test
    void repliesOnTheWire() {
        Signature.Builder signature = Signature.newBuilder();
        signature
                .addParametersBuilder()
                .setName("x")
                .setDtype(DType.FLOAT32.wire)
                .addShape(4)
                .setBytes(16);
        signature.addResultsBuilder().setDtype(DType.FLOAT32.wire).addShape(4).setBytes(16);
        BufferDescription.Builder buffer = BufferDescription.newBuilder().setHandle(9).setBytes(16);
        buffer.setDtype(DType.FLOAT32.wire).addShape(4);
        Random random = new Random(11);
        try (Liar liar = new Liar()) {
            liar.compile = request -> CompileResponse.newBuilder().setSignature(signature).build();
            liar.allocate = request -> AllocateResponse.newBuilder().setBuffer(buffer).build();
            liar.execute =
                    request ->
                            ExecuteResponse.newBuilder()
                                    .addResults(ResultValue.newBuilder().setBuffer(buffer))
                                    .build();
            liar.read =
                    request ->
                            List.of(
                                    ReadResponse.newBuilder()
                                            .setChunk(ByteString.copyFrom(new byte[16]))
                                            .build());
            KilnClient client = liar.client();
            for (int time = 0; time < 60 * TIMES; time++) {
                liar.mutation =
                        bytes -> {
                            synchronized (random) {
                                return random.nextInt(3) == 0 ? mutated(bytes, random) : bytes;
                            }
                        };
                tryAll(client);
                if (time % 10 == 9) {
                    close(client);
                    client = connected(liar);
                }
            }
            close(client);
        }
    }

    /** At once: what is not answered is not waited for. */
    private static void close(KilnClient client) {
        client.connection.close();
        client.close();
    }

    /** To connect, too, is tried with answers that lie. */
    private static KilnClient connected(Liar liar) {
        for (int time = 0; time < 3; time++) {
            tried(() -> KilnClient.connect(liar.address(), ConnectOptions.DEFAULT).close());
        }
        liar.mutation = bytes -> bytes;
        return liar.client();
    }

    private static void tryAll(KilnClient client) {
        CallOptions minute = CallOptions.timeout(Duration.ofMinutes(1));
        NdArray x = NdArray.of(new float[4]);
        tried(() -> client.compile(added(), null, minute).run(List.of(x), minute));
        tried(
                () ->
                        client.compile(added(), null, minute)
                                .runKeep(List.of(x), minute)
                                .forEach(DeviceBuffer::close));
        tried(() -> Operation.await(client.uploadAsync(x, "", minute)).read(minute));
        tried(
                () -> {
                    CommandStream stream = client.stream();
                    stream.read(stream.upload(x))
                            .handle(
                                    (read, failed) ->
                                            KilnException.of(
                                                    failed == null ? new Exception() : failed));
                    stream.fence(Duration.ofMillis(100));
                });
    }

    private static void tried(Runnable does) {
        try {
            does.run();
        } catch (KilnException refused) {
            // as it should be
        }
    }
}
