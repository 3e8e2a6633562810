package kiln.adapter;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.protobuf.InvalidProtocolBufferException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import kiln.CallOptions;
import kiln.DType;
import kiln.NdArray;

/** A request of the suite's, read. */
record Ask(JsonObject json) {
    boolean has(String name) {
        return json.has(name) && !json.get(name).isJsonNull();
    }

    String text(String name) {
        return has(name) ? json.get(name).getAsString() : "";
    }

    /** Also of one that is written as text. */
    long number(String name) {
        return has(name) ? Long.parseUnsignedLong(json.get(name).getAsString()) : 0;
    }

    byte[] data(String name) {
        return Base64.getDecoder().decode(text(name));
    }

    JsonArray list(String name) {
        return has(name) ? json.getAsJsonArray(name) : new JsonArray();
    }

    List<String> names(String name) {
        List<String> made = new ArrayList<>();
        list(name).forEach(item -> made.add(item.getAsString()));
        return made;
    }

    kiln.v1.Graph graph() {
        return graph("graph");
    }

    kiln.v1.Graph graph(String name) {
        try {
            return kiln.v1.Graph.parseFrom(data(name));
        } catch (InvalidProtocolBufferException failed) {
            throw new IllegalArgumentException(failed);
        }
    }

    CallOptions options() {
        return has("timeout_ms")
                ? CallOptions.timeout(Duration.ofMillis(number("timeout_ms")))
                : CallOptions.DEFAULT;
    }

    static JsonArray list(List<String> texts) {
        JsonArray made = new JsonArray();
        texts.forEach(made::add);
        return made;
    }

    static NdArray array(JsonObject tensor) {
        byte[] data = Base64.getDecoder().decode(tensor.get("data").getAsString());
        long[] shape = longs(tensor.get("shape"));
        return NdArray.of(
                DType.of(tensor.get("dtype").getAsString()), ByteBuffer.wrap(data), shape);
    }

    static JsonObject said(NdArray array) {
        JsonObject made = new JsonObject();
        made.addProperty("dtype", array.dtype().toString());
        JsonArray shape = new JsonArray();
        for (long size : array.shape()) {
            shape.add(size);
        }
        made.add("shape", shape);
        made.addProperty("data", base64(array.data()));
        return made;
    }

    static String base64(ByteBuffer data) {
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    static long[] longs(JsonElement list) {
        long[] made = new long[list.getAsJsonArray().size()];
        for (int at = 0; at < made.length; at++) {
            made[at] = list.getAsJsonArray().get(at).getAsLong();
        }
        return made;
    }

    static int[] ints(JsonElement list) {
        int[] made = new int[list.getAsJsonArray().size()];
        for (int at = 0; at < made.length; at++) {
            made[at] = list.getAsJsonArray().get(at).getAsInt();
        }
        return made;
    }
}
