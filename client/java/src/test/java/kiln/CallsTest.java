package kiln;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.grpc.Drainable;
import io.grpc.KnownLength;
import io.grpc.Status;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.OptionalLong;
import kiln.inference.GRPCInferenceServiceGrpc;
import kiln.v1.ErrorCode;
import kiln.v1.ErrorDetail;
import kiln.v1.KernelServiceGrpc;
import kiln.v1.ReadResponse;
import kiln.v1.WriteRequest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What all calls have: who asks, what is tried again, errors, and chunks. */
class CallsTest {
    private static final ConnectOptions TOLD = ConnectOptions.DEFAULT.withToken("secret");

    @Test
    void aTokenDoesNotTravelInTheOpen() {
        String[] here = {
            "localhost:1",
            "127.0.0.1:1",
            "127.1.2.3:1",
            "[::1]:1",
            "unix:/run/kiln",
            "localhost",
            "dns:///localhost:1",
            "ipv6:[::1]:1",
            "ipv4:127.0.0.1:1,127.0.0.2:1"
        };
        for (String address : here) {
            assertEquals("secret", new Identity(address, TOLD, Map.of()).bearer(), address);
        }
        String[] elsewhere = {
            "127.evil.example:1",
            "localhost.example:1",
            "10.0.0.1:1",
            "dns:///host:1",
            "[::2]:1",
            "127.0.0.1.evil:1",
            "ipv4:127.0.0.1:1,10.0.0.1:1",
            ""
        };
        for (String address : elsewhere) {
            Fails.with(ErrorCode.BAD_ARGUMENT, () -> new Identity(address, TOLD, Map.of()));
            new Identity(address, TOLD.withTls(), Map.of());
            new Identity(address, TOLD.withInsecureToken(), Map.of());
        }
    }

    @Test
    void aClientDoesNotGoWhereverAServerSays() {
        Identity anyone = new Identity("host:1", ConnectOptions.DEFAULT, Map.of());
        Identity readable = new Identity("host:1", TOLD.withInsecureToken(), Map.of());
        Identity encrypted = new Identity("host:1", TOLD.withTls(), Map.of());
        for (String address : new String[] {"gpu1.example:7437", "10.0.0.1:1", "[fe80::1]:1"}) {
            assertTrue(anyone.mayFollow(address), address);
            assertTrue(encrypted.mayFollow(address), address);
            assertFalse(readable.mayFollow(address), address);
        }
        assertTrue(readable.mayFollow("127.0.0.1:7437"));
        String[] none = {
            "",
            "host",
            ":1",
            "host:",
            "unix:/tmp/x",
            "xds:host:1",
            "dns:///host:1",
            "a..b:1",
            "a b:1",
            "ipv4:127.0.0.1:1,10.0.0.1:1",
            "127.0.0.1:1,10.0.0.1:1",
            "host:1\n"
        };
        for (String address : none) {
            assertFalse(anyone.mayFollow(address), address);
        }
    }

    private static void refused(ConnectOptions options) {
        Fails.with(
                ErrorCode.BAD_ARGUMENT,
                () ->
                        new Connection(
                                "localhost:1", new Identity("localhost:1", options, Map.of())));
    }

