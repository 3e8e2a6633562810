package kiln;

import com.google.protobuf.ByteString;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/**
 * The pieces of which a graph's canonical bytes are made (proto/README.md): little-endian, lists
 * with their length.
 */
final class CanonicalBytes {
    private byte[] bytes = new byte[256];
    private int length;

    private void room(int more) {
        if (bytes.length - length < more) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, Math.addExact(length, more)));
        }
    }

    CanonicalBytes u8(int value) {
        room(1);
        bytes[length++] = (byte) value;
        return this;
    }

    CanonicalBytes bool(boolean value) {
        return u8(value ? 1 : 0);
    }

    CanonicalBytes u32(int value) {
        room(4);
        for (int shift = 0; shift < 32; shift += 8) {
            bytes[length++] = (byte) (value >>> shift);
        }
        return this;
    }

    CanonicalBytes i64(long value) {
        return u32((int) value).u32((int) (value >>> 32));
    }

    CanonicalBytes raw(byte[] data) {
        room(data.length);
        System.arraycopy(data, 0, bytes, length, data.length);
        length += data.length;
        return this;
    }

    CanonicalBytes string(String text) {
        byte[] data = text.getBytes(StandardCharsets.UTF_8);
        return u32(data.length).raw(data);
    }

    CanonicalBytes string(ByteString data) {
        return u32(data.size()).raw(data.toByteArray());
    }

    CanonicalBytes strings(List<String> texts) {
        u32(texts.size());
        texts.forEach(this::string);
        return this;
    }

    CanonicalBytes i64s(List<Long> values) {
        u32(values.size());
        values.forEach(this::i64);
        return this;
    }

    /** All that was written, and begins anew. */
    byte[] take() {
        byte[] taken = Arrays.copyOf(bytes, length);
        length = 0;
        return taken;
    }
}
