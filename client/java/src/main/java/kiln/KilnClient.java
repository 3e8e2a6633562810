package kiln;

import io.grpc.Channel;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import kiln.v1.AllocateRequest;
import kiln.v1.BufferServiceGrpc;
import kiln.v1.CompileOptions;
import kiln.v1.CompileRequest;
import kiln.v1.ErrorCode;
import kiln.v1.FreeRequest;
import kiln.v1.GradientRequest;
import kiln.v1.GradientResponse;
import kiln.v1.KernelServiceGrpc;
import kiln.v1.TensorType;

/** A connection to one kilnd. */
public final class KilnClient implements AutoCloseable {
    /** What is under way has so long to end when a client is closed. */
    private static final Duration FAREWELL = Duration.ofSeconds(5);

    final Connection connection;
    private final Greeting greeting;
    private final String device;
    private CommandStream stream;
    private boolean isClosed;

    KilnClient(Connection connection, Greeting greeting, String device) {
        this.connection = connection;
        this.greeting = greeting;
        this.device = device;
    }

    /** Connects to the kilnd where KILN_ADDR says, or on this machine. */
    public static KilnClient connect() {
        return connect("");
    }

    /**
     * Connects to the kilnd at an address: "host:port", or "unix:PATH"; "": where KILN_ADDR says,
     * or on this machine.
     */
    public static KilnClient connect(String address) {
        return connect(address, ConnectOptions.DEFAULT);
    }

    /** The same with options. It waits until the server is there, and says why if it is not. */
    public static KilnClient connect(String address, ConnectOptions options) {
        String target = address.isEmpty() ? System.getenv().getOrDefault("KILN_ADDR", "") : address;
        target = target.isEmpty() ? "localhost:7437" : target;
        return Greeting.connect(
                target, options, System.nanoTime() + Operation.nanos(options.timeout));
    }

    /** The server's: the address that was given, or its own behind a balancer. */
    public String address() {
        return connection.address;
    }

    /** What the server can do, by the names of docs/protocol.md. */
    public List<String> features() {
        return greeting.features();
    }

    /** The names of the server's devices. */
    public List<String> devices() {
        return greeting.devices();
    }

    /** For people: what a server can do, {@link #features} says. */
    public String serverVersion() {
        return greeting.serverVersion();
    }

    /** Where graphs are compiled and buffers are; empty: on the server's first device. */
    public String device() {
        return device;
    }

    /**
     * The connection, for stubs of kiln.v1 and kiln.inference, with the client's credentials and
     * session. Their failures are gRPC's own; {@link KilnException#of} reads them. It ends with the
     * client.
     */
    public Channel channel() {
        return connection.channel();
    }

    /**
     * Makes any call of the protocol with one answer, with the client's credentials, session,
     * retries and failures.
     */
    public <Q, A> CompletableFuture<A> callAsync(
            MethodDescriptor<Q, A> method, Q request, CallOptions options) {
        return Operation.of(connection, options, operation -> operation.call(method, request));
    }

    /**
     * Makes any call of the protocol with one answer, and waits:
     * `call(DeviceServiceGrpc.getListMethod(), request)`.
     */
    public <Q, A> A call(MethodDescriptor<Q, A> method, Q request) {
        return Operation.await(callAsync(method, request, CallOptions.DEFAULT));
    }

    /** Compiles a graph, or finds it compiled. The compiler's options may be null. */
    public CompletableFuture<Program> compileAsync(
            kiln.v1.Graph graph, CompileOptions compiler, CallOptions options) {
        CompileRequest.Builder request =
                CompileRequest.newBuilder().setGraph(graph).setDevice(device);
        if (compiler != null) {
            request.setOptions(compiler);
        }
        return Operation.of(
                connection,
                options,
                operation ->
                        operation
                                .call(KernelServiceGrpc.getCompileMethod(), request.build())
                                .thenApply(answer -> Program.of(this, graph, compiler, answer)));
    }

    /** Compiles a graph, or finds it compiled, and waits. The compiler's options may be null. */
    public Program compile(kiln.v1.Graph graph, CompileOptions compiler, CallOptions options) {
        return Operation.await(compileAsync(graph, compiler, options));
    }

