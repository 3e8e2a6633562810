package kiln;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import kiln.inference.InferParameter;
import kiln.inference.ModelInferRequest;
import kiln.inference.ModelInferResponse;
import kiln.inference.ModelInferResponse.InferOutputTensor;
import kiln.inference.ModelMetadataResponse.TensorMetadata;
import kiln.v1.ErrorCode;
import org.junit.jupiter.api.Test;

/** How arrays become messages to served models, and which answers are believed. */
class InferMessagesTest {
    private static final Map<String, NdArray> NONE = Map.of();

    private static ModelInferRequest asked(Map<String, NdArray> inputs, InferOptions options) {
        return InferMessages.request("m", "3", inputs, options, "mine");
    }

    @Test
    void arraysGoByName() {
        NdArray x = NdArray.of(new float[] {1, 2}, 1, 2);
        ModelInferRequest said = asked(Map.of("x", x), InferOptions.outputs("y", "z"));
        assertEquals(
                List.of("m", "3", "mine"),
                List.of(said.getModelName(), said.getModelVersion(), said.getId()));
        assertEquals("x", said.getInputs(0).getName());
        assertEquals("FP32", said.getInputs(0).getDatatype());
        assertEquals(List.of(1L, 2L), said.getInputs(0).getShapeList());
        assertEquals(x.data(), said.getRawInputContents(0).asReadOnlyByteBuffer());
        assertEquals(
                List.of("y", "z"), said.getOutputsList().stream().map(o -> o.getName()).toList());
        assertTrue(said.getParametersMap().isEmpty());
    }

    /** A change of an array's memory before it goes is one of the message. */
    @Test
    void memoryIsNotCopied() {
        ByteBuffer memory = ByteBuffer.allocate(4);
        ModelInferRequest said =
                asked(Map.of("x", NdArray.of(DType.INT8, memory, 4)), InferOptions.DEFAULT);
        memory.put(2, (byte) 7);
        assertArrayEquals(new byte[] {0, 0, 7, 0}, said.getRawInputContents(0).toByteArray());
    }

    @Test
    void sequencesAreToldBy64Bits() {
        InferParameter flag = InferParameter.newBuilder().setBoolParam(true).build();
        InferParameter most = InferParameter.newBuilder().setUint64Param(-1).build();
        assertEquals(
                Map.of("sequence_id", most, "sequence_start", flag),
                asked(NONE, InferOptions.sequence(-1, true, false)).getParametersMap());
        assertEquals(
                Map.of("sequence_id", most, "sequence_end", flag),
                asked(NONE, InferOptions.sequence(-1, false, true)).getParametersMap());
    }

    @Test
    void whatNoServedModelTakes() {
        NdArray narrow = NdArray.of(DType.FLOAT8_E4M3, new double[] {1});
        KilnException failed =
                Fails.with(
                        ErrorCode.DTYPE_MISMATCH,
                        () -> asked(Map.of("x", narrow), InferOptions.DEFAULT));
        assertEquals("x", failed.field());
        NdArray large = NdArray.of(DType.INT8, ByteBuffer.allocateDirect(1 << 20), 1 << 20);
        Map<String, NdArray> many = new HashMap<>();
        for (int at = 0; at < 2048; at++) {
            many.put("x" + at, large);
        }
        Fails.with(Status.Code.RESOURCE_EXHAUSTED, () -> asked(many, InferOptions.DEFAULT));
    }

    private static InferOutputTensor.Builder output(String datatype, long... shape) {
        return InferOutputTensor.newBuilder()
                .setName("y")
                .setDatatype(datatype)
                .addAllShape(Shapes.boxed(shape));
    }

    private static ModelInferResponse said(InferOutputTensor.Builder output, int bytes) {
        ByteString content = ByteString.copyFrom(new byte[bytes]);
        return ModelInferResponse.newBuilder()
                .addOutputs(output)
                .addRawOutputContents(content)
                .build();
    }

    @Test
    void everyDtypeComesBackAsItWent() {
        int count = 0;
        for (DType dtype : DType.values()) {
            if (dtype.datatype.isEmpty()) {
                continue;
            }
            byte[] bytes = new byte[2 * dtype.bytes()];
            bytes[0] = 1;
            NdArray went = NdArray.of(dtype, ByteBuffer.wrap(bytes), 2, 1);
            ModelInferRequest request = asked(Map.of("y", went), InferOptions.DEFAULT);
            ModelInferResponse answer =
                    ModelInferResponse.newBuilder()
                            .addOutputs(output(request.getInputs(0).getDatatype(), 2, 1))
                            .addRawOutputContents(request.getRawInputContents(0))
                            .build();
            NdArray came = InferMessages.outputs(answer, List.of("y")).get("y");
            assertEquals(dtype, came.dtype());
            assertArrayEquals(new long[] {2, 1}, came.shape());
            assertEquals(ByteBuffer.wrap(bytes), came.data());
            count++;
        }
        assertEquals(13, count);
    }

    @Test
    void answersThatCannotBe() {
        ModelInferResponse right = said(output("INT8", 4), 4);
        List<ModelInferResponse> lies =
                List.of(
                        right.toBuilder().clearRawOutputContents().build(),
                        right.toBuilder().clearOutputs().build(),
                        right.toBuilder().mergeFrom(right).build(), // twice
                        said(output("FP32", 1), 3),
                        said(output("FP32", -1, -1), 4),
                        said(output("INT8", 1L << 62), 4),
                        said(output("INT8", 1L << 62, 1L << 62), 4),
                        said(output("BYTES", 1), 4),
                        said(output("", 4), 4));
        for (ModelInferResponse lie : lies) {
            Fails.with(ErrorCode.INTERNAL_FAULT, () -> InferMessages.outputs(lie, List.of()));
        }
        Fails.with(ErrorCode.INTERNAL_FAULT, () -> InferMessages.outputs(right, List.of("y", "z")));
        TensorMetadata row = TensorMetadata.newBuilder().setDatatype("FP4").build();
        Fails.with(ErrorCode.INTERNAL_FAULT, () -> InferMessages.specs(List.of(row)));
    }
}