    @Test
    void credentialsThatDoNotGoTogether(@TempDir Path folder) throws IOException {
        Path none = folder.resolve("none");
        refused(ConnectOptions.DEFAULT.withCertificate(none, null));
        refused(ConnectOptions.DEFAULT.withCertificate(none, none));
        refused(ConnectOptions.DEFAULT.withTls().withCertificate(none, none));
        refused(ConnectOptions.DEFAULT.withAuthority(none));
        refused(ConnectOptions.DEFAULT.withTokenFile(none));
        refused(ConnectOptions.DEFAULT.withToken("a\nb"));
        Fails.with(
                ErrorCode.BAD_ARGUMENT,
                () -> ConnectOptions.DEFAULT.withLease(Duration.ofSeconds(-1)));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> CallOptions.DEFAULT.withTraceparent("a\nb"));
        Path file = Files.writeString(folder.resolve("token"), " good \n");
        Map<String, String> environment =
                Map.of("KILN_TOKEN_FILE", file.toString(), "KILN_TLS_CA", "system");
        Identity made = new Identity("host:1", ConnectOptions.DEFAULT, environment);
        assertEquals("good", made.bearer());
        assertTrue(made.options.isEncrypted);
    }

    private static KilnException failed(Status.Code status, ErrorCode code, int retryAfter) {
        ErrorDetail detail =
                ErrorDetail.newBuilder().setCode(code).setRetryAfterMs(retryAfter).build();
        return new KilnException(status, "so", detail, 0, null);
    }

    @Test
    void whichCallsAreMadeAgain() {
        String execute = KernelServiceGrpc.getExecuteMethod().getFullMethodName();
        String compile = KernelServiceGrpc.getCompileMethod().getFullMethodName();
        ErrorCode none = ErrorCode.ERROR_CODE_UNSPECIFIED;
        Status.Code full = Status.Code.RESOURCE_EXHAUSTED;
        Status.Code lost = Status.Code.UNAVAILABLE;
        KilnException busy = failed(full, ErrorCode.QUOTA_EXCEEDED, 10);
        again(true, execute, busy);
        again(false, execute, failed(full, ErrorCode.QUOTA_EXCEEDED, 0));
        again(false, execute, failed(full, ErrorCode.QUOTA_EXCEEDED, 60_000));
        again(true, execute, failed(lost, ErrorCode.SHUTTING_DOWN, 0));
        again(true, compile, failed(lost, none, 0));
        again(false, execute, failed(lost, none, 0));
        again(
                true,
                GRPCInferenceServiceGrpc.getModelReadyMethod().getFullMethodName(),
                failed(lost, none, 0));
        again(
                false,
                GRPCInferenceServiceGrpc.getModelInferMethod().getFullMethodName(),
                failed(lost, none, 0));
        again(false, compile, failed(lost, ErrorCode.PARTICIPANT_MISSING, 0));
        again(false, compile, failed(Status.Code.INVALID_ARGUMENT, ErrorCode.BAD_ARGUMENT, 0));
        Retries retries = new Retries();
        assertTrue(retries.pause("", busy, Retries.ATTEMPTS, Long.MAX_VALUE).isEmpty());
        assertTrue(retries.pause("", busy, 1, 1_000_000).isEmpty(), "behind its deadline");
        int made = 0;
        for (int call = 0; call < 100; call++) {
            made += retries.pause("", busy, 1, Long.MAX_VALUE).isPresent() ? 1 : 0;
        }
        assertEquals(10, made);
        for (int call = 0; call < 10; call++) {
            assertTrue(retries.pause("", busy, 1, Long.MAX_VALUE).isEmpty());
            retries.earn();
        }
        assertTrue(retries.pause("", busy, 1, Long.MAX_VALUE).isPresent());
    }

    private static void again(boolean wanted, String method, KilnException failed) {
        OptionalLong pause = new Retries().pause(method, failed, 1, Long.MAX_VALUE);
        assertEquals(wanted, pause.isPresent(), method + " " + failed);
        assertTrue(pause.orElse(0) >= failed.retryAfter().toNanos() || !wanted);
        assertTrue(pause.orElse(0) <= Retries.MOST_WAIT * 3 / 2);
    }

    private static byte[] bytes(int count) {
        byte[] made = new byte[count];
        for (int at = 0; at < count; at++) {
            made[at] = (byte) (at * 7);
        }
        return made;
    }

    @Test
    void outgoingChunksAreMessagesOfTheProtocol() throws IOException {
        for (int count : new int[] {1, 127, 128, 70_000, Chunks.MOST}) {
            ByteBuffer direct = ByteBuffer.allocateDirect(count).put(bytes(count)).flip();
            for (ByteBuffer data : new ByteBuffer[] {ByteBuffer.wrap(bytes(count)), direct}) {
                InputStream drained = Chunks.writing().streamRequest(data);
                int known = drained.available();
                ByteArrayOutputStream out = new ByteArrayOutputStream();
                assertEquals(known, ((Drainable) drained).drainTo(out));
                assertTrue(drained instanceof KnownLength);
                WriteRequest read = WriteRequest.parseFrom(out.toByteArray());
                assertArrayEquals(bytes(count), read.getChunk().toByteArray());
                assertArrayEquals(
                        out.toByteArray(), Chunks.writing().streamRequest(data).readAllBytes());
            }
        }
    }

    private static int parse(byte[] message, ByteBuffer into) {
        return Chunks.reading(Chunks.into(into)).parseResponse(new ByteArrayInputStream(message));
    }

    @Test
    void incomingChunksAreReadAsTheyAre() {
        byte[] data = bytes(1000);
        byte[] chunk =
                ReadResponse.newBuilder().setChunk(ByteString.copyFrom(data)).build().toByteArray();
        byte[] newer = {(byte) 0xc2, 0x3e, 3, 'n', 'e', 'w', (byte) 0xc8, 0x3e, (byte) 0x80, 1};
        byte[] message =
                ByteBuffer.allocate(chunk.length + newer.length).put(chunk).put(newer).array();
        for (ByteBuffer into :
                new ByteBuffer[] {ByteBuffer.allocate(1000), ByteBuffer.allocateDirect(1000)}) {
            assertEquals(1000, parse(message, into));
            assertFalse(into.hasRemaining());
            byte[] found = new byte[1000];
            into.flip().get(found);
            assertArrayEquals(data, found);
        }
        for (int length = 1; length < message.length; length++) {
            byte[] cut = java.util.Arrays.copyOf(message, length);
            if (length != chunk.length && length != chunk.length + 6) {
                Fails.with(ErrorCode.INTERNAL_FAULT, () -> parse(cut, ByteBuffer.allocate(1000)));
            }
        }
    }

    @Test
    void errorsReadWell() {
        ErrorDetail.Builder detail = ErrorDetail.newBuilder().setCode(ErrorCode.DTYPE_MISMATCH);
        detail.setNode(2).setOp("SUB").setTag("mine");
        KilnException failed =
                new KilnException(
                        Status.Code.INVALID_ARGUMENT, "int32 and float32", detail.build(), 0, null);
        assertEquals("DTYPE_MISMATCH: int32 and float32 (node 2, SUB) [mine]", failed.getMessage());
        assertEquals(failed.getMessage(), failed.rethrown().getMessage());
        ErrorDetail tomorrow = ErrorDetail.newBuilder().setCodeValue(999).build();
        assertEquals(
                "999", new KilnException(Status.Code.ABORTED, "", tomorrow, 0, null).codeName());
    }
}
