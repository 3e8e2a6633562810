package kiln;

import com.google.protobuf.ByteString;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import kiln.inference.GRPCInferenceServiceGrpc;
import kiln.inference.ModelInferRequest;
import kiln.inference.ModelMetadataResponse;
import kiln.inference.ModelStreamInferResponse;
import kiln.v1.AllocateRequest;
import kiln.v1.AllocateResponse;
import kiln.v1.BufferServiceGrpc;
import kiln.v1.CloseSessionResponse;
import kiln.v1.CommandDone;
import kiln.v1.CompileRequest;
import kiln.v1.CompileResponse;
import kiln.v1.Device;
import kiln.v1.DeviceServiceGrpc;
import kiln.v1.ExecuteRequest;
import kiln.v1.ExecuteResponse;
import kiln.v1.FreeResponse;
import kiln.v1.KernelServiceGrpc;
import kiln.v1.ListDevicesResponse;
import kiln.v1.OpenSessionResponse;
import kiln.v1.ReadRequest;
import kiln.v1.ReadResponse;
import kiln.v1.RenewSessionResponse;
import kiln.v1.SessionServiceGrpc;
import kiln.v1.SubmitRequest;
import kiln.v1.SubmitResponse;
import kiln.v1.SubmitWelcome;
import kiln.v1.WriteRequest;
import kiln.v1.WriteResponse;

/**
 * A server that answers as kilnd does, where nothing is computed, and whatever a test wants
 * instead.
 */
final class Liar implements AutoCloseable {
    /** What a stream's command brings; `to` is the stream's other direction. */
    interface Submit {
        void on(SubmitRequest request, StreamObserver<SubmitResponse> to, int connection);
    }

    volatile Function<AllocateRequest, AllocateResponse> allocate =
            request -> AllocateResponse.getDefaultInstance();
    volatile Function<CompileRequest, CompileResponse> compile =
            request -> CompileResponse.getDefaultInstance();
    volatile Function<ExecuteRequest, ExecuteResponse> execute =
            request -> ExecuteResponse.getDefaultInstance();
    volatile Function<ReadRequest, List<ReadResponse>> read = request -> List.of();
    volatile ModelMetadataResponse metadata = ModelMetadataResponse.getDefaultInstance();
    volatile BiConsumer<ModelInferRequest, StreamObserver<ModelStreamInferResponse>> inferStream =
            (request, to) -> {};
    volatile String advertised = ""; // at which address it says that it is itself
    volatile Submit submit = (request, to, connection) -> honest(request, to);
    volatile int leaseSeconds = 60;
    volatile Status renewal = Status.OK;
    volatile Status free = Status.OK;
    volatile boolean mayOpen = true; // also a second session
    volatile UnaryOperator<byte[]> mutation = UnaryOperator.identity(); // of every answer

    final AtomicInteger opens = new AtomicInteger();
    final AtomicInteger renewals = new AtomicInteger();
    final AtomicInteger streams = new AtomicInteger();
    final List<Long> freed = new CopyOnWriteArrayList<>();
    private final Server server;

