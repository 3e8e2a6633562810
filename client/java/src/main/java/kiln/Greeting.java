package kiln;

import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLException;
import kiln.v1.Device;
import kiln.v1.DeviceServiceGrpc;
import kiln.v1.ErrorCode;
import kiln.v1.ListDevicesRequest;
import kiln.v1.ListDevicesResponse;

/**
 * What client and server say first: that they are there, which protocol they speak, and what the
 * server can do. Whom a client is connected to in the end comes of that.
 */
record Greeting(List<String> features, List<String> devices, String serverVersion, String address) {
    /** The version of the protocol that this package speaks. */
    static final int PROTOCOL = 1;

    /** Between two tries to connect: at first, and at most. */
    private static final long AGAIN = TimeUnit.MILLISECONDS.toNanos(50);

    private static final long MOST_AGAIN = TimeUnit.SECONDS.toNanos(1);

    /** For the server behind a balancer, which is near it. */
    private static final Duration NEAR = Duration.ofSeconds(2);

    /**
     * Connects to the server at an address, or to the one behind it, until a moment of nanoTime's.
     */
    static KilnClient connect(String address, ConnectOptions options, long end) {
        return connect(address, options, end, "");
    }

    /**
     * To the server at an address or, if that is a balancer's, to the one behind it; or, if one is
     * named, to that one alone.
     */
    private static KilnClient connect(
            String address, ConnectOptions options, long end, String named) {
        Identity identity = new Identity(address, options);
        Connection connection = new Connection(address, identity);
        try {
            Greeting greeting = exchange(connection, options, end);
            String itself = greeting.address();
            if (!named.isEmpty() && !itself.equals(named)) {
                String text = "another server is at %s, which calls itself \"%s\"";
                throw Failures.of(Status.Code.UNAVAILABLE, text, address, itself);
            }
            if (!itself.equals(address) && identity.mayFollow(itself)) {
                Optional<KilnClient> direct = directly(itself, options, end);
                if (direct.isPresent()) {
                    connection.close();
                    return direct.get();
                }
            }
            greeting.begin(connection, options, end);
            return new KilnClient(connection, greeting, options.device);
        } catch (RuntimeException failed) {
            connection.close();
            throw failed;
        }
    }

    /**
     * To the server behind a balancer, for what is made is in that server's memory. Empty if it
     * cannot be reached so: then the balancer must keep us there.
     */
    private static Optional<KilnClient> directly(String address, ConnectOptions options, long end) {
        try {
            long now = System.nanoTime();
            long patience = Math.min((end - now) / 2, Operation.nanos(NEAR));
            return Optional.of(connect(address, options, now + patience, address));
        } catch (KilnException unreachable) {
            if (Thread.currentThread().isInterrupted()) {
                throw unreachable;
            }
            return Optional.empty();
        }
    }

    /**
     * Waits for the server, and hears what it is, and at which address it is itself, if it says.
     */
    private static Greeting exchange(Connection connection, ConnectOptions options, long end) {
        ListDevicesResponse said = listed(connection, end);
        if (Integer.compareUnsigned(said.getProtocolMin(), PROTOCOL) > 0
                || Integer.compareUnsigned(said.getProtocolMax(), PROTOCOL) < 0) {
            throw Failures.of(
                    Status.Code.FAILED_PRECONDITION,
                    "the server at %s speaks protocol %s to %s, this package %d: "
                            + "take the package of its release",
                    connection.address,
                    Integer.toUnsignedString(said.getProtocolMin()),
                    Integer.toUnsignedString(said.getProtocolMax()),
                    PROTOCOL);
        }
        List<String> devices = said.getDevicesList().stream().map(Device::getName).toList();
        if (!options.device.isEmpty() && !devices.contains(options.device)) {
            String text = "the server at %s has no device %s; it has %s";
            throw Failures.coded(
                    ErrorCode.UNKNOWN_DEVICE,
                    Status.Code.NOT_FOUND,
                    text,
                    connection.address,
                    options.device,
                    devices);
        }
        List<String> features = said.getFeaturesList().stream().sorted().toList();
        return new Greeting(features, devices, said.getServerVersion(), said.getAddress());
    }

    /** Begins a session where the server has any. */
    private void begin(Connection connection, ConnectOptions options, long end) {
        if (!options.lease.isZero() && features.contains("sessions")) {
            Operation operation = Operation.unasked(connection, left(end));
            Operation.await(connection.session.open(operation));
        }
    }

    private static Duration left(long end) {
        return Duration.ofNanos(Math.max(1, end - System.nanoTime()));
    }

    /** A server that is about to be started is waited for; one that is no safe one is not. */
    private static ListDevicesResponse listed(Connection connection, long end) {
        for (long pause = AGAIN; ; pause = Math.min(MOST_AGAIN, 2 * pause)) {
            KilnException failed;
            try {
                Operation operation = Operation.unasked(connection, left(end));
                return Operation.await(
                        operation.call(
                                DeviceServiceGrpc.getListMethod(),
                                ListDevicesRequest.getDefaultInstance()));
            } catch (KilnException why) {
                failed = why;
            }
            boolean isLate =
                    failed.status() == Status.Code.DEADLINE_EXCEEDED && failed.codeName().isEmpty();
            if (!isLate
                    && (failed.status() != Status.Code.UNAVAILABLE
                            || !failed.codeName().isEmpty())) {
                throw failed;
            }
            if (isUnsafe(failed)) {
                String text = "no safe connection to %s: %s";
                throw Failures.of(
                        Status.Code.UNAVAILABLE, text, connection.address, failed.getMessage());
            }
            if (isLate || end - System.nanoTime() <= pause) {
                String text = "no server answers at %s (%s): is kilnd running there?";
                throw Failures.of(
                        Status.Code.UNAVAILABLE, text, connection.address, failed.getMessage());
            }
            rest(pause);
            connection.redial();
        }
    }

    private static boolean isUnsafe(Throwable failed) {
        for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
            if (cause instanceof SSLException) {
                return true;
            }
        }
        return false;
    }

    private static void rest(long nanos) {
        try {
            TimeUnit.NANOSECONDS.sleep(nanos);
        } catch (InterruptedException interrupted) {
            throw Failures.interrupted();
        }
    }
}
