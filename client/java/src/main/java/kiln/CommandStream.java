package kiln;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import kiln.v1.AllocateCommand;
import kiln.v1.ExecuteCommand;
import kiln.v1.ExecuteRequest;
import kiln.v1.FreeCommand;
import kiln.v1.ReadCommand;
import kiln.v1.Signature;
import kiln.v1.SubmitRequest;
import kiln.v1.TensorType;
import kiln.v1.WriteCommand;

/**
 * Takes commands without waiting for the server: any number in one round trip. They take effect in
 * order. What they make has a name at once, so that the next command can use it; buffers are the
 * client's like any others.
 *
 * <p>A command that fails poisons what it would have made or written: what uses that is told the
 * first failure. {@link #fence} tells the first failure of a command whose answer nobody waits for,
 * and forgets it. Calls that are no commands know nothing of what is under way: fence first.
 *
 * <p>A connection that is lost is made again for as long as the lease lasts, and what may not have
 * arrived is sent again; each command runs once. Nothing waits but futures, {@link #fence}, and a
 * command where very much is under way.
 */
public final class CommandStream {
    /** A written piece: as much as makes no other command wait long. */
    private static final int PIECE = 256 << 10;

    /**
     * A server that had a program a moment ago has it still; for one that was not used for longer,
     * the graph goes along.
     */
    private static final long KNOWN = TimeUnit.SECONDS.toNanos(10);

    final Link link;
    private final KilnClient client;
    private final Map<ByteString, Long> known = new HashMap<>(); // by hash: when its graph was sent

    /** From anywhere on, so that another client's handle is none of ours. */
    private final AtomicLong names =
            new AtomicLong((1L << 62) + (ThreadLocalRandom.current().nextLong() >>> 3));

    CommandStream(KilnClient client, CommandStream before) {
        this.client = client;
        this.link = new Link(client.connection, before == null ? null : before.link);
    }

    /** Makes a buffer with an array of zeros. */
    public DeviceBuffer zeros(DType dtype, long... shape) {
        long bytes = Shapes.bytes(dtype, shape);
        DeviceBuffer made =
                new DeviceBuffer(
                        client,
                        names.incrementAndGet(),
                        dtype,
                        shape.clone(),
                        bytes,
                        client.device());
        TensorType.Builder type =
                TensorType.newBuilder().setDtype(dtype.wire).addAllShape(Shapes.boxed(shape));
        AllocateCommand.Builder command =
                AllocateCommand.newBuilder()
                        .setHandle(made.handle())
                        .setDevice(client.device())
                        .setType(type);
        sendMaking(SubmitRequest.newBuilder().setAllocate(command), List.of(made));
        return made;
    }

    /** What was not sent has made nothing. */
    private void sendMaking(SubmitRequest.Builder request, List<DeviceBuffer> made) {
        try {
            link.send(request, null);
        } catch (KilnException failed) {
            made.forEach(DeviceBuffer::takeForFree);
            throw failed;
        }
    }

    /**
     * Makes a buffer with an array. A ByteBuffer that the array shares must stay as it is until a
     * fence.
     */
    public DeviceBuffer upload(NdArray array) {
        DeviceBuffer made = zeros(array.dtype(), array.shape());
        write(made, 0, array.memory());
        return made;
    }

    /** Puts bytes at an offset, in pieces. They must stay as they are until a fence. */
    public void write(DeviceBuffer to, long offset, ByteBuffer data) {
        to.inside(offset, data.remaining());
        for (int at = data.position(); at < data.limit(); at += PIECE) {
            ByteBuffer piece = data.slice(at, Math.min(PIECE, data.limit() - at));
            WriteCommand.Builder command =
                    WriteCommand.newBuilder()
                            .setBuffer(to.ref(offset + at - data.position()))
                            .setData(Memory.shared(piece));
            link.send(SubmitRequest.newBuilder().setWrite(command), null);
        }
    }

    /**
     * Asks for a buffer's array. To cancel the future ends the waiting alone: the server carries
     * the read out.
     */
    public CompletableFuture<NdArray> read(DeviceBuffer from) {
        Window.Pending pending = new Window.Pending(from.bytes());
        ReadCommand.Builder command =
                ReadCommand.newBuilder().setBuffer(from.ref(0)).setBytes(from.bytes());
        return ask(SubmitRequest.newBuilder().setRead(command), pending).thenApply(from::array);
    }

    /** That the stream has ended, the future tells. */
    private CompletableFuture<ByteBuffer> ask(
            SubmitRequest.Builder request, Window.Pending pending) {
        try {
            link.send(request, pending);
            return pending.future;
        } catch (KilnException ended) {
            return CompletableFuture.failedFuture(ended);
        }
    }

