package kiln.adapter;

import com.google.gson.JsonObject;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.function.IntConsumer;
import java.util.function.IntFunction;
import kiln.CallOptions;
import kiln.CommandStream;
import kiln.DeviceBuffer;
import kiln.GraphHash;
import kiln.KilnClient;
import kiln.NdArray;
import kiln.Program;
import kiln.v1.AllocateRequest;
import kiln.v1.Argument;
import kiln.v1.BufferRef;
import kiln.v1.BufferServiceGrpc;
import kiln.v1.DType;
import kiln.v1.ExecuteCommand;
import kiln.v1.ExecuteRequest;
import kiln.v1.FenceCommand;
import kiln.v1.KernelServiceGrpc;
import kiln.v1.ReadRequest;
import kiln.v1.ReadResponse;
import kiln.v1.ResultMode;
import kiln.v1.SubmitHello;
import kiln.v1.SubmitRequest;
import kiln.v1.SubmitResponse;
import kiln.v1.TensorType;
import kiln.v1.WriteHeader;
import kiln.v1.WriteRequest;
import kiln.v1.WriteResponse;

/**
 * What `bench` measures: a client's calls, and the same by gRPC alone, with the generated stubs.
 */
final class Bench {
    private static final int CHUNK = 1 << 20;

    private final float[] values = {0, 1, 2, 3};
    private final CommandStream stream;
    private final Program program;
    private final Program step;
    private final DeviceBuffer counter;
    private final DeviceBuffer block;
    private final byte[] data;
    private final kiln.v1.Graph large;
    private final KernelServiceGrpc.KernelServiceBlockingStub kernels;
    private final KernelServiceGrpc.KernelServiceStub streams;
    private final BufferServiceGrpc.BufferServiceBlockingStub buffers;
    private final BufferServiceGrpc.BufferServiceStub uploads;
    private final BufferRef bareCounter;
    private final BufferRef bareBlock;
    private final Map<String, IntConsumer> works =
            Map.of(
                    "kiln_execute", this::execute,
                    "bare_execute", this::bareExecute,
                    "kiln_submit", this::submit,
                    "bare_submit", this::bareSubmit,
                    "kiln_upload", this::upload,
                    "bare_upload", this::bareUpload,
                    "kiln_download", this::download,
                    "bare_download", this::bareDownload,
                    "kiln_hash", this::hash);

    Bench(Ask r) {
        KilnClient client = KilnClient.connect(r.text("address"));
        stream = client.stream();
        program = client.compile(r.graph("affine"), null, CallOptions.DEFAULT);
        step = client.compile(r.graph("counting"), null, CallOptions.DEFAULT);
        large = r.graph("large");
        data = new byte[(int) r.number("bytes")];
        for (int at = 0; at < data.length; at++) {
            data[at] = (byte) (at % 251);
        }
        counter = client.upload(NdArray.of(new int[4]));
        block = client.upload(NdArray.of(data));
        ManagedChannel channel =
                ManagedChannelBuilder.forTarget(r.text("address")).usePlaintext().build();
        kernels = KernelServiceGrpc.newBlockingStub(channel);
        streams = KernelServiceGrpc.newStub(channel);
        buffers = BufferServiceGrpc.newBlockingStub(channel);
        uploads = BufferServiceGrpc.newStub(channel);
        TensorType type = TensorType.newBuilder().setDtype(DType.INT32).addShape(4).build();
        bareCounter = allocated(AllocateRequest.newBuilder().setType(type));
        bareBlock = allocated(AllocateRequest.newBuilder().setBytes(data.length));
    }

    private BufferRef allocated(AllocateRequest.Builder request) {
        long handle = buffers.allocate(request.build()).getBuffer().getHandle();
        return BufferRef.newBuilder().setHandle(handle).build();
    }

    JsonObject measure(Ask r) {
        String kind = r.json().get("bare").getAsBoolean() ? "bare_" : "kiln_";
        IntConsumer work = works.get(kind + r.text("what"));
        long begun = System.nanoTime();
        work.accept((int) r.number("count"));
        JsonObject made = new JsonObject();
        made.addProperty("seconds", (System.nanoTime() - begun) / 1e9);
        return made;
    }

    private void execute(int count) {
        for (int at = 0; at < count; at++) {
            program.run(NdArray.of(values)).get(0).floats();
        }
    }

