package kiln;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import kiln.inference.GRPCInferenceServiceGrpc;
import kiln.inference.ModelInferRequest;
import kiln.inference.ModelInferResponse;
import kiln.inference.ModelMetadataRequest;
import kiln.inference.ModelMetadataResponse;
import kiln.inference.ModelReadyRequest;
import kiln.inference.ModelReadyResponse;
import kiln.inference.RepositoryIndexRequest;

/**
 * A model that the server has in its folder (docs/serving.md): arrays go in by name, and come out
 * by name. What of it may be asked, and how much at a time, the server says; a request with its
 * answer is one message each way, of 192 MiB unless the server is set otherwise, and answers of at
 * most 256 MiB are taken.
 */
public final class ServedModel {
    /**
     * What has become of one version of a model in the server's folder.
     *
     * @param name the model's
     * @param version a number, as text
     * @param state "READY", "UNAVAILABLE" or "LOADING"
     * @param reason why it could not be loaded; beside READY, why its newest files could not
     */
    public record Row(String name, String version, String state, String reason) {}

    /**
     * One of a model's inputs or outputs.
     *
     * @param name by which its array is given
     * @param dtype of its elements
     * @param shape in which -1 is a size that each request decides
     */
    public record TensorSpec(String name, DType dtype, List<Long> shape) {}

    final Connection connection;
    private final String name;
    private final String version;
    private final List<String> versions;
    private final List<TensorSpec> inputs;
    private final List<TensorSpec> outputs;

    private ServedModel(
            Connection connection, String name, String version, ModelMetadataResponse said) {
        this.connection = connection;
        this.name = name;
        this.version = version;
        this.versions = List.copyOf(said.getVersionsList());
        this.inputs = InferMessages.specs(said.getInputsList());
        this.outputs = InferMessages.specs(said.getOutputsList());
    }

    static CompletableFuture<List<Row>> index(Connection connection, CallOptions options) {
        return Operation.of(
                connection,
                options,
                operation ->
                        operation
                                .call(
                                        GRPCInferenceServiceGrpc.getRepositoryIndexMethod(),
                                        RepositoryIndexRequest.getDefaultInstance())
                                .thenApply(
                                        answer ->
                                                answer.getModelsList().stream()
                                                        .map(
                                                                row ->
                                                                        new Row(
                                                                                row.getName(),
                                                                                row.getVersion(),
                                                                                row.getState(),
                                                                                row.getReason()))
                                                        .toList()));
    }

    static CompletableFuture<ServedModel> find(
            Connection connection, String name, String version, CallOptions options) {
        ModelMetadataRequest request =
                ModelMetadataRequest.newBuilder().setName(name).setVersion(version).build();
        return Operation.of(
                connection,
                options,
                operation ->
                        operation
                                .call(GRPCInferenceServiceGrpc.getModelMetadataMethod(), request)
                                .thenApply(
                                        said -> new ServedModel(connection, name, version, said)));
    }

    /** The model's name. */
    public String name() {
        return name;
    }

    /** The version that was asked for; empty: the greatest that is ready. */
    public String version() {
        return version;
    }

    /** Those that were ready when the model was asked for. */
    public List<String> versions() {
        return versions;
    }

    /** What it takes. */
    public List<TensorSpec> inputs() {
        return inputs;
    }

    /** What it gives. */
    public List<TensorSpec> outputs() {
        return outputs;
    }

    /** Whether it can be asked now. */
    public CompletableFuture<Boolean> readyAsync(CallOptions options) {
        ModelReadyRequest request =
                ModelReadyRequest.newBuilder().setName(name).setVersion(version).build();
        return Operation.of(
                connection,
                options,
                operation ->
                        operation
                                .call(GRPCInferenceServiceGrpc.getModelReadyMethod(), request)
                                .thenApply(ModelReadyResponse::getReady));
    }

    /** Whether it can be asked now; it waits for the answer. */
    public boolean ready() {
        return Operation.await(readyAsync(CallOptions.DEFAULT));
    }

    /**
     * Runs the model once. A request that the server has refused to begin is made again, within the
     * client's budget, unless it is one of a sequence: whether that has moved on, its caller must
     * know. Arrays must stay as they are until the answer has come.
     */
    public CompletableFuture<Map<String, NdArray>> inferAsync(
            Map<String, NdArray> given, InferOptions options, CallOptions how) {
        return Operation.of(
                connection,
                how,
                operation ->
                        sent(operation, request(given, options, options.id), options)
                                .thenApply(said -> InferMessages.outputs(said, options.outputs)));
    }

    private static CompletableFuture<ModelInferResponse> sent(
            Operation operation, ModelInferRequest request, InferOptions options) {
        var method = GRPCInferenceServiceGrpc.getModelInferMethod();
        return options.sequence == null
                ? operation.call(method, request)
                : operation.callOnce(method, request);
    }

    ModelInferRequest request(Map<String, NdArray> given, InferOptions options, String id) {
        return InferMessages.request(name, version, given, options, id);
    }

    /** Runs the model once, and waits. */
    public Map<String, NdArray> infer(
            Map<String, NdArray> given, InferOptions options, CallOptions how) {
        return Operation.await(inferAsync(given, options, how));
    }

    /** Runs the model once, and waits. */
    public Map<String, NdArray> infer(Map<String, NdArray> given) {
        return infer(given, InferOptions.DEFAULT, CallOptions.DEFAULT);
    }

    /**
     * Begins a stream of requests. It ends when it is closed, and by the options' timeout, which is
     * for all of it.
     */
    public InferStream stream(CallOptions options) {
        return InferStream.begin(this, options);
    }

    /** Begins a stream of requests. */
    public InferStream stream() {
        return stream(CallOptions.DEFAULT);
    }
}