    Liar() {
        NettyServerBuilder made =
                NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0));
        made.addService(devices()).addService(sessions()).addService(buffers());
        made.addService(models());
        try {
            server = made.addService(kernels()).build().start();
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    String address() {
        return "127.0.0.1:" + server.getPort();
    }

    KilnClient client() {
        ConnectOptions options = ConnectOptions.DEFAULT.withTimeout(Duration.ofMinutes(1));
        return KilnClient.connect(address(), options);
    }

    @Override
    public void close() {
        server.shutdownNow();
        try {
            server.awaitTermination();
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
    }

    private ServerServiceDefinition devices() {
        ListDevicesResponse.Builder said =
                ListDevicesResponse.newBuilder().setProtocolMin(1).setProtocolMax(1);
        said.addFeatures("sessions").addFeatures("submit");
        said.addDevices(Device.newBuilder().setName("CPU:0"));
        return ServerServiceDefinition.builder(DeviceServiceGrpc.SERVICE_NAME)
                .addMethod(
                        lied(DeviceServiceGrpc.getListMethod()),
                        ServerCalls.asyncUnaryCall(
                                (request, to) -> {
                                    ListDevicesResponse.Builder now = said.clone();
                                    answer(to, now.setAddress(advertised).build(), Status.OK);
                                }))
                .build();
    }

    private ServerServiceDefinition sessions() {
        return ServerServiceDefinition.builder(SessionServiceGrpc.SERVICE_NAME)
                .addMethod(
                        lied(SessionServiceGrpc.getOpenMethod()),
                        ServerCalls.asyncUnaryCall((request, to) -> open(to)))
                .addMethod(
                        lied(SessionServiceGrpc.getRenewMethod()),
                        ServerCalls.asyncUnaryCall(
                                (request, to) -> {
                                    renewals.incrementAndGet();
                                    answer(to, RenewSessionResponse.getDefaultInstance(), renewal);
                                }))
                .addMethod(
                        lied(SessionServiceGrpc.getCloseMethod()),
                        ServerCalls.asyncUnaryCall(
                                (request, to) ->
                                        answer(
                                                to,
                                                CloseSessionResponse.getDefaultInstance(),
                                                Status.OK)))
                .build();
    }

    private void open(StreamObserver<OpenSessionResponse> to) {
        boolean refuses = opens.incrementAndGet() > 1 && !mayOpen;
        OpenSessionResponse.Builder said =
                OpenSessionResponse.newBuilder().setLeaseSeconds(leaseSeconds);
        said.setToken(ByteString.copyFromUtf8("token"));
        answer(
                to,
                said.build(),
                refuses ? Status.RESOURCE_EXHAUSTED.withDescription("full") : Status.OK);
    }

    private ServerServiceDefinition buffers() {
        return ServerServiceDefinition.builder(BufferServiceGrpc.SERVICE_NAME)
                .addMethod(
                        lied(BufferServiceGrpc.getAllocateMethod()),
                        ServerCalls.asyncUnaryCall(
                                (request, to) -> {
                                    try {
                                        answer(to, allocate.apply(request), Status.OK);
                                    } catch (StatusRuntimeException refused) {
                                        to.onError(refused);
                                    }
                                }))
                .addMethod(
                        lied(BufferServiceGrpc.getFreeMethod()),
                        ServerCalls.asyncUnaryCall(
                                (request, to) -> {
                                    freed.addAll(request.getHandleList());
                                    answer(to, FreeResponse.getDefaultInstance(), free);
                                }))
                .addMethod(
                        lied(BufferServiceGrpc.getReadMethod()),
                        ServerCalls.asyncServerStreamingCall(
                                (request, to) -> {
                                    read.apply(request).forEach(to::onNext);
                                    to.onCompleted();
                                }))
                .addMethod(
                        lied(BufferServiceGrpc.getWriteMethod()),
                        ServerCalls.asyncClientStreamingCall(Liar::written))
                .build();
    }

    private static StreamObserver<WriteRequest> written(StreamObserver<WriteResponse> to) {
        return reading(
                request -> {}, () -> answer(to, WriteResponse.getDefaultInstance(), Status.OK));
    }

    private ServerServiceDefinition kernels() {
        return ServerServiceDefinition.builder(KernelServiceGrpc.SERVICE_NAME)
                .addMethod(
                        lied(KernelServiceGrpc.getCompileMethod()),
                        ServerCalls.asyncUnaryCall(
                                (request, to) -> {
                                    byte[] hash = GraphHash.of(request.getGraph());
                                    CompileResponse.Builder said =
                                            compile.apply(request).toBuilder();
                                    said.setGraphHash(ByteString.copyFrom(hash));
                                    answer(to, said.build(), Status.OK);
                                }))
                .addMethod(
                        lied(KernelServiceGrpc.getExecuteMethod()),
                        ServerCalls.asyncUnaryCall(
                                (request, to) -> answer(to, execute.apply(request), Status.OK)))
                .addMethod(
                        lied(KernelServiceGrpc.getSubmitMethod()),
                        ServerCalls.asyncBidiStreamingCall(this::stream))
                .build();
    }

    private ServerServiceDefinition models() {
        return ServerServiceDefinition.builder(GRPCInferenceServiceGrpc.SERVICE_NAME)
                .addMethod(
                        lied(GRPCInferenceServiceGrpc.getModelMetadataMethod()),
                        ServerCalls.asyncUnaryCall(
                                (request, to) -> answer(to, metadata, Status.OK)))
                .addMethod(
                        lied(GRPCInferenceServiceGrpc.getModelStreamInferMethod()),
                        ServerCalls.asyncBidiStreamingCall(
                                to ->
                                        reading(
                                                request -> inferStream.accept(request, to),
                                                to::onCompleted)))
                .build();
    }

    private StreamObserver<SubmitRequest> stream(StreamObserver<SubmitResponse> to) {
        int number = streams.incrementAndGet();
        return reading(request -> submit.on(request, to, number), to::onCompleted);
    }

    private static <Q> StreamObserver<Q> reading(
            java.util.function.Consumer<Q> take, Runnable end) {
        return new StreamObserver<>() {
            @Override
            public void onNext(Q request) {
                take.accept(request);
            }

            @Override
            public void onError(Throwable gone) {}

            @Override
            public void onCompleted() {
                end.run();
            }
        };
    }

    /** Null is no answer. */
    private static <A> void answer(StreamObserver<A> to, A said, Status status) {
        if (!status.isOk()) {
            to.onError(status.asRuntimeException());
        } else if (said != null) {
            to.onNext(said);
            to.onCompleted();
        }
    }

    /** The method whose answers are changed on their way. */
    private <Q, A> MethodDescriptor<Q, A> lied(MethodDescriptor<Q, A> method) {
        MethodDescriptor.Marshaller<A> real = method.getResponseMarshaller();
        MethodDescriptor.Marshaller<A> lying =
                new MethodDescriptor.Marshaller<>() {
                    @Override
                    public InputStream stream(A value) {
                        try (InputStream said = real.stream(value)) {
                            return new ByteArrayInputStream(mutation.apply(said.readAllBytes()));
                        } catch (IOException failed) {
                            throw new UncheckedIOException(failed);
                        }
                    }

                    @Override
                    public A parse(InputStream stream) {
                        return real.parse(stream);
                    }
                };
        return method.toBuilder(method.getRequestMarshaller(), lying).build();
    }

    static void honest(SubmitRequest request, StreamObserver<SubmitResponse> to) {
        if (request.hasHello()) {
            welcome(to, 0);
        } else if (request.getAnswer()) {
            done(to, request.getCommandId());
        }
    }

    static void welcome(StreamObserver<SubmitResponse> to, long answersLost) {
        SubmitWelcome.Builder said = SubmitWelcome.newBuilder().setProtocol(1);
        said.setAccepted(answersLost).setAnswersLost(answersLost);
        to.onNext(SubmitResponse.newBuilder().setWelcome(said).build());
    }

    static void done(StreamObserver<SubmitResponse> to, long command) {
        SubmitResponse.Builder said = SubmitResponse.newBuilder().setCommandId(command);
        to.onNext(said.setDone(CommandDone.getDefaultInstance()).build());
    }
}
