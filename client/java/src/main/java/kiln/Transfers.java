package kiln;

import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import java.util.concurrent.CompletableFuture;
import kiln.v1.BufferRef;
import kiln.v1.ReadRequest;
import kiln.v1.WriteHeader;
import kiln.v1.WriteRequest;
import kiln.v1.WriteResponse;

/**
 * Uploads and downloads, in chunks of 1 MiB: the next is written when the connection has taken the
 * one before, and asked for when the one before was used. So any number of bytes need the memory of
 * a few chunks.
 */
final class Transfers {
    private Transfers() {}

    /**
     * Gives an upload's bytes, chunk by chunk: at most 1 MiB, and at least a byte while there are
     * any.
     */
    interface Source {
        ByteBuffer next(int most) throws IOException;
    }

    static Source from(ByteBuffer data) {
        ByteBuffer rest = data.duplicate();
        return most -> {
            ByteBuffer chunk = rest.slice(rest.position(), most);
            rest.position(rest.position() + most);
            return chunk;
        };
    }

    static Source from(ReadableByteChannel channel) {
        ByteBuffer memory = ByteBuffer.allocate(Chunks.MOST);
        return most -> {
            memory.clear().limit(most);
            while (memory.hasRemaining()) {
                if (channel.read(memory) < 0) {
                    throw new IOException("the channel has ended before its time");
                }
            }
            return memory.flip();
        };
    }

    static Chunks.Sink to(WritableByteChannel channel) {
        return (from, bytes) -> {
            ByteBuffer memory = ByteBuffer.allocate(bytes);
            Chunks.exactly(from, memory.array(), 0, bytes);
            try {
                while (memory.hasRemaining()) {
                    channel.write(memory);
                }
            } catch (IOException failed) {
                throw Failures.badArgument("the download's channel: %s", failed);
            }
        };
    }

    static CompletableFuture<Void> write(
            Operation operation, BufferRef to, Source source, long bytes) {
        ClientCall<Object, WriteResponse> call = operation.begin(Chunks.writing());
        Upload upload = new Upload(call, source, bytes);
        operation.within(
                () -> {
                    upload.begin(to);
                    return null;
                });
        return upload.ended;
    }

    private static final class Upload extends ClientCall.Listener<WriteResponse> {
        final CompletableFuture<Void> ended = new CompletableFuture<>();
        private final ClientCall<Object, WriteResponse> call;
        private final Source source;
        private final long bytes;
        private long left;
        private boolean isOver;
        private KilnException failed;
        private WriteResponse answer;

        Upload(ClientCall<Object, WriteResponse> call, Source source, long bytes) {
            this.call = call;
            this.source = source;
            this.bytes = bytes;
            this.left = bytes;
        }

        /** The header goes before all that gRPC calls back for. */
        synchronized void begin(BufferRef to) {
            call.start(this, new Metadata());
            WriteHeader.Builder header = WriteHeader.newBuilder().setBuffer(to).setBytes(bytes);
            call.sendMessage(WriteRequest.newBuilder().setHeader(header).build());
            call.request(
                    2); // a second message would be a fault, which gRPC tells only if it is asked
            // for
            onReady();
        }

        @Override
        public synchronized void onReady() {
            try {
                while (!isOver && left > 0 && call.isReady()) {
                    ByteBuffer chunk = source.next((int) Math.min(Chunks.MOST, left));
                    left -= chunk.remaining();
                    call.sendMessage(chunk);
                }
                if (!isOver && left == 0) {
                    isOver = true;
                    call.halfClose();
                }
            } catch (IOException | RuntimeException mistake) {
                isOver = true;
                failed =
                        mistake instanceof KilnException known
                                ? known
                                : Failures.badArgument("the upload's source: %s", mistake);
                call.cancel("the source has failed", mistake);
            }
        }

        @Override
        public void onMessage(WriteResponse message) {
            answer = message;
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            synchronized (this) {
                isOver = true;
            }
            if (failed != null) {
                ended.completeExceptionally(failed);
            } else if (!status.isOk()) {
                ended.completeExceptionally(Failures.of(status, trailers, null));
            } else if (left > 0 || answer == null) {
                ended.completeExceptionally(
                        Failures.badServer(
                                "took %d of %d bytes, and said no more", bytes - left, bytes));
            } else {
                ended.complete(null);
            }
        }
    }

    /** So many bytes, which are 1 or more. */
    static CompletableFuture<Void> read(
            Operation operation, BufferRef from, Chunks.Sink sink, long bytes) {
        Download download = new Download(sink, bytes);
        ClientCall<ReadRequest, Integer> call = operation.begin(Chunks.reading(download));
        download.call = call;
        operation.within(
                () -> {
                    call.start(download, new Metadata());
                    call.sendMessage(
                            ReadRequest.newBuilder().setBuffer(from).setBytes(bytes).build());
                    call.halfClose();
                    call.request(2); // the next is on its way while one is used
                    return null;
                });
        return download.ended;
    }

    private static final class Download extends ClientCall.Listener<Integer>
            implements Chunks.Sink {
        final CompletableFuture<Void> ended = new CompletableFuture<>();
        ClientCall<ReadRequest, Integer> call;
        private final Chunks.Sink sink;
        private final long bytes;
        private long left;

        Download(Chunks.Sink sink, long bytes) {
            this.sink = sink;
            this.bytes = bytes;
            this.left = bytes;
        }

        @Override
        public void take(InputStream from, int count) throws IOException {
            if (count > left) {
                throw Failures.badServer("sent more than the %d bytes that were asked for", bytes);
            }
            sink.take(from, count);
            left -= count;
        }

        @Override
        public void onMessage(Integer taken) {
            call.request(1);
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            if (!status.isOk()) {
                ended.completeExceptionally(Failures.of(status, trailers, null));
            } else if (left > 0) {
                ended.completeExceptionally(
                        Failures.badServer("sent %d of %d bytes", bytes - left, bytes));
            } else {
                ended.complete(null);
            }
        }
    }
}
