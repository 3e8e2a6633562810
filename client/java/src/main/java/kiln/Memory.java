package kiln;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.grpc.Status;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Memory of this process. */
final class Memory {
    private static final long MOST = Integer.MAX_VALUE - 8;

    private Memory() {}

    /** So many bytes, little-endian; a failure for more than there may be. */
    static ByteBuffer room(long bytes) {
        if (bytes > MOST) {
            String text =
                    "%d bytes are more than one array holds here: read the buffer in parts, or to a channel";
            throw Failures.of(Status.Code.RESOURCE_EXHAUSTED, text, bytes);
        }
        try {
            return ByteBuffer.allocate((int) bytes).order(ByteOrder.LITTLE_ENDIAN);
        } catch (OutOfMemoryError failed) {
            throw Failures.of(
                    Status.Code.RESOURCE_EXHAUSTED, "there is no memory for %d bytes: -Xmx", bytes);
        }
    }

    /** The bytes from a buffer's position to its limit, without a copy. */
    static ByteString shared(ByteBuffer data) {
        return UnsafeByteOperations.unsafeWrap(data);
    }
}