    /** Runs a program, and gives its results as buffers. */
    public List<DeviceBuffer> run(Program program, Argument... arguments) {
        return run("", program, List.of(arguments));
    }

    /** The same with a tag, which comes back with its failure. */
    public List<DeviceBuffer> run(String tag, Program program, List<? extends Argument> arguments) {
        SortedMap<Integer, Argument> bound = program.bind(arguments);
        if (program.compiled.getResultLayoutsCount() > 0) {
            throw Failures.badArgument("a program for several devices: call it by KilnClient.call");
        }
        List<DeviceBuffer> results = new ArrayList<>();
        List<DeviceBuffer> made = new ArrayList<>();
        ExecuteCommand.Builder command = ExecuteCommand.newBuilder();
        for (Signature.Result row : program.signature().getResultsList()) {
            if (row.getSymbolicCount() > 0) {
                throw Failures.badArgument(
                        "a result's size depends on a variable: Program.runKeep gives it");
            }
            DeviceBuffer result = row.hasAliases() ? updated(program, bound, row) : result(row);
            command.addResultHandle(row.hasAliases() ? 0 : result.handle());
            results.add(result);
            if (!row.hasAliases()) {
                made.add(result);
            }
        }
        ExecuteRequest.Builder request = program.request(bound);
        if (isForgotten(program)) {
            request.setGraph(program.graph());
        }
        command.setRequest(request);
        sendMaking(SubmitRequest.newBuilder().setTag(tag).setExecute(command), made);
        return results;
    }

    private DeviceBuffer result(Signature.Result row) {
        DType dtype = DType.of(row.getDtype());
        long[] shape = Shapes.of(row.getShapeList());
        if (dtype == null || row.getBytes() != Shapes.bytes(dtype, shape)) {
            throw Failures.badServer(
                    "says that a result has %d bytes for %s", row.getBytes(), dtype);
        }
        return new DeviceBuffer(
                client, names.incrementAndGet(), dtype, shape, row.getBytes(), client.device());
    }

    /** The parameter that a result is after its update. */
    private static DeviceBuffer updated(
            Program program, Map<Integer, Argument> bound, Signature.Result row) {
        Signature.Parameter parameter =
                program.signature().getParameters(row.getAliases()); // which was looked at
        Argument given = bound.get(parameter.getSlot());
        if (given instanceof DeviceBuffer whole) {
            return whole;
        }
        if (given instanceof Argument.Part part) {
            return part.buffer();
        }
        throw Failures.badArgument(
                "parameter \"%s\" is updated in place: upload it", parameter.getName());
    }

    private synchronized boolean isForgotten(Program program) {
        long now = System.nanoTime();
        Long sent = known.get(program.compiled.getGraphHash());
        if (sent != null && now - sent < KNOWN) {
            return false;
        }
        known.put(program.compiled.getGraphHash(), now);
        return true;
    }

    /** Gives buffers back. What was sent before still has their memory. */
    public void free(DeviceBuffer... buffers) {
        FreeCommand.Builder command = FreeCommand.newBuilder();
        Set<DeviceBuffer> taken = new LinkedHashSet<>();
        for (DeviceBuffer buffer : buffers) {
            if (buffer.takeForFree()) {
                taken.add(buffer);
                command.addHandle(buffer.handle());
            }
        }
        try {
            link.send(SubmitRequest.newBuilder().setFree(command), null);
        } catch (KilnException failed) {
            taken.forEach(DeviceBuffer::restore);
            throw failed;
        }
    }

    /** Of a buffer that nobody can reach; false if the stream has ended. */
    boolean forget(long handle) {
        return link.sendAtOnce(
                SubmitRequest.newBuilder().setFree(FreeCommand.newBuilder().addHandle(handle)));
    }

    /** Ends when all before it has ended; by the first failure that nobody was told. */
    public CompletableFuture<Void> fenceAsync() {
        return ask(Link.fence(), new Window.Pending(0))
                .thenAccept(
                        reached -> {
                            KilnException failed = link.takeFailure();
                            if (failed != null) {
                                throw failed;
                            }
                        });
    }

    /** Waits until all before it has ended, and tells the first failure that nobody was told. */
    public void fence() {
        Operation.await(fenceAsync());
    }

    /** The same for so long; what was sent goes on after it. */
    public void fence(Duration most) {
        Operation.await(fenceAsync().orTimeout(Operation.nanos(most), TimeUnit.NANOSECONDS));
    }
}
