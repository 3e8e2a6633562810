package kiln;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.util.JsonFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.OptionalInt;
import kiln.v1.ErrorCode;
import org.junit.jupiter.api.Test;

class GraphHashTest {
    @Test
    void everyVectorHasItsHashOrIsRefused() throws IOException {
        String text = Files.readString(Path.of("../../tests/conformance/hash_vectors.json"));
        JsonArray vectors = JsonParser.parseString(text).getAsJsonArray();
        assertTrue(vectors.size() >= 100, vectors.size() + " vectors");
        for (JsonElement row : vectors) {
            JsonObject vector = row.getAsJsonObject();
            kiln.v1.Graph.Builder graph = kiln.v1.Graph.newBuilder();
            JsonFormat.parser().merge(vector.get("graph").toString(), graph);
            String name = vector.get("name").getAsString();
            if (vector.has("hash")) {
                String hash = HexFormat.of().formatHex(GraphHash.of(graph.build()));
                assertEquals(vector.get("hash").getAsString(), hash, name);
                continue;
            }
            ErrorCode code = ErrorCode.valueOf(vector.get("error").getAsString());
            KilnException failed = Fails.with(code, () -> GraphHash.of(graph.build()));
            if (vector.has("node")) {
                int node = vector.get("node").getAsInt();
                assertEquals(OptionalInt.of(node), failed.node(), name);
            }
        }
    }
}
