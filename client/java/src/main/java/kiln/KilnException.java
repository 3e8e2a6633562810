package kiln;

import io.grpc.Status;
import java.time.Duration;
import java.util.OptionalInt;
import kiln.v1.ErrorCode;
import kiln.v1.ErrorDetail;

/**
 * A failure that the server found, or this package. Programs read the code and the status; the text
 * is for people.
 */
public final class KilnException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final Status.Code status;
    private final String text;
    private final ErrorDetail detail;
    private final long command;

    KilnException(
            Status.Code status, String text, ErrorDetail detail, long command, Throwable cause) {
        super(describe(status, text, detail), cause);
        this.status = status;
        this.text = text;
        this.detail = detail;
        this.command = command;
    }

    private static String describe(Status.Code status, String text, ErrorDetail detail) {
        String code = nameOf(detail);
        String where =
                detail.hasNode()
                        ? " (node %d, %s)".formatted(detail.getNode(), detail.getOp())
                        : "";
        String tag = detail.getTag().isEmpty() ? "" : " [%s]".formatted(detail.getTag());
        return (code.isEmpty() ? status.name() : code) + ": " + text + where + tag;
    }

    private static String nameOf(ErrorDetail detail) {
        return switch (detail.getCode()) {
            case ERROR_CODE_UNSPECIFIED -> "";
            case UNRECOGNIZED -> Integer.toString(detail.getCodeValue());
            default -> detail.getCode().name();
        };
    }

    /** The failure in whatever a call of gRPC's or a future ended with. */
    public static KilnException of(Throwable failure) {
        return Failures.of(failure);
    }

    /** The same, thrown where it is waited for: what the first trace shows is its cause. */
    KilnException rethrown() {
        return new KilnException(status, text, detail, command, this);
    }

    /** gRPC's status. */
    public Status.Code status() {
        return status;
    }

    /**
     * The protocol's code, which is stable. ERROR_CODE_UNSPECIFIED where nobody gave one, as when a
     * connection is lost; UNRECOGNIZED if the server is newer than this package.
     */
    public ErrorCode code() {
        return detail.getCode();
    }

    /**
     * The code's name; of one that this package does not know, its number; empty where there is
     * none.
     */
    public String codeName() {
        return nameOf(detail);
    }

    /** Whether this is the protocol's code. */
    public boolean is(ErrorCode code) {
        return detail.getCode() == code;
    }

    /** The index of the node at fault in the graph as sent. */
    public OptionalInt node() {
        return detail.hasNode() ? OptionalInt.of(detail.getNode()) : OptionalInt.empty();
    }

    /** The slot of the argument at fault. */
    public OptionalInt slot() {
        return detail.hasSlot() ? OptionalInt.of(detail.getSlot()) : OptionalInt.empty();
    }

    /** The node's op; empty where there is none. */
    public String op() {
        return detail.getOp();
    }

    /** The node's tag; of a stream's command that failed, that of the first cause. */
    public String tag() {
        return detail.getTag();
    }

    /** The compiler's pass that found the fault, if one did. */
    public String pass() {
        return detail.getPass();
    }

    /** The field of the request at fault. */
    public String field() {
        return detail.getField();
    }

    /** The buffer at fault; 0 where there is none. */
    public long handle() {
        return detail.getHandle();
    }

    /** The name of a limit that was met; empty where none was. */
    public String limit() {
        return detail.getLimit();
    }

    /** What the limit is. */
    public long limitValue() {
        return detail.getLimitValue();
    }

    /** How much of the limit is used. */
    public long used() {
        return detail.getUsed();
    }

    /** How long the server asks to wait before another try; zero where waiting does not help. */
    public Duration retryAfter() {
        return Duration.ofMillis(Integer.toUnsignedLong(detail.getRetryAfterMs()));
    }

    /** In a stream, which command went wrong first; 0 elsewhere. */
    public long command() {
        return command;
    }
}
