package kiln.adapter;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import kiln.KilnException;

/**
 * The Java client, as the conformance suite drives it: a JSON object a line in, one out.
 * tests/clients/README.md says what each request means.
 */
public final class Main {
    private Main() {}

    /** Answers until the input ends. */
    public static void main(String[] arguments) throws IOException {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Requests requests = new Requests();
        Gson gson = new Gson();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject request = JsonParser.parseString(line).getAsJsonObject();
            out.println(gson.toJson(requests.answer(request)));
        }
    }

    /** An error as the suite wants it. */
    static JsonObject told(RuntimeException error) {
        JsonObject made = new JsonObject();
        if (!(error instanceof KilnException failed)) {
            made.addProperty("message", error.toString());
            return made;
        }
        made.addProperty("status", failed.status().name());
        made.addProperty("message", failed.getMessage());
        made.addProperty("limit_value", failed.limitValue());
        made.addProperty("used", failed.used());
        text(made, "code", failed.codeName());
        text(made, "op", failed.op());
        text(made, "tag", failed.tag());
        text(made, "field", failed.field());
        text(made, "limit", failed.limit());
        failed.node().ifPresent(node -> made.addProperty("node", node));
        failed.slot().ifPresent(slot -> made.addProperty("slot", slot));
        if (!failed.retryAfter().isZero()) {
            made.addProperty("retry_after_ms", failed.retryAfter().toMillis());
        }
        return made;
    }

    private static void text(JsonObject made, String name, String value) {
        if (!value.isEmpty()) {
            made.addProperty(name, value);
        }
    }
}