    /** Compiles a graph, or finds it compiled, and waits. The compiler's options may be null. */
    public Program compile(Graph graph, CompileOptions compiler, CallOptions options) {
        int outputs = graph.resultCount();
        Program made = compile(graph.build(), compiler, options);
        int results = made.signature().getResultsCount();
        if (results != outputs) {
            throw Failures.badServer("says that %d outputs give %d results", outputs, results);
        }
        return made;
    }

    /** Compiles a graph, or finds it compiled, and waits. */
    public Program compile(Graph graph) {
        return compile(graph, null, CallOptions.DEFAULT);
    }

    /**
     * Asks the server for the graph of a result's gradient with respect to parameters, as the
     * request says. The answer's graph can be compiled, or put into another ({@link Graph#append}).
     */
    public CompletableFuture<GradientResponse> gradientAsync(
            GradientRequest request, CallOptions options) {
        return callAsync(KernelServiceGrpc.getGradientMethod(), request, options);
    }

    /**
     * Asks for the graph of a graph's results and of the gradient of the first, which has one
     * element, with respect to parameters by their slots, and waits.
     */
    public GradientResponse gradient(Graph graph, int... slots) {
        GradientRequest.Builder request =
                GradientRequest.newBuilder().setGraph(graph.build()).setIncludeResults(true);
        Arrays.stream(slots).forEach(request::addWrtSlot);
        return Operation.await(gradientAsync(request.build(), CallOptions.DEFAULT));
    }

    /** Makes a buffer of zeros without a type, and waits. */
    public DeviceBuffer allocate(long bytes) {
        return Operation.await(allocateAsync(bytes, CallOptions.DEFAULT));
    }

    /** Makes a buffer of zeros without a type. */
    public CompletableFuture<DeviceBuffer> allocateAsync(long bytes, CallOptions options) {
        if (bytes < 0) {
            throw Failures.badArgument("allocate: %d is no number of bytes", bytes);
        }
        AllocateRequest.Builder request =
                AllocateRequest.newBuilder().setDevice(device).setBytes(bytes);
        return Operation.of(connection, options, operation -> allocated(operation, request, bytes));
    }

    /** Makes a buffer with an array of zeros on a device of that name; empty: on the client's. */
    public CompletableFuture<DeviceBuffer> zerosAsync(
            DType dtype, long[] shape, String where, CallOptions options) {
        return Operation.of(
                connection, options, operation -> zeros(operation, dtype, shape, where));
    }

    /** Makes a buffer with an array of zeros, and waits. */
    public DeviceBuffer zeros(DType dtype, long... shape) {
        return Operation.await(zerosAsync(dtype, shape, device, CallOptions.DEFAULT));
    }

    private CompletableFuture<DeviceBuffer> zeros(
            Operation operation, DType dtype, long[] shape, String where) {
        TensorType.Builder type =
                TensorType.newBuilder().setDtype(dtype.wire).addAllShape(Shapes.boxed(shape));
        AllocateRequest.Builder request =
                AllocateRequest.newBuilder()
                        .setDevice(where.isEmpty() ? device : where)
                        .setType(type);
        return allocated(operation, request, Shapes.bytes(dtype, shape));
    }

    private CompletableFuture<DeviceBuffer> allocated(
            Operation operation, AllocateRequest.Builder request, long bytes) {
        return operation
                .call(BufferServiceGrpc.getAllocateMethod(), request.build())
                .thenApply(
                        answer -> {
                            if (!answer.hasBuffer() || answer.getBuffer().getBytes() != bytes) {
                                String said = Long.toUnsignedString(answer.getBuffer().getBytes());
                                throw Failures.badServer(
                                        "made a buffer of %s bytes, not %d", said, bytes);
                            }
                            return DeviceBuffer.of(this, answer.getBuffer());
                        });
    }

    /** Makes a buffer with an array on a device of that name; empty: on the client's. */
    public CompletableFuture<DeviceBuffer> uploadAsync(
            NdArray array, String where, CallOptions options) {
        return Operation.of(connection, options, operation -> upload(operation, array, where));
    }

    /** Makes a buffer with an array, and waits. */
    public DeviceBuffer upload(NdArray array) {
        return Operation.await(uploadAsync(array, device, CallOptions.DEFAULT));
    }

