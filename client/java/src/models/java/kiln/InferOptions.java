package kiln;

import java.util.List;

/** What a request to a served model may say beside its inputs. */
public final class InferOptions {
    /** All outputs, and no sequence. */
    public static final InferOptions DEFAULT = new InferOptions(List.of(), null, "");

    /**
     * Which sequence a request goes on with, of a model that keeps its state from one request to
     * the next.
     *
     * @param id not 0; an unsigned number
     * @param start whether it is the first: state begins as zeros
     * @param end whether it is the last, after which the state is gone
     */
    public record Sequence(long id, boolean start, boolean end) {}

    /** None: all. */
    final List<String> outputs;

    /** Null for none. */
    final Sequence sequence;

    final String id;

    private InferOptions(List<String> outputs, Sequence sequence, String id) {
        this.outputs = outputs;
        this.sequence = sequence;
        this.id = id;
    }

    /** Those outputs alone that are named. */
    public static InferOptions outputs(String... names) {
        return DEFAULT.withOutputs(List.of(names));
    }

    /** A request of a sequence. */
    public static InferOptions sequence(long id, boolean start, boolean end) {
        return DEFAULT.withSequence(new Sequence(id, start, end));
    }

    /** The same with those outputs alone that are named; of no names, with all. */
    public InferOptions withOutputs(List<String> names) {
        return new InferOptions(List.copyOf(names), sequence, id);
    }

    /** The same as one request of a sequence; null for none. */
    public InferOptions withSequence(Sequence given) {
        return new InferOptions(outputs, given, id);
    }

    /**
     * The same under a name, which the server is told. Those of an {@link InferStream} are numbered
     * by it, and have no other.
     */
    public InferOptions withId(String given) {
        return new InferOptions(outputs, sequence, given);
    }
}
