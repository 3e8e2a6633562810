package kiln.adapter;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Function;
import kiln.Argument;
import kiln.CallOptions;
import kiln.Collective;
import kiln.CommandStream;
import kiln.ConnectOptions;
import kiln.DeviceBuffer;
import kiln.GraphHash;
import kiln.KilnClient;
import kiln.KilnException;
import kiln.NdArray;
import kiln.Program;
import kiln.Recording;
import kiln.Reduction;
import kiln.v1.BufferServiceGrpc;
import kiln.v1.DescribeBufferRequest;
import kiln.v1.GradientRequest;

/** What the adapter is asked, by name. */
final class Requests {
    private static final Map<String, Reduction> REDUCTIONS =
            Map.of("sum", Reduction.SUM, "prod", Reduction.PRODUCT, "max", Reduction.MAXIMUM);

    /** One of several clients; whether requests go by its stream. */
    private record Connected(KilnClient client, boolean byStream) {
        CommandStream stream() {
            return client.stream();
        }
    }

    private final Map<String, Connected> clients = new HashMap<>();
    private final Map<String, Program> programs = new HashMap<>();
    private final Map<String, DeviceBuffer> buffers = new HashMap<>();
    private final Map<String, Recording> recordings = new HashMap<>();
    private final Map<String, CompletableFuture<JsonObject>> begun = new HashMap<>();
    private final ModelRequests models = new ModelRequests(r -> one(r).client);
    private Bench bench;
    private final ExecutorService beside =
            Executors.newCachedThreadPool(
                    work -> {
                        Thread made = new Thread(work, "beside");
                        made.setDaemon(true);
                        return made;
                    });
    private final Map<String, Function<Ask, JsonObject>> requests = new HashMap<>();

    Requests() {
        requests.put("reset", r -> reset());
        requests.put("connect", this::connect);
        requests.put("close", r -> nothing(clients.remove(r.text("client")).client::close));
        requests.put("hash", r -> with("hash", HexFormat.of().formatHex(GraphHash.of(r.graph()))));
        requests.put("build", r -> graph(Build.graph(r.list("calls"))));
        requests.put("compile", this::compile);
        requests.put("gradient", this::gradient);
        requests.put("upload", this::upload);
        requests.put("allocate", this::allocate);
        requests.put(
                "write",
                r ->
                        nothing(
                                () ->
                                        buffer(r)
                                                .write(
                                                        r.number("offset"),
                                                        ByteBuffer.wrap(r.data("data")),
                                                        r.options())));
        requests.put("read", this::read);
        requests.put("free", this::free);
        requests.put("handle", r -> with("handle", Long.toUnsignedString(buffer(r).handle())));
        requests.put("describe", this::describe);
        requests.put("run", this::run);
        requests.put("bench", this::bench);
        requests.put("run_files", r -> FileRun.of(one(r).client, r));
        requests.put("unchecked_run", this::uncheckedRun);
        requests.put(
                "begin",
                r ->
                        nothing(
                                () ->
                                        begun.put(
                                                r.text("as"),
                                                CompletableFuture.supplyAsync(
                                                        () ->
                                                                answer(
                                                                        r.json()
                                                                                .getAsJsonObject(
                                                                                        "request")),
                                                        beside))));
        requests.put("end", r -> begun.remove(r.text("of")).join());
        requests.put(
                "fence",
                r ->
                        nothing(
                                () -> {
                                    if (one(r).byStream) {
                                        one(r).stream().fence();
                                    }
                                }));
        requests.put("record", this::record);
        requests.put(
                "replay",
                r ->
                        nothing(
                                () ->
                                        recordings
                                                .get(r.text("recording"))
                                                .replay(
                                                        named(r, "buffers")
                                                                .toArray(DeviceBuffer[]::new))));
        requests.put("collective", this::collective);
        requests.put("transfer", this::transfer);
        models.addTo(requests);
    }

    JsonObject answer(JsonObject json) {
        Ask request = new Ask(json);
        Function<Ask, JsonObject> does = requests.get(request.text("do"));
        if (does == null) {
            return with("unsupported", request.text("do"));
        }
        try {
            return does.apply(request);
        } catch (RuntimeException failed) {
            JsonObject made = new JsonObject();
            made.add("error", Main.told(failed));
            return made;
        }
    }

