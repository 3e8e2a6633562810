package kiln;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import kiln.v1.SubmitRequest;
import kiln.v1.SubmitResponse;

/**
 * A stream's commands that are not confirmed, in order, and the answers that are awaited. It
 * numbers commands and takes answers, which come in the order of their commands; answers that
 * cannot be are failures. Its link's lock guards it.
 */
final class Window {
    /** What may be unconfirmed before a sender waits; an answer is asked for at a quarter of it. */
    private static final int MOST_COMMANDS = 1024;

    private static final long MOST_BYTES = 16 << 20;

    private final Connection connection;
    private final ArrayDeque<SubmitRequest> kept = new ArrayDeque<>();
    private final ArrayDeque<SubmitRequest> unsent =
            new ArrayDeque<>(); // of kept, on this connection
    private final TreeMap<Long, Pending> asked = new TreeMap<>();
    private KilnException failure; // the first of a command that nobody waits for
    private long last; // the last command's number
    private long seen; // all answers up to this one's have come
    private long bytes; // of kept
    private int unaskedCommands;
    private long unaskedBytes;

    Window(Connection connection) {
        this.connection = connection;
    }

    /** Goes on where another has ended. */
    Window(Window before) {
        connection = before.connection;
        last = before.last;
        seen = before.last;
        failure = before.takeFailure();
    }

    long seen() {
        return seen;
    }

    int unconfirmed() {
        return kept.size();
    }

    boolean isFull() {
        return kept.size() >= MOST_COMMANDS || bytes >= MOST_BYTES;
    }

    /** Numbers a command. Without `pending`, nobody waits for its answer. */
    void add(SubmitRequest.Builder request, Pending pending) {
        request.setCommandId(++last).setAcknowledged(seen);
        unaskedCommands++;
        unaskedBytes += request.build().getSerializedSize();
        if (pending != null
                || 4 * unaskedCommands > MOST_COMMANDS
                || 4 * unaskedBytes > MOST_BYTES) {
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
    }

    /** There is another connection, on which all goes once more. */
    void again() {
        asked.values().forEach(Pending::again);
        unsent.clear();
        unsent.addAll(kept);
    }

    boolean hasUnsent() {
        return !unsent.isEmpty();
    }

    SubmitRequest next() {
        return unsent.remove();
    }

    /**
     * The first failure of a command that nobody waited for, once; those after it are forgotten.
     * Null for none.
     */
    KilnException takeFailure() {
        KilnException taken = failure;
        failure = null;
        return taken;
    }

    void take(SubmitResponse answer) {
        if (answer.hasWelcome()) {
            giveUp(answer.getWelcome().getAnswersLost());
            return;
        }
        long command = answer.getCommandId();
        if (Long.compareUnsigned(command, seen) <= 0) { // it comes a second time
            return;
        }
        if (Long.compareUnsigned(command, last) > 0) {
            String number = Long.toUnsignedString(command);
            throw Failures.badServer("answered command %s of %d", number, last);
        }
        if (!asked.isEmpty() && asked.firstKey() < command) {
            throw Failures.badServer("answered command %d before %d", command, asked.firstKey());
        }
        Pending pending = asked.get(command);
        if (pending != null && answer.hasData()) {
            pending.add(answer.getData(), command);
        }
        if (!answer.getMore()) {
            settle(answer, command, pending);
            confirm(command);
        }
    }

    private void settle(SubmitResponse answer, long command, Pending pending) {
        KilnException failed =
                answer.hasFailed() ? Failures.ofCommand(answer.getFailed(), command) : null;
        if (pending == null) {
            failure = failure == null ? failed : failure;
        } else if (failed != null) {
            fail(asked.remove(command), failed);
        } else {
            ByteBuffer whole = pending.whole(command);
            asked.remove(command);
            connection.later(() -> pending.future.complete(whole));
        }
    }

    /** Not here, where what follows would stand in the way of the stream's next answer. */
    private void fail(Pending pending, KilnException failed) {
        connection.later(() -> pending.future.completeExceptionally(failed));
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
    }

    /**
     * The answers up to this are no longer all there: nobody knows whether those commands went
     * well.
     */
    private void giveUp(long upTo) {
        if (Long.compareUnsigned(upTo, seen) <= 0) {
            return;
        }
        if (Long.compareUnsigned(upTo, last) > 0) {
            String number = Long.toUnsignedString(upTo);
            throw Failures.badServer("lost the answers to %s commands of %d", number, last);
        }
        KilnException failed =
                Failures.of(
                        Status.Code.UNAVAILABLE,
                        "the connection to %s was lost with an answer: ask again",
                        connection.address);
        Iterator<Pending> gone = asked.headMap(upTo, true).values().iterator();
        while (gone.hasNext()) {
            fail(gone.next(), failed);
            gone.remove();
        }
        failure = failure == null ? failed : failure;
        confirm(upTo);
    }

    /**
     * Tells who waits. Where nobody does, the next fence under this session tells that commands may
     * be lost.
     */
    void end(KilnException failed) {
        if (failure == null && asked.isEmpty() && !kept.isEmpty()) {
            failure = failed;
        }
        asked.values().forEach(pending -> fail(pending, failed));
        asked.clear();
        kept.clear();
        unsent.clear();
        bytes = 0;
    }

    /** An answer that is on its way, of so many bytes of data. The same lock guards it. */
    static final class Pending {
        final CompletableFuture<ByteBuffer> future = new CompletableFuture<>();
        final long bytes;
        private ByteBuffer data;

        Pending(long bytes) {
            this.bytes = bytes;
        }

        /** It comes again, from its beginning. */
        void again() {
            data = null;
        }

        /** Takes a piece; a failure for more than was asked for. */
        void add(ByteString piece, long command) {
            long had = data == null ? 0 : data.position();
            if (piece.size() > bytes - had) {
                throw Failures.badServer(
                        "answered command %d with more than the %d bytes asked for",
                        command, bytes);
            }
            if (data == null) {
                data = Memory.room(bytes);
            }
            piece.copyTo(data);
        }

        /** All has come; a failure if that is less than was asked for. */
        ByteBuffer whole(long command) {
            long had = data == null ? 0 : data.position();
            if (had != bytes) {
                throw Failures.badServer(
                        "sent %d bytes of command %d, not %d", had, command, bytes);
            }
            return data == null ? ByteBuffer.allocate(0) : data.flip();
        }
    }
}
