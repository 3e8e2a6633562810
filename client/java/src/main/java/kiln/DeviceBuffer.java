package kiln;

import io.grpc.Status;
import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import java.time.Duration;
import java.util.Arrays;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import kiln.v1.BufferDescription;
import kiln.v1.BufferRef;
import kiln.v1.BufferServiceGrpc;
import kiln.v1.CopyRequest;
import kiln.v1.ErrorCode;
import kiln.v1.FillRequest;
import kiln.v1.FreeRequest;

/**
 * Memory on a device. It lives until {@link #close}, or until its client is closed. One that is
 * forgotten is given back when the collector finds it, which may be late: the memory is not Java's.
 */
public final class DeviceBuffer implements Argument, AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();
    private static final Duration FAREWELL = Duration.ofSeconds(10);

    private final KilnClient client;
    private final Ownership ownership;
    private final DType dtype;
    private final long[] shape;
    private final long bytes;
    private final String device;

    DeviceBuffer(
            KilnClient client, long handle, DType dtype, long[] shape, long bytes, String device) {
        this.client = client;
        this.ownership = new Ownership(client, handle);
        this.dtype = dtype;
        this.shape = shape;
        this.bytes = bytes;
        this.device = device;
        CLEANER.register(this, ownership);
    }

    /**
     * What the server has, as long as nobody has freed it. It knows nothing of the buffer, or that
     * were never lost.
     */
    private static final class Ownership implements Runnable {
        final KilnClient client;
        final long handle;
        final byte[] session;
        final AtomicBoolean isFreed = new AtomicBoolean();

        Ownership(KilnClient client, long handle) {
            this.client = client;
            this.handle = handle;
            this.session = client.connection.session.token();
        }

        @Override
        public void run() {
            if (!isFreed.getAndSet(true) && client.connection.session.isCurrent(session)) {
                client.forget(handle);
            }
        }
    }

    /** A buffer that the server says it has. */
    static DeviceBuffer of(KilnClient client, BufferDescription said) {
        DType dtype = DType.of(said.getDtype());
        long[] shape = Shapes.of(said.getShapeList());
        long wanted;
        try {
            wanted = dtype == null ? said.getBytes() : Shapes.bytes(dtype, shape);
        } catch (KilnException impossible) {
            wanted = -1;
        }
        if (said.getBytes() < 0 || said.getBytes() != wanted) {
            String text = "says that a buffer has %s bytes for %s %s";
            String size = Long.toUnsignedString(said.getBytes());
            throw Failures.badServer(text, size, dtype, Arrays.toString(shape));
        }
        return new DeviceBuffer(
                client, said.getHandle(), dtype, shape, said.getBytes(), said.getDevice());
    }

    /** The server's name for it. */
    public long handle() {
        return ownership.handle;
    }

    /** What it holds; empty where that is not known. */
    public Optional<DType> dtype() {
        return Optional.ofNullable(dtype);
    }

    /** Its array's. */
    public long[] shape() {
        return shape.clone();
    }

    /** Its size. */
    public long bytes() {
        return bytes;
    }

    /** Where it is, by name; empty: on the server's first device. */
    public String device() {
        return device;
    }

    @Override
    public String toString() {
        return "DeviceBuffer(%x, %s, %s)"
                .formatted(ownership.handle, dtype, Arrays.toString(shape));
    }

    /** The part from a byte on, as an argument of programs. */
    public Argument at(long offset) {
        inside(offset, 0);
        return new Argument.Part(this, offset);
    }

    KilnClient client() {
        return client;
    }

    BufferRef ref(long offset) {
        return BufferRef.newBuilder().setHandle(ownership.handle).setOffset(offset).build();
    }

    /** Whether it was not freed before; from now on it is. */
    boolean takeForFree() {
        return !ownership.isFreed.getAndSet(true);
    }

    /** It was not freed after all. */
    void restore() {
        ownership.isFreed.set(false);
    }

    /** A failure for what is no part of the buffer. */
    void inside(long offset, long count) {
        if (offset < 0 || count < 0 || offset > bytes || count > bytes - offset) {
            String text = "%d bytes from %d on, of a buffer of %d";
            throw Failures.coded(
                    ErrorCode.OUT_OF_BOUNDS, Status.Code.OUT_OF_RANGE, text, count, offset, bytes);
        }
    }

    /**
     * Puts the bytes from `data`'s position to its limit at an offset. They must stay as they are
     * until it is done.
     */
    public CompletableFuture<Void> writeAsync(long offset, ByteBuffer data, CallOptions options) {
        return Operation.of(
                client.connection,
                options,
                operation -> {
                    inside(offset, data.remaining());
                    return Transfers.write(
                            operation, ref(offset), Transfers.from(data), data.remaining());
                });
    }

    /** Puts bytes at an offset, and waits. */
    public void write(long offset, ByteBuffer data, CallOptions options) {
        Operation.await(writeAsync(offset, data, options));
    }

    /** Puts bytes at an offset, and waits. */
    public void write(long offset, ByteBuffer data) {
        write(offset, data, CallOptions.DEFAULT);
    }

    /**
     * Puts so many bytes of a channel at an offset, of which a chunk is here at a time: any number
     * of them.
     */
    public void writeFrom(
            ReadableByteChannel channel, long offset, long count, CallOptions options) {
        Operation.await(
                Operation.of(
                        client.connection,
                        options,
                        operation -> {
                            inside(offset, count);
                            return Transfers.write(
                                    operation, ref(offset), Transfers.from(channel), count);
                        }));
    }

    /**
     * Fills `into` from its position to its limit with what is at an offset, and moves its
     * position. One that was given up may still be written to for a moment.
     */
    public CompletableFuture<Void> readAsync(long offset, ByteBuffer into, CallOptions options) {
        return Operation.of(client.connection, options, operation -> read(operation, offset, into));
    }

    CompletableFuture<Void> read(Operation operation, long offset, ByteBuffer into) {
        inside(offset, into.remaining());
        return into.hasRemaining()
                ? Transfers.read(operation, ref(offset), Chunks.into(into), into.remaining())
                : CompletableFuture.completedFuture(null);
    }

    /** Fills memory with what is at an offset, and waits. */
    public void read(long offset, ByteBuffer into, CallOptions options) {
        Operation.await(readAsync(offset, into, options));
    }

    /** Fills memory with what is at an offset, and waits. */
    public void read(long offset, ByteBuffer into) {
        read(offset, into, CallOptions.DEFAULT);
    }

    /**
     * Writes so many bytes from an offset on to a channel, of which a chunk is here at a time: any
     * number of them.
     */
    public void readTo(WritableByteChannel channel, long offset, long count, CallOptions options) {
        Operation.await(
                Operation.of(
                        client.connection,
                        options,
                        operation -> {
                            inside(offset, count);
                            return count == 0
                                    ? CompletableFuture.<Void>completedFuture(null)
                                    : Transfers.read(
                                            operation, ref(offset), Transfers.to(channel), count);
                        }));
    }

    /** Brings the array here; of a buffer without a type, its bytes as uint8. */
    public CompletableFuture<NdArray> readAsync(CallOptions options) {
        return Operation.of(client.connection, options, this::read);
    }

    CompletableFuture<NdArray> read(Operation operation) {
        ByteBuffer memory = Memory.room(bytes);
        return read(operation, 0, memory).thenApply(read -> array(memory.flip()));
    }

    /** Its bytes, which are here, as an array. */
    NdArray array(ByteBuffer memory) {
        return dtype == null
                ? NdArray.of(DType.UINT8, memory, bytes)
                : NdArray.of(dtype, memory, shape);
    }

    /** Brings the array here, and waits. */
    public NdArray read(CallOptions options) {
        return Operation.await(readAsync(options));
    }

    /** Brings the array here, and waits. */
    public NdArray read() {
        return read(CallOptions.DEFAULT);
    }

    /** Repeats a pattern of 1, 2, 4 or 8 bytes all over the buffer. */
    public CompletableFuture<Void> fillAsync(byte[] pattern, CallOptions options) {
        FillRequest request =
                FillRequest.newBuilder()
                        .setBuffer(ref(0))
                        .setPattern(Memory.shared(ByteBuffer.wrap(pattern.clone())))
                        .build();
        return client.callAsync(BufferServiceGrpc.getFillMethod(), request, options)
                .thenApply(answer -> null);
    }

    /** Repeats a pattern all over the buffer, and waits. */
    public void fill(byte... pattern) {
        Operation.await(fillAsync(pattern, CallOptions.DEFAULT));
    }

    /** Copies the whole of another buffer to the beginning of this. */
    public CompletableFuture<Void> copyFromAsync(DeviceBuffer source, CallOptions options) {
        CopyRequest request =
                CopyRequest.newBuilder()
                        .setFrom(source.ref(0))
                        .setTo(ref(0))
                        .setBytes(source.bytes)
                        .build();
        return client.callAsync(BufferServiceGrpc.getCopyMethod(), request, options)
                .thenApply(answer -> null);
    }

    /** Copies the whole of another buffer to the beginning of this, and waits. */
    public void copyFrom(DeviceBuffer source) {
        Operation.await(copyFromAsync(source, CallOptions.DEFAULT));
    }

    /**
     * Gives it back. What runs may still use it. Twice is once, but after a failure it can be tried
     * again.
     */
    public CompletableFuture<Void> freeAsync(CallOptions options) {
        return Operation.of(client.connection, options, this::free);
    }

    CompletableFuture<Void> free(Operation operation) {
        if (!takeForFree()) {
            return CompletableFuture.completedFuture(null);
        }
        FreeRequest request = FreeRequest.newBuilder().addHandle(ownership.handle).build();
        return operation
                .call(BufferServiceGrpc.getFreeMethod(), request)
                .<Void>thenApply(answer -> null)
                .whenComplete(
                        (freed, failed) -> {
                            if (failed != null) {
                                restore();
                            }
                        });
    }

    /** Gives it back, and waits. */
    public void free() {
        Operation.await(freeAsync(CallOptions.DEFAULT));
    }

    /**
     * Gives it back, and waits. What fails here the end of the client's lease does; {@link #free}
     * tells of it.
     */
    @Override
    public void close() {
        try {
            Operation.await(freeAsync(CallOptions.timeout(FAREWELL)));
        } catch (KilnException failed) {
            // as said above
        }
    }
}