    private static JsonObject with(String name, String value) {
        JsonObject made = new JsonObject();
        made.addProperty(name, value);
        return made;
    }

    private JsonObject bench(Ask r) {
        if (r.text("what").equals("prepare")) {
            bench = new Bench(r);
            return new JsonObject();
        }
        return bench.measure(r);
    }

    private static JsonObject nothing(Runnable does) {
        does.run();
        return new JsonObject();
    }

    private static JsonObject graph(kiln.v1.Graph graph) {
        return with("graph", Ask.base64(graph.toByteString().asReadOnlyByteBuffer()));
    }

    private Connected one(Ask request) {
        return clients.get(request.text("client"));
    }

    private DeviceBuffer buffer(Ask request) {
        return buffers.get(request.text("buffer"));
    }

    private List<DeviceBuffer> named(Ask request, String field) {
        return request.names(field).stream().map(buffers::get).toList();
    }

    private JsonObject reset() {
        clients.values().forEach(one -> one.client.close());
        clients.clear();
        programs.clear();
        buffers.clear();
        recordings.clear();
        begun.clear();
        models.clear();
        return new JsonObject();
    }

    private JsonObject connect(Ask r) {
        ConnectOptions options = ConnectOptions.DEFAULT;
        options = r.has("token") ? options.withToken(r.text("token")) : options;
        options =
                r.has("token_file")
                        ? options.withTokenFile(Path.of(r.text("token_file")))
                        : options;
        options = r.has("ca") ? options.withAuthority(Path.of(r.text("ca"))) : options;
        if (r.has("certificate")) {
            options =
                    options.withCertificate(Path.of(r.text("certificate")), Path.of(r.text("key")));
        }
        if (r.has("lease_seconds")) {
            options = options.withLease(Duration.ofSeconds(r.number("lease_seconds")));
        }
        if (r.has("timeout_ms")) {
            options = options.withTimeout(Duration.ofMillis(r.number("timeout_ms")));
        }
        KilnClient client = KilnClient.connect(r.text("address"), options);
        boolean hasStreams = client.features().contains("submit"); // one without is called
        clients.put(
                r.text("client"),
                new Connected(
                        client,
                        hasStreams
                                && r.json().has("stream")
                                && r.json().get("stream").getAsBoolean()));
        JsonObject made = new JsonObject();
        made.add("features", Ask.list(client.features()));
        made.add("devices", Ask.list(client.devices()));
        return made;
    }

    private JsonObject compile(Ask r) {
        Program program = one(r).client.compile(r.graph(), null, r.options());
        programs.put(r.text("as"), program);
        return with("hash", HexFormat.of().formatHex(program.hash()));
    }

    private JsonObject gradient(Ask r) {
        GradientRequest.Builder request = GradientRequest.newBuilder().setGraph(r.graph());
        r.list("wrt").forEach(slot -> request.addWrtSlot(slot.getAsInt()));
        return graph(
                Waits.waited(one(r).client.gradientAsync(request.build(), CallOptions.DEFAULT))
                        .getGraph());
    }

    private JsonObject upload(Ask r) {
        NdArray array = Ask.array(r.json().getAsJsonObject("tensor"));
        buffers.put(
                r.text("as"),
                one(r).byStream
                        ? one(r).stream().upload(array)
                        : Waits.waited(
                                one(r).client.uploadAsync(array, r.text("device"), r.options())));
        return new JsonObject();
    }

    private JsonObject allocate(Ask r) {
        buffers.put(r.text("as"), one(r).client.allocate(r.number("bytes")));
        return new JsonObject();
    }

    private JsonObject read(Ask r) {
        if (r.has("bytes")) {
            ByteBuffer data = ByteBuffer.allocate((int) r.number("bytes"));
            buffer(r).read(r.number("offset"), data);
            return with("data", Ask.base64(data.flip()));
        }
        JsonObject made = new JsonObject();
        made.add("tensor", Ask.said(fetch(one(r), buffer(r), r.options())));
        return made;
    }

    private static NdArray fetch(Connected one, DeviceBuffer buffer, CallOptions options) {
        return one.byStream ? Waits.waited(one.stream().read(buffer)) : buffer.read(options);
    }

