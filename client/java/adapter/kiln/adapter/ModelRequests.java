package kiln.adapter;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import kiln.InferOptions;
import kiln.InferStream;
import kiln.KilnClient;
import kiln.KilnException;
import kiln.NdArray;
import kiln.ServedModel;

/** What the suite asks of served models. */
final class ModelRequests {
    private final Map<String, ServedModel> models = new HashMap<>();
    private final Function<Ask, KilnClient> clients;

    ModelRequests(Function<Ask, KilnClient> clients) {
        this.clients = clients;
    }

    void addTo(Map<String, Function<Ask, JsonObject>> requests) {
        requests.put("models", this::index);
        requests.put("model", this::model);
        requests.put("infer", this::infer);
        requests.put("infer_stream", this::inferStream);
    }

    void clear() {
        models.clear();
    }

    private JsonObject index(Ask r) {
        JsonArray rows = new JsonArray();
        for (ServedModel.Row row : Waits.waited(clients.apply(r).modelsAsync(r.options()))) {
            JsonObject made = new JsonObject();
            made.addProperty("name", row.name());
            made.addProperty("version", row.version());
            made.addProperty("state", row.state());
            made.addProperty("reason", row.reason());
            rows.add(made);
        }
        return with("models", rows);
    }

    private static JsonObject with(String name, JsonElement value) {
        JsonObject made = new JsonObject();
        made.add(name, value);
        return made;
    }

    private JsonObject model(Ask r) {
        ServedModel model =
                Waits.waited(
                        clients.apply(r)
                                .modelAsync(r.text("name"), r.text("version"), r.options()));
        models.put(r.text("as"), model);
        JsonObject made = new JsonObject();
        made.addProperty("ready", model.ready());
        made.add("versions", Ask.list(model.versions()));
        made.add("inputs", specs(model.inputs()));
        made.add("outputs", specs(model.outputs()));
        return made;
    }

    private static JsonArray specs(List<ServedModel.TensorSpec> rows) {
        JsonArray made = new JsonArray();
        for (ServedModel.TensorSpec row : rows) {
            JsonObject said = new JsonObject();
            said.addProperty("name", row.name());
            said.addProperty("dtype", row.dtype().toString());
            JsonArray shape = new JsonArray();
            row.shape().forEach(shape::add);
            said.add("shape", shape);
            made.add(said);
        }
        return made;
    }

    private static Map<String, NdArray> inputs(Ask r) {
        Map<String, NdArray> made = new LinkedHashMap<>();
        JsonObject given = r.json().getAsJsonObject("inputs");
        given.asMap()
                .forEach(
                        (name, value) ->
                                made.put(
                                        name,
                                        Ask.array(
                                                value.getAsJsonObject()
                                                        .getAsJsonObject("tensor"))));
        return made;
    }

    private static InferOptions options(Ask r) {
        InferOptions made = InferOptions.DEFAULT.withOutputs(r.names("outputs"));
        if (!r.has("sequence")) {
            return made;
        }
        Ask said = new Ask(r.json().getAsJsonObject("sequence"));
        boolean start = said.has("start") && said.json().get("start").getAsBoolean();
        boolean end = said.has("end") && said.json().get("end").getAsBoolean();
        return made.withSequence(new InferOptions.Sequence(said.number("id"), start, end));
    }

    private static JsonObject outputs(Map<String, NdArray> arrays) {
        JsonObject made = new JsonObject();
        arrays.forEach((name, array) -> made.add(name, Ask.said(array)));
        return with("outputs", made);
    }

    private JsonObject infer(Ask r) {
        ServedModel model = models.get(r.text("model"));
        return outputs(Waits.waited(model.inferAsync(inputs(r), options(r), r.options()), r));
    }

    private JsonObject inferStream(Ask r) {
        JsonArray answers = new JsonArray();
        try (InferStream stream = models.get(r.text("model")).stream(r.options())) {
            List<CompletableFuture<Map<String, NdArray>>> sent = new ArrayList<>();
            for (JsonElement item : r.list("requests")) {
                Ask request = new Ask(item.getAsJsonObject());
                sent.add(stream.infer(inputs(request), options(request)));
            }
            for (CompletableFuture<Map<String, NdArray>> future : sent) {
                answers.add(answered(future));
            }
        }
        return with("answers", answers);
    }

    private static JsonObject answered(CompletableFuture<Map<String, NdArray>> future) {
        try {
            return outputs(Waits.waited(future));
        } catch (KilnException failed) {
            return with("error", Main.told(failed));
        }
    }
}
