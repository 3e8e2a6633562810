package kiln;

import com.google.protobuf.ByteString;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Status;
import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import kiln.v1.ErrorCode;
import kiln.v1.FenceCommand;
import kiln.v1.KernelServiceGrpc;
import kiln.v1.SubmitHello;
import kiln.v1.SubmitRequest;
import kiln.v1.SubmitResponse;

/**
 * The way of a stream's commands to the server. It keeps each until an answer confirms it, and when
 * the connection is lost sends what is kept once more on the next; the server runs each number
 * once. The same when the caller's token counts no more and the token's file has another. Else it
 * ends, as it does with its session, or when the server has not been there for as long as a lease.
 *
 * <p>It has no thread: who sends a command writes as much as the connection takes, and gRPC calls
 * back for the rest.
 */
final class Link {
    /** Between two tries to reconnect: at first, and at most. */
    private static final long AGAIN = TimeUnit.MILLISECONDS.toNanos(50);

    private static final long MOST_AGAIN = TimeUnit.SECONDS.toNanos(2);

    /** A piece of data is at most 1 MiB. */
    private static final int MOST_ANSWER = 4 << 20;

    private final Connection connection;
    private final byte[] token;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Window window;
    private ClientCall<SubmitRequest, SubmitResponse> call; // null between two connections
    private String shown; // who asks, as the connection was told; null: nobody
    private KilnException ended;
    private boolean isClosing;
    private long lost = System.nanoTime(); // the first connection since which nothing has gone on
    private long seenAtLoss;
    private long pause = AGAIN;

    /**
     * After one that has ended, or null. Under one session commands are numbered on, for the server
     * had those.
     */
    Link(Connection connection, Link before) {
        this.connection = connection;
        this.token = connection.session.token();
        boolean goesOn = before != null && Arrays.equals(token, before.token);
        this.window = goesOn ? new Window(before.window) : new Window(connection);
        this.seenAtLoss = window.seen();
        Context.ROOT.run(this::connect);
    }

    private <T> T locked(Supplier<T> does) {
        lock.lock();
        try {
            return does.get();
        } finally {
            lock.unlock();
        }
    }

    /**
     * Sends a command, which waits while as much is unconfirmed as may be. Without `pending`,
     * nobody waits for it.
     */
    void send(SubmitRequest.Builder request, Window.Pending pending) {
        lock.lock();
        try {
            while (ended == null && window.isFull()) {
                changed.await();
            }
            if (ended != null) {
                throw ended.rethrown();
            }
            window.add(request, pending);
            pump();
        } catch (InterruptedException interrupted) {
            throw Failures.interrupted();
        } finally {
            lock.unlock();
        }
    }

    /** Sends a small command, however much is unconfirmed; false if the link has ended. */
    boolean sendAtOnce(SubmitRequest.Builder request) {
        return locked(
                () -> {
                    if (ended != null || isClosing) {
                        return false;
                    }
                    window.add(request, null);
                    pump();
                    return true;
                });
    }

    static SubmitRequest.Builder fence() {
        return SubmitRequest.newBuilder().setFence(FenceCommand.getDefaultInstance());
    }

    /** The first failure of a command that nobody waited for, once. Null for none. */
    KilnException takeFailure() {
        return locked(window::takeFailure);
    }

    boolean hasEnded() {
        return locked(() -> ended != null);
    }

    /** All commands up to this one are answered. */
    long answered() {
        return locked(window::seen);
    }

    int unconfirmed() {
        return locked(window::unconfirmed);
    }

