package kiln;

import com.google.protobuf.ByteString;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import kiln.v1.ErrorCode;
import kiln.v1.FenceCommand;
import kiln.v1.KernelServiceGrpc;
import kiln.v1.SubmitHello;
import kiln.v1.SubmitRequest;
import kiln.v1.SubmitResponse;

/**
 * The way of a stream's commands to the server. It numbers commands, keeps each until an answer confirms it, and when
 * the connection is lost sends what is kept once more on the next; the server runs each number once. So it ends only
 * with its session, or when the server has not been there for as long as a lease.
 *
 * <p>It has no thread: who sends a command writes as much as the connection takes, and gRPC calls back for the rest.
 */
final class Link {
    /** What may be unconfirmed before a sender waits; an answer is asked for at a quarter of it. */
    private static final int MOST_COMMANDS = 1024;

    private static final long MOST_BYTES = 16 << 20;

    /** Between two tries to reconnect: at first, and at most. */
    private static final long AGAIN = TimeUnit.MILLISECONDS.toNanos(50);

    private static final long MOST_AGAIN = TimeUnit.SECONDS.toNanos(2);

    /** A piece of data is at most 1 MiB. */
    private static final int MOST_ANSWER = 4 << 20;

    private final Connection connection;
    private final byte[] token;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private ClientCall<SubmitRequest, SubmitResponse> call; // null between two connections
    private KilnException ended;
    private KilnException failure; // the first of a command that nobody waits for
    private boolean isClosing;
    private long last; // the last command's number
    private long seen; // all answers up to this one's have come
    private final ArrayDeque<SubmitRequest> unsent = new ArrayDeque<>(); // of kept, on this connection
    private final ArrayDeque<SubmitRequest> kept = new ArrayDeque<>();
    private long bytes; // of kept
    private int unaskedCommands;
    private long unaskedBytes;
    private final TreeMap<Long, Pending> asked = new TreeMap<>();
    private long lost; // when the first of the connections was, since which nothing has gone on
    private long seenAtLoss;
    private long pause = AGAIN;

    /** After one that has ended, or null. Under one session commands are numbered on, for the server had those. */
    Link(Connection connection, Link before) {
        this.connection = connection;
        this.token = connection.session.token();
        if (before != null && java.util.Arrays.equals(token, before.token)) {
            last = before.last;
            seen = before.last;
            failure = before.takeFailure();
        }
        lost = System.nanoTime();
        seenAtLoss = seen;
        connect();
    }

    /** Sends a command, which waits while as much is unconfirmed as may be. Without `pending`, nobody waits for it. */
    void send(SubmitRequest.Builder request, Pending pending) {
        lock.lock();
        try {
            while (ended == null && (kept.size() >= MOST_COMMANDS || bytes >= MOST_BYTES)) {
                changed.await();
            }
            if (ended != null) {
                throw ended.rethrown();
            }
            put(request, pending);
        } catch (InterruptedException interrupted) {
            throw Failures.interrupted();
        } finally {
            lock.unlock();
        }
    }