    private void bareExecute(int count) {
        for (int at = 0; at < count; at++) {
            ByteBuffer bytes = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
            bytes.asFloatBuffer().put(values);
            kiln.v1.Tensor.Builder tensor = kiln.v1.Tensor.newBuilder().setDtype(DType.FLOAT32);
            tensor.addShape(4).setData(ByteString.copyFrom(bytes));
            ExecuteRequest.Builder request = ExecuteRequest.newBuilder();
            request.setGraphHash(ByteString.copyFrom(program.hash()));
            request.addArguments(Argument.newBuilder().setTensor(tensor));
            request.setResultMode(ResultMode.RESULT_INLINE);
            ByteString said = kernels.execute(request.build()).getResults(0).getTensor().getData();
            said.asReadOnlyByteBuffer()
                    .order(ByteOrder.LITTLE_ENDIAN)
                    .asFloatBuffer()
                    .get(new float[4]);
        }
    }

    private void submit(int count) {
        for (int at = 0; at < count; at++) {
            stream.run(step, counter);
        }
        stream.fence();
    }

    private void bareSubmit(int count) {
        ByteString hash = ByteString.copyFrom(step.hash());
        Sending<SubmitRequest, SubmitResponse> sending = new Sending<>();
        streams.submit(sending);
        sending.all(
                count + 2,
                at -> {
                    SubmitRequest.Builder request = SubmitRequest.newBuilder().setCommandId(at);
                    if (at == 0) {
                        return request.setHello(SubmitHello.getDefaultInstance()).build();
                    }
                    if (at == count + 1) {
                        return request.setFence(FenceCommand.getDefaultInstance()).build();
                    }
                    ExecuteRequest.Builder execute = ExecuteRequest.newBuilder().setGraphHash(hash);
                    execute.addArguments(Argument.newBuilder().setBuffer(bareCounter));
                    return request.setExecute(ExecuteCommand.newBuilder().setRequest(execute))
                            .build();
                });
    }

    private void upload(int count) {
        for (int at = 0; at < count; at++) {
            block.write(0, ByteBuffer.wrap(data));
        }
    }

    private void bareUpload(int count) {
        int chunks = (data.length + CHUNK - 1) / CHUNK;
        WriteHeader header =
                WriteHeader.newBuilder().setBuffer(bareBlock).setBytes(data.length).build();
        for (int number = 0; number < count; number++) {
            Sending<WriteRequest, WriteResponse> sending = new Sending<>();
            uploads.write(sending);
            sending.all(
                    chunks + 1,
                    at -> {
                        if (at == 0) {
                            return WriteRequest.newBuilder().setHeader(header).build();
                        }
                        int begin = (at - 1) * CHUNK;
                        int bytes = Math.min(CHUNK, data.length - begin);
                        ByteString part = UnsafeByteOperations.unsafeWrap(data, begin, bytes);
                        return WriteRequest.newBuilder().setChunk(part).build();
                    });
        }
    }

    private void download(int count) {
        for (int at = 0; at < count; at++) {
            block.read();
        }
    }

    private void bareDownload(int count) {
        ReadRequest request = ReadRequest.newBuilder().setBuffer(bareBlock).build();
        for (int number = 0; number < count; number++) {
            byte[] made = new byte[data.length];
            int at = 0;
            Iterator<ReadResponse> answers = buffers.read(request);
            while (answers.hasNext()) {
                ByteString chunk = answers.next().getChunk();
                chunk.copyTo(made, at);
                at += chunk.size();
            }
        }
    }

    private void hash(int count) {
        for (int at = 0; at < count; at++) {
            GraphHash.of(large);
        }
    }

    /** Sends as fast as the other side takes it, and waits for the call's end. */
    private static final class Sending<Q, A> implements ClientResponseObserver<Q, A> {
        private final CompletableFuture<Void> ended = new CompletableFuture<>();
        private final Semaphore ready = new Semaphore(0);
        private ClientCallStreamObserver<Q> to;

        @Override
        public void beforeStart(ClientCallStreamObserver<Q> call) {
            to = call;
            call.setOnReadyHandler(ready::release);
        }

        void all(int count, IntFunction<Q> message) {
            for (int at = 0; at < count; at++) {
                while (!to.isReady()) {
                    ready.acquireUninterruptibly();
                }
                to.onNext(message.apply(at));
            }
            to.onCompleted();
            ended.join();
        }

        @Override
        public void onNext(A answer) {
            if (answer instanceof SubmitResponse said && said.hasFailed()) {
                ended.completeExceptionally(new IllegalStateException("a command failed"));
            }
        }

        @Override
        public void onError(Throwable failed) {
            ended.completeExceptionally(failed);
            ready.release(1 << 20);
        }

        @Override
        public void onCompleted() {
            ended.complete(null);
        }
    }
}
