package kiln.adapter;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Function;
import kiln.DType;
import kiln.Graph;
import kiln.Tensor;

/** Calls of the builder, as the suite writes them. */
final class Build {
    /** One call: its arguments, and what calls before it made. */
    private record Call(Graph graph, JsonArray row, List<Tensor> values) {
        JsonElement at(int argument) {
            return row.get(argument + 1);
        }

        /** What a call made ({"value": 3}), or null of a number. */
        Tensor tensor(int argument) {
            JsonElement item = at(argument);
            return item.isJsonObject()
                    ? values.get(item.getAsJsonObject().get("value").getAsInt())
                    : null;
        }

        /** A number; one with a point is a float. */
        Number number(int argument) {
            String text = at(argument).getAsString();
            if (text.contains(".") || text.contains("e")) {
                return Double.valueOf(text);
            }
            return Long.valueOf(text);
        }

        long[][] pairs(int argument) {
            List<long[]> made = new ArrayList<>();
            at(argument).getAsJsonArray().forEach(pair -> made.add(Ask.longs(pair)));
            return made.toArray(new long[0][]);
        }
    }

    private static final Map<String, Function<Call, Tensor>> BUILDERS = new HashMap<>();

    static {
        add(
                "param",
                c -> {
                    DType dtype = DType.of(c.at(2).getAsString());
                    return c.graph.param(c.at(0).getAsString(), dtype, Ask.longs(c.at(1)));
                });
        add(
                "output",
                c -> {
                    c.graph.output(c.tensor(0));
                    return null;
                });
        add(
                "update",
                c -> {
                    c.graph.update(c.tensor(0), c.tensor(1));
                    return null;
                });
        add("cast", c -> c.tensor(0).cast(DType.of(c.at(1).getAsString())));
        add("reshape", c -> c.tensor(0).reshape(Ask.longs(c.at(1))));
        add("permute", c -> c.tensor(0).permute(Ask.ints(c.at(1))));
        add("broadcast", c -> c.tensor(0).broadcast(Ask.longs(c.at(1))));
        add("pad", c -> c.tensor(0).pad(c.number(2), c.pairs(1)));
        add("shrink", c -> c.tensor(0).shrink(c.pairs(1)));
        add("flip", c -> c.tensor(0).flip(c.at(1).getAsInt()));
        add("sum", c -> c.tensor(0).sum(Ask.ints(c.at(1))));
        add("max", c -> c.tensor(0).max(Ask.ints(c.at(1))));
        add("matmul", c -> c.tensor(0).matmul(c.tensor(1)));
        add("softmax", c -> c.tensor(0).softmax(c.at(1).getAsInt()));
        add("where", Build::where);
        binary("add", Tensor::add, Tensor::add);
        binary("subtract", Tensor::sub, Tensor::sub);
        binary("multiply", Tensor::mul, Tensor::mul);
        binary("divide", Tensor::div, Tensor::div);
        binary("maximum", Tensor::maximum, Tensor::maximum);
        binary("less", Tensor::less, Tensor::less);
        binary("equal", Tensor::equal, Tensor::equal);
        unary("negative", Tensor::neg);
        unary("exp", Tensor::exp);
        unary("log", Tensor::log);
        unary("sqrt", Tensor::sqrt);
        unary("sin", Tensor::sin);
        unary("reciprocal", Tensor::reciprocal);
        unary("relu", Tensor::relu);
    }

    private Build() {}

    private static void add(String name, Function<Call, Tensor> build) {
        BUILDERS.put(name, build);
    }

    private static void unary(String name, Function<Tensor, Tensor> build) {
        add(name, c -> build.apply(c.tensor(0)));
    }

    private static void binary(
            String name,
            BiFunction<Tensor, Tensor, Tensor> ofTensors,
            BiFunction<Tensor, Number, Tensor> ofNumber) {
        add(
                name,
                c -> {
                    Tensor other = c.tensor(1);
                    return other == null
                            ? ofNumber.apply(c.tensor(0), c.number(1))
                            : ofTensors.apply(c.tensor(0), other);
                });
    }

    private static Tensor where(Call c) {
        Tensor then = c.tensor(1);
        Tensor otherwise = c.tensor(2);
        if (then == null) {
            return c.tensor(0).where(c.number(1), otherwise);
        }
        return otherwise == null
                ? c.tensor(0).where(then, c.number(2))
                : c.tensor(0).where(then, otherwise);
    }

    static kiln.v1.Graph graph(JsonArray calls) {
        Graph graph = new Graph();
        List<Tensor> values = new ArrayList<>();
        for (JsonElement row : calls) {
            Function<Call, Tensor> build = BUILDERS.get(row.getAsJsonArray().get(0).getAsString());
            values.add(build.apply(new Call(graph, row.getAsJsonArray(), values)));
        }
        return graph.build();
    }
}
