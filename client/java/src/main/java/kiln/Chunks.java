package kiln;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.WireFormat;
import io.grpc.Drainable;
import io.grpc.KnownLength;
import io.grpc.MethodDescriptor;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import kiln.v1.BufferServiceGrpc;
import kiln.v1.ReadRequest;
import kiln.v1.ReadResponse;
import kiln.v1.WriteRequest;
import kiln.v1.WriteResponse;

/**
 * Pieces of data, which pass protobuf by: a WriteRequest is a tag and a length before the bytes, a
 * ReadResponse the same. So each byte is copied once on this side, into the frames of HTTP/2 or out
 * of them.
 */
final class Chunks {
    static final int MOST = 1 << 20;

    private static final int SCRATCH = 64 << 10;
    private static final int WRITTEN = tag(WriteRequest.CHUNK_FIELD_NUMBER);
    private static final int READ = tag(ReadResponse.CHUNK_FIELD_NUMBER);

    private Chunks() {}

    private static int tag(int field) {
        return field << 3 | WireFormat.WIRETYPE_LENGTH_DELIMITED;
    }

    /** Takes the bytes of an answer as they come. */
    interface Sink {
        void take(InputStream from, int bytes) throws IOException;
    }

    /** Write, whose requests are a message, the header, or bytes. */
    static MethodDescriptor<Object, WriteResponse> writing() {
        MethodDescriptor<WriteRequest, WriteResponse> method = BufferServiceGrpc.getWriteMethod();
        return method.toBuilder(
                        new Outgoing(method.getRequestMarshaller()), method.getResponseMarshaller())
                .build();
    }

    /** Read, whose answers go to a sink, and are how many bytes it took. */
    static MethodDescriptor<ReadRequest, Integer> reading(Sink sink) {
        MethodDescriptor<ReadRequest, ReadResponse> method = BufferServiceGrpc.getReadMethod();
        return method.toBuilder(method.getRequestMarshaller(), new Incoming(sink)).build();
    }

    /** A sink that fills memory. */
    static Sink into(ByteBuffer memory) {
        return (from, bytes) -> {
            if (memory.hasArray()) {
                int at = memory.arrayOffset() + memory.position();
                exactly(from, memory.array(), at, bytes);
                memory.position(memory.position() + bytes);
            } else {
                byte[] scratch = new byte[Math.min(bytes, SCRATCH)];
                for (int left = bytes; left > 0; left -= scratch.length) {
                    int count = Math.min(left, scratch.length);
                    exactly(from, scratch, 0, count);
                    memory.put(scratch, 0, count);
                }
            }
        };
    }

    static void exactly(InputStream from, byte[] to, int at, int bytes) throws IOException {
        if (from.readNBytes(to, at, bytes) != bytes) {
            throw new IOException("it ends within a chunk");
        }
    }

    private record Outgoing(MethodDescriptor.Marshaller<WriteRequest> messages)
            implements MethodDescriptor.Marshaller<Object> {
        @Override
        public InputStream stream(Object value) {
            return value instanceof ByteBuffer data
                    ? new Chunk(data)
                    : messages.stream((WriteRequest) value);
        }

        @Override
        public Object parse(InputStream stream) {
            return messages.parse(stream);
        }
    }

    /** A WriteRequest with these bytes, as gRPC takes a message. */
    private static final class Chunk extends InputStream implements KnownLength, Drainable {
        private final ByteBuffer head;
        private final ByteBuffer data;

        Chunk(ByteBuffer bytes) {
            data = bytes.duplicate();
            byte[] made =
                    new byte
                            [CodedOutputStream.computeUInt32SizeNoTag(WRITTEN)
                                    + CodedOutputStream.computeUInt32SizeNoTag(data.remaining())];
            CodedOutputStream out = CodedOutputStream.newInstance(made);
            try {
                out.writeUInt32NoTag(WRITTEN);
                out.writeUInt32NoTag(data.remaining());
            } catch (IOException impossible) {
                throw new AssertionError(impossible);
            }
            head = ByteBuffer.wrap(made);
        }

        @Override
        public int available() {
            return head.remaining() + data.remaining();
        }

        @Override
        public int read() {
            ByteBuffer from = head.hasRemaining() ? head : data;
            return from.hasRemaining() ? from.get() & 0xff : -1;
        }

        @Override
        public int drainTo(OutputStream target) throws IOException {
            int written = available();
            target.write(head.array(), head.position(), head.remaining());
            if (data.hasArray()) {
                target.write(data.array(), data.arrayOffset() + data.position(), data.remaining());
            } else {
                byte[] scratch = new byte[Math.min(data.remaining(), SCRATCH)];
                while (data.hasRemaining()) {
                    int count = Math.min(data.remaining(), scratch.length);
                    data.get(scratch, 0, count);
                    target.write(scratch, 0, count);
                }
            }
            head.position(head.limit());
            data.position(data.limit());
            return written;
        }
    }

    private record Incoming(Sink sink) implements MethodDescriptor.Marshaller<Integer> {
        @Override
        public InputStream stream(Integer value) {
            throw new UnsupportedOperationException("only what comes is read");
        }

        /** A ReadResponse of a newer server may have further fields. */
        @Override
        public Integer parse(InputStream stream) {
            try {
                int taken = 0;
                for (int first = stream.read(); first >= 0; first = stream.read()) {
                    int tag = CodedInputStream.readRawVarint32(first, stream);
                    if (tag == READ) {
                        int bytes = length(stream);
                        sink.take(stream, bytes);
                        taken += bytes;
                    } else {
                        skip(stream, tag);
                    }
                }
                return taken;
            } catch (IOException unreadable) {
                throw Failures.badServer(
                        "sent what is no ReadResponse: %s", unreadable.getMessage());
            }
        }

        private static int length(InputStream stream) throws IOException {
            int bytes = CodedInputStream.readRawVarint32(byteOf(stream), stream);
            if (bytes < 0 || bytes > stream.available()) {
                throw new IOException("a length beyond its end");
            }
            return bytes;
        }

        private static int byteOf(InputStream stream) throws IOException {
            int value = stream.read();
            if (value < 0) {
                throw new IOException("it ends within a field");
            }
            return value;
        }

        private static void skip(InputStream stream, int tag) throws IOException {
            switch (WireFormat.getTagWireType(tag)) {
                case WireFormat.WIRETYPE_VARINT -> {
                    for (int more = byteOf(stream); more >= 0x80; more = byteOf(stream)) {}
                }
                case WireFormat.WIRETYPE_FIXED64 -> stream.skipNBytes(8);
                case WireFormat.WIRETYPE_LENGTH_DELIMITED -> stream.skipNBytes(length(stream));
                case WireFormat.WIRETYPE_FIXED32 -> stream.skipNBytes(4);
                default ->
                        throw new IOException(
                                "a field of wire type " + WireFormat.getTagWireType(tag));
            }
        }
    }
}