    private JsonObject free(Ask r) {
        for (String name : r.names("buffers")) {
            if (one(r).byStream) {
                one(r).stream().free(buffers.get(name));
            } else {
                buffers.get(name).free();
            }
            buffers.remove(name);
        }
        return new JsonObject();
    }

    /** By a stub: of a handle, whosever it is. */
    private JsonObject describe(Ask r) {
        DescribeBufferRequest request =
                DescribeBufferRequest.newBuilder().setHandle(r.number("handle")).build();
        JsonObject made = new JsonObject();
        try {
            long bytes =
                    BufferServiceGrpc.newBlockingStub(one(r).client.channel())
                            .describe(request)
                            .getBuffer()
                            .getBytes();
            made.addProperty("bytes", bytes);
        } catch (RuntimeException failed) {
            throw KilnException.of(failed);
        }
        return made;
    }

    private JsonObject run(Ask r) {
        Program program = programs.get(r.text("program"));
        List<Argument> arguments = new ArrayList<>();
        for (JsonElement item : r.list("arguments")) {
            Ask argument = new Ask(item.getAsJsonObject());
            if (argument.has("tensor")) {
                arguments.add(Ask.array(argument.json().getAsJsonObject("tensor")));
            } else if (argument.has("integer")) {
                arguments.add(Argument.integer(argument.json().get("integer").getAsLong()));
            } else {
                arguments.add(buffer(argument));
            }
        }
        if (r.has("keep")) {
            List<DeviceBuffer> results = keep(r, program, arguments);
            List<String> names = r.names("keep");
            for (int at = 0; at < names.size(); at++) {
                buffers.put(names.get(at), results.get(at));
            }
            return new JsonObject();
        }
        JsonArray tensors = new JsonArray();
        Waits.waited(program.runAsync(arguments, r.options()), r)
                .forEach(array -> tensors.add(Ask.said(array)));
        JsonObject made = new JsonObject();
        made.add("results", tensors);
        return made;
    }

    private List<DeviceBuffer> keep(Ask r, Program program, List<Argument> arguments) {
        return one(r).byStream
                ? one(r).stream().run(r.text("tag"), program, arguments)
                : program.runKeep(arguments, r.options());
    }

    /** As run, of one buffer: this client checks nothing that the server does. */
    private JsonObject uncheckedRun(Ask r) {
        List<DeviceBuffer> results = keep(r, programs.get(r.text("program")), List.of(buffer(r)));
        buffers.put(r.text("keep"), results.get(0));
        return new JsonObject();
    }

    private JsonObject record(Ask r) {
        List<Recording.Step> steps = new ArrayList<>();
        for (JsonElement row : r.list("steps")) {
            Program program = programs.get(row.getAsJsonArray().get(0).getAsString());
            steps.add(Recording.Step.of(program, Ask.ints(row.getAsJsonArray().get(1))));
        }
        recordings.put(r.text("as"), one(r).client.record(steps));
        return new JsonObject();
    }

    private JsonObject collective(Ask r) {
        Collective.Kind kind = Collective.Kind.valueOf(r.text("kind").toUpperCase(Locale.ROOT));
        Collective what =
                Collective.of(kind, named(r, "inputs"), named(r, "outputs"))
                        .with(REDUCTIONS.getOrDefault(r.text("op"), Reduction.SUM))
                        .withRoot((int) r.number("root"));
        one(r).client.collective(what);
        return new JsonObject();
    }

    private JsonObject transfer(Ask r) {
        byte[] sent = new byte[(int) r.number("bytes")];
        for (int at = 0; at < sent.length; at++) {
            sent[at] = (byte) (at % 251);
        }
        Connected one = one(r);
        NdArray array = NdArray.of(sent);
        DeviceBuffer buffer = one.byStream ? one.stream().upload(array) : one.client.upload(array);
        byte[] read = fetch(one, buffer, r.options()).bytes();
        int wrong = 0;
        for (int at = 0; at < sent.length; at++) {
            wrong += sent[at] == read[at] ? 0 : 1;
        }
        buffer.free();
        JsonObject made = new JsonObject();
        made.addProperty("wrong", wrong);
        return made;
    }
}