    /** Sends a small command, however much is unconfirmed; false if the link has ended. */
    boolean sendAtOnce(SubmitRequest.Builder request) {
        lock.lock();
        try {
            if (ended != null || isClosing) {
                return false;
            }
            put(request, null);
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Numbers a command and puts it on its way. */
    private void put(SubmitRequest.Builder request, Pending pending) {
        request.setCommandId(++last).setAcknowledged(seen);
        int size = request.build().getSerializedSize();
        unaskedCommands++;
        unaskedBytes += size;
        if (pending != null || 4 * unaskedCommands > MOST_COMMANDS || 4 * unaskedBytes > MOST_BYTES) {
            request.setAnswer(true);
            unaskedCommands = 0;
            unaskedBytes = 0;
        }
        if (pending != null) {
            asked.put(last, pending);
        }
        SubmitRequest made = request.build();
        kept.add(made);
        unsent.add(made);
        bytes += made.getSerializedSize();
        pump();
    }

    static SubmitRequest.Builder fence() {
        return SubmitRequest.newBuilder().setFence(FenceCommand.getDefaultInstance());
    }

    /** The first failure of a command that nobody waited for, once; those after it are forgotten. Null for none. */
    KilnException takeFailure() {
        lock.lock();
        try {
            KilnException taken = failure;
            failure = null;
            return taken;
        } finally {
            lock.unlock();
        }
    }

    boolean hasEnded() {
        lock.lock();
        try {
            return ended != null;
        } finally {
            lock.unlock();
        }
    }

    /** How many commands are answered, and how many are kept. */
    long[] progress() {
        lock.lock();
        try {
            return new long[] {seen, kept.size()};
        } finally {
            lock.unlock();
        }
    }

    /** Ends the stream when all that was sent has ended, which a fence tells, or soon. */
    void close(Duration most) {
        Pending pending = null;
        lock.lock();
        try {
            if (ended == null && !isClosing && !kept.isEmpty()) {
                pending = new Pending(0);
                put(fence(), pending);
            }
            isClosing = true;
        } finally {
            lock.unlock();
        }
        if (pending != null) {
            try {
                pending.future.get(most.toNanos(), TimeUnit.NANOSECONDS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            } catch (java.util.concurrent.ExecutionException | TimeoutException failed) {
                // It ends all the same.
            }
        }
        lock.lock();
        try {
            ClientCall<?, ?> now = call;
            end(Failures.closed());
            if (now != null) {
                now.cancel("the client is closed", null);
            }
        } finally {
            lock.unlock();
        }
    }

    // -- what goes out

    /** Begins a stream with the hello; then goes all that is kept. */
    private void connect() {
        lock.lock();
        try {
            if (ended != null) {
                return;
            }
            CallOptions options = CallOptions.DEFAULT
                    .withOption(Connection.OWN_SESSION, token)
                    .withMaxInboundMessageSize(MOST_ANSWER);
            ClientCall<SubmitRequest, SubmitResponse> made =
                    connection.channel().newCall(KernelServiceGrpc.getSubmitMethod(), options);
            asked.values().forEach(Pending::again);
            SubmitHello.Builder hello = SubmitHello.newBuilder()
                    .setProtocolMin(Greeting.PROTOCOL)
                    .setProtocolMax(Greeting.PROTOCOL)
                    .setSessionToken(ByteString.copyFrom(token));
            call = made;
            unsent.clear();
            unsent.addAll(kept);
            made.start(new Listener(made), new Metadata());
            made.sendMessage(SubmitRequest.newBuilder()
                    .setAcknowledged(seen)
                    .setHello(hello)
                    .build());
            made.request(1);
            pump();
        } catch (RuntimeException failed) { // of a token that cannot be sent
            call = null;
            end(Failures.of(failed));
        } finally {
            lock.unlock();
        }
    }

    /** Sends what the connection takes; it calls back when it takes more. */
    private void pump() {
        while (call != null && !unsent.isEmpty() && call.isReady()) {
            call.sendMessage(unsent.remove());
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
            ifCurrent(() -> {
                welcomed = answer.hasWelcome() ? System.nanoTime() : welcomed;
                try {
                    take(answer);
                    own.request(1);
                } catch (KilnException impossible) {
                    call = null;
                    end(impossible);
                    own.cancel("what came cannot be", null);
                }
            });
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            ifCurrent(() -> {
                boolean stood = welcomed != 0 && System.nanoTime() - welcomed > connection.session.lease() / 3;
                lose(
                        status.isOk()
                                ? Failures.of(Status.Code.UNAVAILABLE, "the stream to %s has ended", connection.address)
                                : Failures.of(status, trailers, null),
                        stood);
            });
        }
    }

    /** The connection is gone, which may have stood for long. */
    private void lose(KilnException failed, boolean stood) {
        call = null;
        if (stood || seen > seenAtLoss) {
            lost = System.nanoTime();
            seenAtLoss = seen;
            pause = AGAIN;
        }
        if (!mayPass(failed) || System.nanoTime() - lost > connection.session.lease()) {
            end(failed);
            return;
        }
        connection.delay(pause).whenComplete((rested, closed) -> {
            if (closed == null) {
                connection.redial();
                Context.ROOT.run(this::connect);
            } else {
                end(Failures.closed());
            }
        });
        pause = Math.min(2 * pause, MOST_AGAIN);
    }

    /** A stream that ended so may be taken up again. Nobody has said why, so it is the connection that was lost. */
    private boolean mayPass(KilnException failed) {
        return !isClosing
                && failed.is(ErrorCode.ERROR_CODE_UNSPECIFIED)
                && switch (failed.status()) {
                    case UNAVAILABLE, INTERNAL, UNKNOWN, CANCELLED -> true;
                    default -> false;
                };
    }

    /** Tells who waits. Where nobody does, the next fence under this session tells that commands may be lost. */
    private void end(KilnException failed) {
        lock.lock();
        try {
            if (ended != null) {
                return;
            }
            call = null;
            if (failure == null && asked.isEmpty() && !kept.isEmpty()) {
                failure = failed;
            }
            ended = failed;
            asked.values().forEach(pending -> fail(pending, failed));
            asked.clear();
            kept.clear();
            unsent.clear();
            bytes = 0;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Not here, where what follows would stand in the way of the stream's next answer. */
    private void fail(Pending pending, KilnException failed) {
        connection.later(() -> pending.future.completeExceptionally(failed));
    }

    // -- what comes in: answers in the order of their commands; a server whose answers cannot be ends the link

    private void take(SubmitResponse answer) {
        if (answer.hasWelcome()) {
            giveUp(answer.getWelcome().getAnswersLost());
            return;
        }
        long command = answer.getCommandId();
        if (Long.compareUnsigned(command, seen) <= 0) { // it comes a second time
            return;
        }
        if (Long.compareUnsigned(command, last) > 0) {
            throw Failures.badServer("answered command %s of %d", Long.toUnsignedString(command), last);
        }
        if (!asked.isEmpty() && asked.firstKey() < command) {
            throw Failures.badServer("answered command %d before %d", command, asked.firstKey());
        }
        Pending pending = asked.get(command);
        if (pending != null && answer.hasData()) {
            pending.add(answer.getData(), command);
        }
        if (answer.getMore()) {
            return;
        }
        KilnException failed = answer.hasFailed() ? Failures.ofCommand(answer.getFailed(), command) : null;
        if (pending == null) {
            failure = failure == null ? failed : failure;
        } else if (failed != null) {
            fail(asked.remove(command), failed);
        } else {
            java.nio.ByteBuffer whole = pending.whole(command);
            asked.remove(command);
            connection.later(() -> pending.future.complete(whole));
        }
        confirm(command);
    }

    /** All up to this command have ended. */
    private void confirm(long command) {
        seen = command;
        while (!kept.isEmpty() && kept.peek().getCommandId() <= command) {
            SubmitRequest done = kept.remove();
            bytes -= done.getSerializedSize();
            if (unsent.peek() == done) {
                unsent.remove();
            }
        }
        changed.signalAll();
    }

    /** The answers up to this are no longer all there: nobody knows whether those commands went well. */
    private void giveUp(long upTo) {
        if (Long.compareUnsigned(upTo, seen) <= 0) {
            return;
        }
        if (Long.compareUnsigned(upTo, last) > 0) {
            throw Failures.badServer("lost the answers to %s commands of %d", Long.toUnsignedString(upTo), last);
        }
        KilnException failed = Failures.of(
                Status.Code.UNAVAILABLE, "the connection to %s was lost with an answer: ask again", connection.address);
        Iterator<Pending> gone = asked.headMap(upTo, true).values().iterator();
        while (gone.hasNext()) {
            fail(gone.next(), failed);
            gone.remove();
        }
        failure = failure == null ? failed : failure;
        confirm(upTo);
    }
}
