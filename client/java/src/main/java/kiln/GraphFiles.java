package kiln;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.TextFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Files of graphs: .kgraph and .pb have the message as it travels, .txtpb its text. {@code kiln
 * import} and {@code kiln gradient} write such files.
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
