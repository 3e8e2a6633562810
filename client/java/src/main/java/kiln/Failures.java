package kiln;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import java.util.Locale;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import kiln.v1.CommandFailed;
import kiln.v1.ErrorCode;
import kiln.v1.ErrorDetail;

/**
 * How failures become {@link KilnException}s: what this package finds, and what gRPC and streams
 * tell.
 */
final class Failures {
    private static final Metadata.Key<byte[]> DETAILS =
            Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

    private Failures() {}

    static KilnException coded(
            ErrorCode code, Status.Code status, String format, Object... values) {
        String text = String.format(Locale.ROOT, format, values);
        return new KilnException(
                status, text, ErrorDetail.newBuilder().setCode(code).build(), 0, null);
    }

    static KilnException of(Status.Code status, String format, Object... values) {
        return coded(ErrorCode.ERROR_CODE_UNSPECIFIED, status, format, values);
    }

    static KilnException badArgument(String format, Object... values) {
        return coded(ErrorCode.BAD_ARGUMENT, Status.Code.INVALID_ARGUMENT, format, values);
    }

    static KilnException wrongShape(String format, Object... values) {
        return coded(ErrorCode.SHAPE_MISMATCH, Status.Code.INVALID_ARGUMENT, format, values);
    }

    static KilnException wrongDType(String format, Object... values) {
        return coded(ErrorCode.DTYPE_MISMATCH, Status.Code.INVALID_ARGUMENT, format, values);
    }

    /** What no server may say. */
    static KilnException badServer(String format, Object... values) {
        return coded(
                ErrorCode.INTERNAL_FAULT, Status.Code.INTERNAL, "the server " + format, values);
    }

    static KilnException closed() {
        return of(Status.Code.CANCELLED, "the client is closed");
    }

    /** Only of what a caller's thread waits for: it was interrupted. */
    static KilnException interrupted() {
        Thread.currentThread().interrupt();
        return of(Status.Code.CANCELLED, "the thread that waited was interrupted");
    }

    /** The same failure, of a node of a graph. */
    static KilnException atNode(KilnException failed, int number, String op, String tag) {
        ErrorDetail.Builder detail = ErrorDetail.newBuilder().setCode(failed.code());
        return new KilnException(
                failed.status(),
                failed.getMessage().substring(failed.codeName().length() + 2),
                detail.setNode(number).setOp(op).setTag(tag).build(),
                0,
                null);
    }

    static KilnException of(Throwable failure) {
        Throwable inner = failure;
        while ((inner instanceof CompletionException || inner instanceof ExecutionException)
                && inner.getCause() != null) {
            inner = inner.getCause();
        }
        if (inner instanceof KilnException known) {
            return known;
        }
        if (inner instanceof StatusRuntimeException ended) {
            return of(ended.getStatus(), ended.getTrailers(), inner);
        }
        if (inner instanceof StatusException ended) {
            return of(ended.getStatus(), ended.getTrailers(), inner);
        }
        if (inner instanceof TimeoutException) {
            return of(Status.Code.DEADLINE_EXCEEDED, "the time is over");
        }
        if (inner instanceof CancellationException) {
            return new KilnException(
                    Status.Code.CANCELLED, "given up", ErrorDetail.getDefaultInstance(), 0, inner);
        }
        Status.Code status =
                inner instanceof OutOfMemoryError
                        ? Status.Code.RESOURCE_EXHAUSTED
                        : Status.Code.UNKNOWN;
        return new KilnException(
                status, inner.toString(), ErrorDetail.getDefaultInstance(), 0, inner);
    }

    /** How a call ended, which was not well. */
    static KilnException of(Status status, Metadata trailers, Throwable cause) {
        // What comes and cannot be read, gRPC cancels the call for.
        if (status.getCode() == Status.Code.CANCELLED
                && status.getCause() instanceof KilnException known) {
            return known;
        }
        if (status.getCode() == Status.Code.CANCELLED
                && status.getCause() instanceof StatusRuntimeException unread) {
            return badServer("sent what cannot be read: %s", unread.getMessage());
        }
        ErrorDetail detail = ErrorDetail.getDefaultInstance();
        byte[] packed = trailers == null ? null : trailers.get(DETAILS);
        if (packed != null) {
            try {
                detail = detailOf(com.google.rpc.Status.parseFrom(packed));
            } catch (InvalidProtocolBufferException unreadable) {
                // The status alone says enough.
            }
        }
        String text = status.getDescription() == null ? "" : status.getDescription();
        if (detail.getCodeValue() == 0 && status.getCause() != null) {
            text = text + " (" + status.getCause().getMessage() + ")";
        }
        return new KilnException(status.getCode(), text, detail, 0, cause);
    }

    private static ErrorDetail detailOf(com.google.rpc.Status said)
            throws InvalidProtocolBufferException {
        for (Any packed : said.getDetailsList()) {
            if (packed.getTypeUrl().endsWith("/kiln.v1.ErrorDetail")) {
                return ErrorDetail.parseFrom(packed.getValue());
            }
        }
        return ErrorDetail.getDefaultInstance();
    }

    /** The failure of a stream's command, with what went wrong first. */
    static KilnException ofCommand(CommandFailed said, long command) {
        try {
            com.google.rpc.Status status = com.google.rpc.Status.parseFrom(said.getStatus());
            ErrorDetail detail = detailOf(status);
            if (!said.getTag().isEmpty()) {
                detail = detail.toBuilder().setTag(said.getTag()).build();
            }
            Status.Code code = Status.fromCodeValue(status.getCode()).getCode();
            long first = said.getCauseCommandId() == 0 ? command : said.getCauseCommandId();
            return new KilnException(code, status.getMessage(), detail, first, null);
        } catch (InvalidProtocolBufferException unreadable) {
            return badServer("told a failure that cannot be read: %s", unreadable.getMessage());
        }
    }
}
