package kiln;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;

/**
 * An answer of a stream's that is on its way, of so many bytes of data. Its link's lock guards it.
 */
final class Pending {
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
                    "answered command %d with more than the %d bytes asked for", command, bytes);
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
            throw Failures.badServer("sent %d bytes of command %d, not %d", had, command, bytes);
        }
        return data == null ? ByteBuffer.allocate(0) : data.flip();
    }
}
