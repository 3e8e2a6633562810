package kiln;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import kiln.v1.CloseSessionRequest;
import kiln.v1.OpenSessionRequest;
import kiln.v1.OpenSessionResponse;
import kiln.v1.RenewSessionRequest;
import kiln.v1.SessionServiceGrpc;

/**
 * Owns what a client makes on the server. A timer renews its lease; a client that is killed renews
 * no more, and the server then frees what it had. A session that the server does not know any more,
 * since it was started anew, is replaced by another: what the first owned is gone.
 */
final class Session {
    /**
     * Between two renewals at least, however often calls find the session gone; and where no other
     * could be opened.
     */
    static final long REST = TimeUnit.MILLISECONDS.toNanos(100);

    private static final long REST_FAILED = TimeUnit.SECONDS.toNanos(1);

    private final Connection connection;
    private final int seconds;
    private byte[] token;
    private long lease;
    private Future<?> next;
    private long earliest = System.nanoTime();
    private boolean isRenewing;
    private boolean isClosed;

    Session(Connection connection, Duration lease) {
        this.connection = connection;
        this.seconds = (int) Math.max(1, lease.plusNanos(999_999_999).getSeconds());
    }

    /** Null where there is none. */
    synchronized byte[] token() {
        return token;
    }

    synchronized boolean isCurrent(byte[] other) {
        return Arrays.equals(token, other);
    }

    /** Nanoseconds that the server waits for a renewal. */
    synchronized long lease() {
        return lease;
    }

    /** For tests of what happens then. */
    synchronized void grant(Duration time) {
        lease = time.toNanos();
    }

    CompletableFuture<Void> open(Operation operation) {
        return begin(operation).thenRun(() -> after(0));
    }

    private CompletableFuture<Void> begin(Operation operation) {
        OpenSessionRequest request =
                OpenSessionRequest.newBuilder().setLeaseSeconds(seconds).build();
        return operation.call(SessionServiceGrpc.getOpenMethod(), request).thenAccept(this::opened);
    }

    private synchronized void opened(OpenSessionResponse answer) {
        token = answer.getToken().toByteArray();
        lease = TimeUnit.SECONDS.toNanos(Integer.toUnsignedLong(answer.getLeaseSeconds()));
    }

    /** Looks now whether the server still knows the session. */
    synchronized void hasten() {
        if (token != null && !isRenewing) {
            schedule(Math.max(0, earliest - System.nanoTime()));
        }
    }

    private synchronized void schedule(long nanos) {
        if (isClosed) {
            return;
        }
        if (next != null) {
            next.cancel(false);
        }
        try {
            next = connection.timer.schedule(this::renew, nanos, TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException closed) {
            isClosed = true;
        }
    }

    /** A lease that is no time does not become a hail of renewals. */
    private synchronized long third() {
        return Math.max(lease / 3, REST); // one call that is lost leaves time for a second
    }

    private void renew() {
        byte[] current;
        synchronized (this) {
            if (isClosed || isRenewing) {
                return;
            }
            isRenewing = true;
            current = token;
        }
        RenewSessionRequest request =
                RenewSessionRequest.newBuilder().setToken(ByteString.copyFrom(current)).build();
        Operation operation = Operation.unasked(connection, Duration.ofNanos(third()));
        operation
                .call(SessionServiceGrpc.getRenewMethod(), request)
                .handle(
                        (answer, failure) -> {
                            if (failure == null
                                    || Failures.of(failure).status() != Status.Code.NOT_FOUND) {
                                return CompletableFuture.completedFuture(REST);
                            }
                            // A server that does not answer may come back: the next renewal tries
                            // again.
                            return begin(operation)
                                    .handle(
                                            (opened, refused) ->
                                                    refused == null ? REST : REST_FAILED);
                        })
                .thenCompose(rest -> rest)
                .thenAccept(this::after);
    }

    private synchronized void after(long rest) {
        isRenewing = false;
        earliest = System.nanoTime() + rest;
        schedule(Math.max(third(), rest));
    }

    /** Frees what the session owns. If that fails, the lease's end does it. */
    void close(Duration most) {
        byte[] last;
        synchronized (this) {
            if (isClosed || token == null) {
                isClosed = true;
                return;
            }
            isClosed = true;
            last = token;
            if (next != null) {
                next.cancel(false);
            }
        }
        CloseSessionRequest request =
                CloseSessionRequest.newBuilder().setToken(ByteString.copyFrom(last)).build();
        Operation operation = Operation.unasked(connection, most);
        try {
            Operation.await(operation.call(SessionServiceGrpc.getCloseMethod(), request));
        } catch (KilnException failed) {
            // as said above
        }
    }
}
