package kiln;

import java.time.Duration;

/** What a caller may ask of anything that talks to the server. */
public final class CallOptions {
    /** No deadline, and no trace. */
    public static final CallOptions DEFAULT = new CallOptions(null, null);

    /** Null for none. */
    final Duration timeout;

    /** Null for none. */
    final String traceparent;

    private CallOptions(Duration timeout, String traceparent) {
        this.timeout = timeout;
        this.traceparent = traceparent;
    }

    /** How long the whole may take, however many calls it is: then it ends, on the server too. */
    public static CallOptions timeout(Duration timeout) {
        return DEFAULT.withTimeout(timeout);
    }

    /** The same with a time that the whole may take. */
    public CallOptions withTimeout(Duration given) {
        return new CallOptions(given, traceparent);
    }

    /** The same as part of a trace: traceparent is as the W3C has it ("00-…-…-01"). */
    public CallOptions withTraceparent(String given) {
        Identity.checkHeader("traceparent", given);
        return new CallOptions(timeout, given);
    }
}
