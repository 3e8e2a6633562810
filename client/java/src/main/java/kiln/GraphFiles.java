package kiln;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.TextFormat;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Files of graphs: .kgraph and .pb have the message as it travels, .txtpb its text. {@code kiln
 * import} and {@code kiln gradient} write .kgraph and .pb; the former writes a model's constants
 * beside a .kgraph.
 */
public final class GraphFiles {
    private static final Map<String, DType> DTYPES =
            Map.ofEntries(
                    Map.entry("BOOL", DType.BOOL),
                    Map.entry("U8", DType.UINT8),
                    Map.entry("I8", DType.INT8),
                    Map.entry("U16", DType.UINT16),
                    Map.entry("I16", DType.INT16),
                    Map.entry("U32", DType.UINT32),
                    Map.entry("I32", DType.INT32),
                    Map.entry("U64", DType.UINT64),
                    Map.entry("I64", DType.INT64),
                    Map.entry("F16", DType.FLOAT16),
                    Map.entry("BF16", DType.BFLOAT16),
                    Map.entry("F32", DType.FLOAT32),
                    Map.entry("F64", DType.FLOAT64),
                    Map.entry("F8_E4M3", DType.FLOAT8_E4M3),
                    Map.entry("F8_E5M2", DType.FLOAT8_E5M2));

    private GraphFiles() {}

    /** Reads a graph, as the file's name says. */
    public static kiln.v1.Graph read(Path path) throws IOException {
        try {
            return isText(path)
                    ? TextFormat.parse(Files.readString(path), kiln.v1.Graph.class)
                    : kiln.v1.Graph.parseFrom(Files.readAllBytes(path));
        } catch (InvalidProtocolBufferException | TextFormat.ParseException failed) {
            throw Failures.badArgument("%s is no graph: %s", path, failed.getMessage());
        }
    }

    /**
     * Reads the constants of a model, from the .safetensors that {@code kiln import model.onnx -o
     * model.kgraph} writes beside the graph: by the slot with which each one's name begins
     * ("3_weight"). {@link Argument#inSlot} makes arguments of them; what runs more than once
     * uploads them first.
     */
    public static SortedMap<Integer, NdArray> readConstants(Path path) throws IOException {
        try {
            return constants(ByteBuffer.wrap(Files.readAllBytes(path)));
        } catch (KilnException failed) {
            throw Failures.badArgument("%s: %s", path, failed.getMessage());
        }
    }

    /** Writes a graph, as the file's name says. */
    public static void write(Path path, kiln.v1.Graph graph) throws IOException {
        if (isText(path)) {
            Files.writeString(path, TextFormat.printer().printToString(graph));
        } else {
            Files.write(path, graph.toByteArray());
        }
    }

    private static boolean isText(Path path) {
        return path.toString().endsWith(".txtpb");
    }

    // A .safetensors is the length of a header (8 bytes, little-endian), the header (JSON), and the
    // arrays' bytes.

    /** By slot; they share the file's memory. */
    static SortedMap<Integer, NdArray> constants(ByteBuffer file) {
        ByteBuffer rest = file.slice().order(ByteOrder.LITTLE_ENDIAN);
        long size = rest.remaining() < 8 ? -1 : rest.getLong();
        if (size < 0 || size > rest.remaining()) {
            throw Failures.badArgument("it has no header of a .safetensors");
        }
        JsonObject header = header(rest.slice(rest.position(), (int) size));
        ByteBuffer data = rest.position(rest.position() + (int) size).slice();
        SortedMap<Integer, NdArray> constants = new TreeMap<>(Integer::compareUnsigned);
        for (Map.Entry<String, JsonElement> row : header.entrySet()) {
            String name = row.getKey();
            if (name.equals("__metadata__")) {
                continue;
            }
            NdArray array = constant(name, row.getValue(), data);
            if (constants.putIfAbsent(slot(name), array) != null) {
                throw Failures.badArgument("\"%s\" has the slot of another", name);
            }
        }
        return constants;
    }

    private static JsonObject header(ByteBuffer text) {
        try {
            String read = StandardCharsets.UTF_8.decode(text).toString();
            return JsonParser.parseString(read).getAsJsonObject();
        } catch (JsonParseException | IllegalStateException failed) {
            throw Failures.badArgument("its header is not as it must be: %s", failed);
        }
    }

    private static int slot(String name) {
        try {
            return Integer.parseUnsignedInt(name.split("_", 2)[0]);
        } catch (NumberFormatException failed) {
            throw Failures.badArgument("\"%s\" begins with no slot, as \"3_weight\" does", name);
        }
    }

    private static NdArray constant(String name, JsonElement said, ByteBuffer data) {
        DType dtype;
        long[] shape;
        long[] ends;
        try {
            JsonObject row = said.getAsJsonObject();
            dtype = DTYPES.get(row.getAsJsonPrimitive("dtype").getAsString());
            shape = sizes(row.getAsJsonArray("shape"));
            ends = sizes(row.getAsJsonArray("data_offsets"));
        } catch (RuntimeException failed) {
            throw Failures.badArgument(
                    "\"%s\" is not described as it must be: %s", name, failed.getMessage());
        }
        if (dtype == null) {
            throw Failures.badArgument("\"%s\" is of a dtype that no array here is", name);
        }
        if (ends.length != 2 || ends[0] > ends[1] || ends[1] > data.limit()) {
            throw Failures.badArgument("\"%s\" has its bytes where there are none", name);
        }
        return NdArray.of(dtype, data.slice((int) ends[0], (int) (ends[1] - ends[0])), shape);
    }

    private static long[] sizes(JsonArray said) {
        long[] made = new long[said.size()];
        for (int at = 0; at < made.length; at++) {
            made[at] = Long.parseUnsignedLong(said.get(at).getAsString());
            if (made[at] < 0) {
                throw new NumberFormatException("a size is too large");
            }
        }
        return made;
    }
}
