package kiln;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import kiln.v1.CompileOptions;
import kiln.v1.CompileResponse;
import kiln.v1.ErrorCode;
import kiln.v1.ExecuteRequest;
import kiln.v1.Signature;

/** A graph that a server has compiled. */
public final class Program {
    /** A parameter, or a variable. */
    record Taken(int slot, String name) {}

    final KilnClient client;
    final CompileOptions options; // null: the server's own
    final CompileResponse compiled;
    final List<Taken> takes;
    private final kiln.v1.Graph graph;

    private Program(
            KilnClient client,
            kiln.v1.Graph graph,
            CompileOptions options,
            CompileResponse compiled) {
        this.client = client;
        this.graph = graph;
        this.options = options;
        this.compiled = compiled;
        List<Taken> rows = new ArrayList<>();
        Signature signature = compiled.getSignature();
        signature
                .getParametersList()
                .forEach(row -> rows.add(new Taken(row.getSlot(), row.getName())));
        signature
                .getVariablesList()
                .forEach(row -> rows.add(new Taken(row.getSlot(), row.getName())));
        rows.sort(Comparator.comparing(Taken::slot, Integer::compareUnsigned));
        takes = List.copyOf(rows);
    }

    /** It computes the graph's hash itself, and believes no server that says another. */
    static Program of(
            KilnClient client,
            kiln.v1.Graph graph,
            CompileOptions options,
            CompileResponse answer) {
        byte[] own = GraphHash.of(graph);
        if (!ByteString.copyFrom(own).equals(answer.getGraphHash())) {
            HexFormat hex = HexFormat.of();
            String said = hex.formatHex(answer.getGraphHash().toByteArray());
            throw Failures.coded(
                    ErrorCode.HASH_MISMATCH,
                    Status.Code.INTERNAL,
                    "the server says the graph's hash is %s, it is %s",
                    said,
                    hex.formatHex(own));
        }
        if (!answer.hasSignature()) {
            throw Failures.badServer("compiled, and does not say to what");
        }
        int at = 0;
        for (Signature.Result row : answer.getSignature().getResultsList()) {
            int parameters = answer.getSignature().getParametersCount();
            if (row.hasAliases() && Integer.compareUnsigned(row.getAliases(), parameters) >= 0) {
                String number = Integer.toUnsignedString(row.getAliases());
                throw Failures.badServer(
                        "says that result %d is parameter %s of %d", at, number, parameters);
            }
            at++;
        }
        return new Program(client, graph, options, answer);
    }

    /** The graph's hash, 32 bytes. */
    public byte[] hash() {
        return compiled.getGraphHash().toByteArray();
    }

    /** What the program takes and gives. */
    public Signature signature() {
        return compiled.getSignature();
    }

    /** What was sent: nodes in failures are of it. */
    public kiln.v1.Graph graph() {
        return graph;
    }

    /**
     * Runs the program once and brings its results here. Arguments without a name or slot go to
     * parameters and variables in ascending order of slot. A parameter that the program stores to
     * is updated in place if it is a buffer.
     */
    public CompletableFuture<List<NdArray>> runAsync(
            List<? extends Argument> arguments, CallOptions options) {
        List<Argument> given = List.copyOf(arguments);
        return Operation.of(
                client.connection, options, operation -> new Execution(this, operation).run(given));
    }

    /** Runs the program once and brings its results here. */
    public CompletableFuture<List<NdArray>> runAsync(Argument... arguments) {
        return runAsync(List.of(arguments), CallOptions.DEFAULT);
    }

    /** Runs the program once and brings its results here, and waits. */
    public List<NdArray> run(List<? extends Argument> arguments, CallOptions options) {
        return Operation.await(runAsync(arguments, options));
    }

    /** Runs the program once and brings its results here, and waits. */
    public List<NdArray> run(Argument... arguments) {
        return Operation.await(runAsync(arguments));
    }

    /**
     * Runs the program once and leaves its results on the device. One that is a parameter after its
     * update is the buffer that was given.
     */
    public CompletableFuture<List<DeviceBuffer>> runKeepAsync(
            List<? extends Argument> arguments, CallOptions options) {
        List<Argument> given = List.copyOf(arguments);
        return Operation.of(
                client.connection,
                options,
                operation -> new Execution(this, operation).keep(given));
    }

    /** Runs the program once and leaves its results on the device, and waits. */
    public List<DeviceBuffer> runKeep(List<? extends Argument> arguments, CallOptions options) {
        return Operation.await(runKeepAsync(arguments, options));
    }

    /** Runs the program once and leaves its results on the device, and waits. */
    public List<DeviceBuffer> runKeep(Argument... arguments) {
        return runKeep(List.of(arguments), CallOptions.DEFAULT);
    }

    /** Gives arguments their slots. */
    SortedMap<Integer, Argument> bind(List<? extends Argument> arguments) {
        TreeMap<Integer, Argument> bound = new TreeMap<>(Integer::compareUnsigned);
        int next = 0;
        for (Argument argument : arguments) {
            Argument value = argument;
            Taken row;
            if (argument instanceof Argument.Named named) {
                value = named.value();
                row = find(named.name());
            } else if (argument instanceof Argument.InSlot slotted) {
                value = slotted.value();
                row = find(slotted.slot());
            } else {
                row = take(next++, arguments.size());
            }
            if (bound.putIfAbsent(row.slot, value) != null) {
                throw Failures.badArgument("\"%s\" is given twice", row.name);
            }
        }
        return bound;
    }

    private Taken find(String name) {
        for (Taken row : takes) {
            if (row.name.equals(name)) {
                return row;
            }
        }
        throw unknown("the program takes no \"%s\"", name);
    }

    private Taken find(int slot) {
        for (Taken row : takes) {
            if (row.slot == slot) {
                return row;
            }
        }
        throw unknown("the program takes nothing in slot %s", Integer.toUnsignedString(slot));
    }

    private Taken take(int at, int given) {
        if (at >= takes.size()) {
            throw unknown("%d arguments for a program of %d", given, takes.size());
        }
        return takes.get(at);
    }

    private static KilnException unknown(String format, Object... values) {
        return Failures.coded(
                ErrorCode.UNKNOWN_ARGUMENT, Status.Code.INVALID_ARGUMENT, format, values);
    }

    ExecuteRequest.Builder request(Map<Integer, Argument> bound) {
        ExecuteRequest.Builder request =
                ExecuteRequest.newBuilder()
                        .setGraphHash(compiled.getGraphHash())
                        .setDevice(client.device());
        if (options != null) {
            request.setOptions(options);
        }
        bound.forEach((slot, value) -> request.addArguments(message(slot, value)));
        return request;
    }

    private static kiln.v1.Argument message(int slot, Argument value) {
        kiln.v1.Argument.Builder made = kiln.v1.Argument.newBuilder().setSlot(slot);
        if (value instanceof NdArray array) {
            kiln.v1.Tensor.Builder tensor =
                    kiln.v1.Tensor.newBuilder()
                            .setDtype(array.dtype().wire)
                            .addAllShape(Shapes.boxed(array.shape()))
                            .setData(Memory.shared(array.memory()));
            made.setTensor(tensor);
        } else if (value instanceof DeviceBuffer buffer) {
            made.setBuffer(buffer.ref(0));
        } else if (value instanceof Argument.Part part) {
            made.setBuffer(part.buffer().ref(part.offset()));
        } else {
            made.setInteger(((Argument.Whole) value).value());
        }
        return made.build();
    }
}
