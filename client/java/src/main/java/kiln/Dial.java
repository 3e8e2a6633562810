package kiln;

import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;

/** How a client is made of an address: whom it is connected to in the end. */
final class Dial {
    /** For the server behind a balancer, which is near it. */
    private static final Duration NEAR = Duration.ofSeconds(2);

    private Dial() {}

    /** To the server at an address, or to the one behind it, until a moment of nanoTime's. */
    static KilnClient to(String address, ConnectOptions options, long end) {
        return to(address, options, end, "");
    }

    /**
     * To the server at an address or, if that is a balancer's, to the one behind it; or, if one is
     * named, to that one alone.
     */
    private static KilnClient to(String address, ConnectOptions options, long end, String named) {
        Identity identity = new Identity(address, options);
        Connection connection = new Connection(address, identity);
        try {
            Greeting greeting = Greeting.exchange(connection, options, end);
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
            return Optional.of(to(address, options, now + patience, address));
        } catch (KilnException unreachable) {
            if (Thread.currentThread().isInterrupted()) {
                throw unreachable;
            }
            return Optional.empty();
        }
    }
}