    CompletableFuture<DeviceBuffer> upload(Operation operation, NdArray array, String where) {
        return zeros(operation, array.dtype(), array.shape(), where)
                .thenCompose(
                        made -> {
                            if (made.bytes() == 0) {
                                return CompletableFuture.completedFuture(made);
                            }
                            return Transfers.write(
                                            operation,
                                            made.ref(0),
                                            Transfers.from(array.memory()),
                                            made.bytes())
                                    .whenComplete(
                                            (written, failed) -> {
                                                if (failed != null) {
                                                    made.free(operation.regardless());
                                                }
                                            })
                                    .thenApply(written -> made);
                        });
    }

    /**
     * Records calls of programs that store to their parameters; results that would be new memory
     * have no place here.
     */
    public CompletableFuture<Recording> recordAsync(
            List<Recording.Step> steps, CallOptions options) {
        List<Recording.Step> given = List.copyOf(steps);
        return Operation.of(connection, options, operation -> Recording.of(this, operation, given));
    }

    /** Records calls of programs, and waits. */
    public Recording record(List<Recording.Step> steps) {
        return Operation.await(recordAsync(steps, CallOptions.DEFAULT));
    }

    /** Does what several devices do with one tensor together. */
    public CompletableFuture<Void> collectiveAsync(Collective what, CallOptions options) {
        return Operation.of(
                connection,
                options,
                operation ->
                        operation.call(what.kind.method, what.request()).thenApply(answer -> null));
    }

    /** Does what several devices do with one tensor together, and waits. */
    public void collective(Collective what) {
        Operation.await(collectiveAsync(what, CallOptions.DEFAULT));
    }

    /**
     * Asks for the models in the server's folder, with what has become of each version; for who may
     * administer the server.
     */
    public CompletableFuture<List<ServedModel.Row>> modelsAsync(CallOptions options) {
        return ServedModel.index(connection, options);
    }

    /** Asks for the models in the server's folder, and waits. */
    public List<ServedModel.Row> models() {
        return Operation.await(modelsAsync(CallOptions.DEFAULT));
    }

    /**
     * Finds a model that the server serves, and asks what it takes and gives. Without a version,
     * which is then empty, it is the greatest that is ready when a request comes.
     */
    public CompletableFuture<ServedModel> modelAsync(
            String name, String version, CallOptions options) {
        return ServedModel.find(connection, name, version, options);
    }

    /** Finds a version of a model that the server serves, and waits. */
    public ServedModel model(String name, String version) {
        return Operation.await(modelAsync(name, version, CallOptions.DEFAULT));
    }

    /** Finds a model that the server serves, and waits. */
    public ServedModel model(String name) {
        return model(name, "");
    }

    /**
     * The client's stream of commands. It is begun when it is first asked for, and anew when its
     * session has ended.
     */
    public synchronized CommandStream stream() {
        if (isClosed) {
            throw Failures.closed();
        }
        if (!greeting.features().contains("submit") || connection.session.token() == null) {
            throw Failures.coded(
                    ErrorCode.NOT_IMPLEMENTED,
                    Status.Code.UNIMPLEMENTED,
                    "the server has no streams of commands under a session");
        }
        if (stream == null || stream.link.hasEnded()) {
            stream = new CommandStream(this, stream);
        }
        return stream;
    }

    /** Frees a buffer that nobody can reach: behind the commands that may still use it. */
    void forget(long handle) {
        CommandStream current;
        synchronized (this) {
            if (isClosed) {
                return;
            }
            current = stream;
        }
        if (current == null || !current.forget(handle)) {
            FreeRequest request = FreeRequest.newBuilder().addHandle(handle).build();
            Operation.unasked(connection, FAREWELL)
                    .call(BufferServiceGrpc.getFreeMethod(), request);
        }
    }

    /**
     * Ends the session, with all that was made under it, and the connection; what is under way has
     * 5 s to end.
     */
    @Override
    public void close() {
        CommandStream last;
        synchronized (this) {
            if (isClosed) {
                return;
            }
            isClosed = true;
            last = stream;
        }
        if (last != null) {
            last.link.close(FAREWELL);
        }
        connection.session.close(FAREWELL);
        connection.close();
    }
}
