package kiln;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.TextFormat;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.SortedMap;

/**
 * Files of graphs: .kgraph and .pb have the message as it travels, .txtpb its text. {@code kiln
 * import} and {@code kiln gradient} write .kgraph and .pb; the former writes a model's constants
 * beside a .kgraph.
 */
public final class GraphFiles {
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
            return Safetensors.constants(ByteBuffer.wrap(Files.readAllBytes(path)));
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
}