    /** Ends the stream when all that was sent has ended, which a fence tells, or soon. */
    void close(Duration most) {
        Window.Pending pending = new Window.Pending(0);
        boolean waits =
                locked(
                        () -> {
                            boolean is = ended == null && !isClosing && window.unconfirmed() > 0;
                            if (is) {
                                window.add(fence(), pending);
                                pump();
                            }
                            return is;
                        });
        if (waits) {
            try {
                pending.future.get(most.toNanos(), TimeUnit.NANOSECONDS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            } catch (ExecutionException | TimeoutException failed) {
                // It ends all the same.
            }
        }
        locked(
                () -> {
                    isClosing = true;
                    if (call != null) {
                        call.cancel("the client is closed", null);
                    }
                    end(Failures.closed());
                    return null;
                });
    }

    // -- the connection

    /** Begins a stream with the hello; then goes all that is kept. */
    private void connect() {
        lock.lock();
        try {
            if (ended != null) {
                return;
            }
            CallOptions options =
                    CallOptions.DEFAULT
                            .withOption(Connection.OWN_SESSION, token)
                            .withMaxInboundMessageSize(MOST_ANSWER);
            SubmitHello.Builder hello =
                    SubmitHello.newBuilder()
                            .setProtocolMin(Greeting.PROTOCOL)
                            .setProtocolMax(Greeting.PROTOCOL)
                            .setSessionToken(ByteString.copyFrom(token));
            SubmitRequest.Builder first =
                    SubmitRequest.newBuilder().setAcknowledged(window.seen()).setHello(hello);
            shown = connection.identity.bearer();
            call = connection.channel().newCall(KernelServiceGrpc.getSubmitMethod(), options);
            window.again();
            call.start(new Listener(call), new Metadata());
            call.sendMessage(first.build());
            call.request(1);
            pump();
        } catch (RuntimeException failed) { // of a token that cannot be sent
            end(Failures.of(failed));
        } finally {
            lock.unlock();
        }
    }

    /** Sends what the connection takes; it calls back when it takes more. */
    private void pump() {
        while (call != null && window.hasUnsent() && call.isReady()) {
            call.sendMessage(window.next());
        }
    }

    private final class Listener extends ClientCall.Listener<SubmitResponse> {
        private final ClientCall<SubmitRequest, SubmitResponse> own;
        private long welcomed; // when; 0: not yet

        Listener(ClientCall<SubmitRequest, SubmitResponse> own) {
            this.own = own;
        }

        private void ifCurrent(Runnable does) {
            lock.lock();
            try {
                if (call == own) {
                    does.run();
                }
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void onReady() {
            ifCurrent(Link.this::pump);
        }

        @Override
        public void onMessage(SubmitResponse answer) {
            ifCurrent(
                    () -> {
                        welcomed = answer.hasWelcome() ? System.nanoTime() : welcomed;
                        try {
                            window.take(answer);
                            changed.signalAll();
                            own.request(1);
                        } catch (KilnException impossible) {
                            own.cancel("what came cannot be", null);
                            end(impossible);
                        }
                    });
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            ifCurrent(
                    () -> {
                        long lease = connection.session.lease();
                        boolean stood = welcomed != 0 && System.nanoTime() - welcomed > lease / 3;
                        lose(status.isOk() ? over() : Failures.of(status, trailers, null), stood);
                    });
        }

        private KilnException over() {
            String text = "the stream to %s has ended";
            return Failures.of(Status.Code.UNAVAILABLE, text, connection.address);
        }
    }

    /** The connection is gone, which may have stood for long. */
    private void lose(KilnException failed, boolean stood) {
        call = null;
        if (stood || window.seen() > seenAtLoss) {
            lost = System.nanoTime();
            seenAtLoss = window.seen();
            pause = AGAIN;
        }
        boolean goesOn = mayPass(failed) || isKnownAnew(failed);
        if (!goesOn || System.nanoTime() - lost > connection.session.lease()) {
            end(failed);
            return;
        }
        connection
                .delay(pause)
                .whenComplete(
                        (rested, closed) -> {
                            if (closed == null) {
                                connection.redial();
                                Context.ROOT.run(this::connect);
                            } else {
                                end(Failures.closed());
                            }
                        });
        pause = Math.min(2 * pause, MOST_AGAIN);
    }

    /**
     * A stream that ended so may be taken up again. Nobody has said why, so it is the connection
     * that was lost.
     */
    private boolean mayPass(KilnException failed) {
        return !isClosing
                && failed.is(ErrorCode.ERROR_CODE_UNSPECIFIED)
                && switch (failed.status()) {
                    case UNAVAILABLE, INTERNAL, UNKNOWN, CANCELLED -> true;
                    default -> false;
                };
    }

    /**
     * Whether it ended for a token that counts no more, in place of which there is another by now.
     */
    private boolean isKnownAnew(KilnException failed) {
        if (isClosing || !failed.is(ErrorCode.NOT_AUTHENTICATED)) {
            return false;
        }
        try {
            return !Objects.equals(connection.identity.newest(), shown);
        } catch (KilnException unsendable) { // of a token with a line's end, which connect() tells
            return true;
        }
    }

    private void end(KilnException failed) {
        lock.lock();
        try {
            call = null;
            if (ended == null) {
                ended = failed;
                window.end(failed);
                changed.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }
}
