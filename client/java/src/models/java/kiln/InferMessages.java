package kiln;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import kiln.inference.InferParameter;
import kiln.inference.ModelInferRequest;
import kiln.inference.ModelInferRequest.InferInputTensor;
import kiln.inference.ModelInferRequest.InferRequestedOutputTensor;
import kiln.inference.ModelInferResponse;
import kiln.inference.ModelInferResponse.InferOutputTensor;
import kiln.inference.ModelMetadataResponse;
import kiln.v1.ErrorCode;
import kiln.v1.ErrorDetail;

/**
 * The open inference protocol's messages. Tensors travel as bytes beside their descriptions, in the
 * same order: an array of Java's heap goes into the connection, and what came is an array's memory,
 * without a copy between; protobuf copies a direct buffer. What a server says of tensors is looked
 * at before they become arrays.
 */
final class InferMessages {
    /** gRPC's servers count a message's bytes in 32 bits with a sign; the rest is for names. */
    private static final long MOST_BYTES = Integer.MAX_VALUE - (1 << 20);

    private InferMessages() {}

    static ModelInferRequest request(
            String model,
            String version,
            Map<String, NdArray> inputs,
            InferOptions options,
            String id) {
        long bytes = inputs.values().stream().mapToLong(one -> one.memory().remaining()).sum();
        if (bytes > MOST_BYTES) {
            String text = "the inputs have %d bytes; no server takes more than %d in one request";
            throw Failures.of(Status.Code.RESOURCE_EXHAUSTED, text, bytes, MOST_BYTES);
        }
        ModelInferRequest.Builder made = ModelInferRequest.newBuilder();
        made.setModelName(model).setModelVersion(version).setId(id);
        inputs.forEach(
                (name, array) -> {
                    made.addInputs(described(name, array));
                    made.addRawInputContents(Memory.shared(array.memory()));
                });
        for (String name : options.outputs) {
            made.addOutputs(InferRequestedOutputTensor.newBuilder().setName(name));
        }
        if (options.sequence != null) {
            InferOptions.Sequence sequence = options.sequence;
            InferParameter.Builder number = InferParameter.newBuilder();
            made.putParameters("sequence_id", number.setUint64Param(sequence.id()).build());
            InferParameter flag = InferParameter.newBuilder().setBoolParam(true).build();
            if (sequence.start()) {
                made.putParameters("sequence_start", flag);
            }
            if (sequence.end()) {
                made.putParameters("sequence_end", flag);
            }
        }
        return made.build();
    }

    private static InferInputTensor described(String name, NdArray array) {
        if (array.dtype().datatype.isEmpty()) {
            ErrorDetail.Builder detail =
                    ErrorDetail.newBuilder().setCode(ErrorCode.DTYPE_MISMATCH).setField(name);
            String text = "input \"%s\" is %s, which no served model takes";
            throw new KilnException(
                    Status.Code.INVALID_ARGUMENT,
                    text.formatted(name, array.dtype()),
                    detail.build(),
                    0,
                    null);
        }
        return InferInputTensor.newBuilder()
                .setName(name)
                .setDatatype(array.dtype().datatype)
                .addAllShape(Shapes.boxed(array.shape()))
                .build();
    }

    /** What a model takes or gives. */
    static List<ServedModel.TensorSpec> specs(List<ModelMetadataResponse.TensorMetadata> rows) {
        List<ServedModel.TensorSpec> made = new ArrayList<>();
        for (ModelMetadataResponse.TensorMetadata row : rows) {
            DType dtype = dtype(row.getName(), row.getDatatype());
            List<Long> shape = List.copyOf(row.getShapeList());
            made.add(new ServedModel.TensorSpec(row.getName(), dtype, shape));
        }
        return List.copyOf(made);
    }

    private static DType dtype(String name, String datatype) {
        DType dtype = DType.served(datatype);
        if (dtype == null) {
            String text =
                    "says that \"%s\" is of the type \"%s\", which this package does not know";
            throw Failures.badServer(text, name, datatype);
        }
        return dtype;
    }

    /** The arrays of an answer, in which those are that were asked for. */
    static Map<String, NdArray> outputs(ModelInferResponse answer, List<String> wanted) {
        int count = answer.getOutputsCount();
        int contents = answer.getRawOutputContentsCount();
        if (count != contents) {
            throw Failures.badServer("gave %d outputs, and the contents of %d", count, contents);
        }
        Map<String, NdArray> made = new LinkedHashMap<>();
        for (int at = 0; at < count; at++) {
            InferOutputTensor row = answer.getOutputs(at);
            NdArray array = array(row, answer.getRawOutputContents(at));
            if (made.put(row.getName(), array) != null) {
                throw Failures.badServer("gave output \"%s\" twice", row.getName());
            }
        }
        for (String name : wanted) {
            if (!made.containsKey(name)) {
                String text = "did not give output \"%s\", which was asked for";
                throw Failures.badServer(text, name);
            }
        }
        return Collections.unmodifiableMap(made);
    }

    private static NdArray array(InferOutputTensor row, ByteString content) {
        DType dtype = dtype(row.getName(), row.getDatatype());
        long[] shape = Shapes.of(row.getShapeList());
        try {
            return NdArray.of(dtype, content.asReadOnlyByteBuffer(), shape);
        } catch (KilnException impossible) {
            String text = "gave output \"%s\" as %d bytes of %s %s";
            throw Failures.badServer(
                    text, row.getName(), content.size(), dtype, Arrays.toString(shape));
        }
    }
}
