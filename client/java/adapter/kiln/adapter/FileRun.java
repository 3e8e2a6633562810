package kiln.adapter;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import kiln.Argument;
import kiln.GraphFiles;
import kiln.KilnClient;
import kiln.Program;

/** A graph of a file, run on constants of another, which are uploaded, and on what is given. */
final class FileRun {
    private FileRun() {}

    static JsonObject of(KilnClient client, Ask r) {
        List<Argument> arguments = new ArrayList<>();
        Program program;
        try {
            kiln.v1.Graph graph = GraphFiles.read(Path.of(r.text("graph_file")));
            program = client.compile(graph, null, r.options());
            GraphFiles.readConstants(Path.of(r.text("constants_file")))
                    .forEach(
                            (slot, array) ->
                                    arguments.add(Argument.inSlot(slot, client.upload(array))));
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
        for (JsonElement item : r.list("arguments")) {
            arguments.add(Ask.array(item.getAsJsonObject().getAsJsonObject("tensor")));
        }
        JsonArray tensors = new JsonArray();
        program.run(arguments, r.options()).forEach(array -> tensors.add(Ask.said(array)));
        JsonObject made = new JsonObject();
        made.add("results", tensors);
        return made;
    }
}
