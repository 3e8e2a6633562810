package kiln;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import io.grpc.util.AdvancedTlsX509KeyManager;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.Map;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Who a client says it is, and how it knows the server. */
final class Identity {
    /** How long a token's file is believed unchanged. */
    private static final long BELIEVED = TimeUnit.SECONDS.toNanos(1);

    private static final long CERTIFICATE_SECONDS = 10;
    private static final Pattern SCHEME = Pattern.compile("dns:(///)?|ipv4:|ipv6:");
    private static final Pattern PORT = Pattern.compile(":\\d+$");
    private static final Pattern ONE_SERVER =
            Pattern.compile(
                    "([A-Za-z0-9-]{1,63}(\\.[A-Za-z0-9-]{1,63})*|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}");
    private static final Pattern LOOPBACK = Pattern.compile("127(\\.\\d{1,3}){3}");

    private final Path file;
    private String token;
    private long looked;

    final ConnectOptions options;

    Identity(String address, ConnectOptions given) {
        this(address, given, System.getenv());
    }

    Identity(String address, ConnectOptions given, Map<String, String> environment) {
        options = given.changed(made -> complete(made, environment));
        if ((options.certificate == null) != (options.key == null)) {
            throw Failures.badArgument("a client's certificate and its key go together");
        }
        if (options.certificate != null && !options.isEncrypted) {
            throw Failures.badArgument(
                    "a certificate is shown on an encrypted connection: give withTls, too");
        }
        boolean tells = options.token != null || options.tokenFile != null;
        if (tells
                && !options.isEncrypted
                && !options.isInsecureTokenAllowed
                && !staysHere(address)) {
            throw Failures.badArgument(
                    "the token would travel to %s where others can read it: give withTls or withAuthority; or "
                            + "withInsecureToken, where something else encrypts",
                    address);
        }
        file = options.tokenFile;
        token = options.token;
        looked = System.nanoTime() - BELIEVED;
        if (tells && bearer().isEmpty()) {
            throw Failures.badArgument(
                    "there is no token in %s", file == null ? "the options" : file);
        }
    }

    private static void complete(ConnectOptions made, Map<String, String> environment) {
        if (made.token == null && made.tokenFile == null) {
            made.token = text(environment, "KILN_TOKEN");
            made.tokenFile = path(environment, "KILN_TOKEN_FILE");
        }
        if (made.certificate == null && made.key == null) {
            made.certificate = path(environment, "KILN_TLS_CERTIFICATE");
            made.key = path(environment, "KILN_TLS_KEY");
        }
        if (made.authority == null) {
            made.authority = path(environment, "KILN_TLS_CA");
            made.isEncrypted |= made.authority != null;
        }
    }

    private static String text(Map<String, String> environment, String name) {
        String value = environment.getOrDefault(name, "");
        return value.isEmpty() ? null : value;
    }

    private static Path path(Map<String, String> environment, String name) {
        String value = text(environment, name);
        return value == null ? null : Path.of(value);
    }

    /**
     * Whether an address is this machine's, as it is written: what a name resolves to is the
     * network's business. One may name several hosts.
     */
    static boolean staysHere(String address) {
        if (address.startsWith("unix:")) {
            return true;
        }
        Matcher scheme = SCHEME.matcher(address);
        String rest = scheme.lookingAt() ? address.substring(scheme.end()) : address;
        for (String one : rest.split(",", -1)) {
            String host = PORT.matcher(one).replaceFirst("");
            if (!host.equals("localhost")
                    && !host.equals("[::1]")
                    && !LOOPBACK.matcher(host).matches()) {
                return false;
            }
        }
        return true;
    }

    /**
     * Whether a client may go where a server says that it is: to host:port alone, and not with a
     * token that others could read there. That something else encrypts holds for where the user has
     * sent the token.
     */
    boolean mayFollow(String address) {
        boolean tells = options.token != null || options.tokenFile != null;
        return ONE_SERVER.matcher(address).matches()
                && (!tells || options.isEncrypted || staysHere(address));
    }

    /**
     * The token as it is now, or null. A file that is being changed, or is gone for a moment,
     * leaves the one before.
     */
    synchronized String bearer() {
        if (file != null && System.nanoTime() - looked >= BELIEVED) {
            looked = System.nanoTime();
            try {
                String text = Files.readString(file).strip();
                token = text.isEmpty() ? token : text;
            } catch (IOException unreadable) {
                // as said above
            }
        }
        String found = token == null && file != null ? "" : token;
        if (found != null) {
            checkHeader("the token", found);
        }
        return found;
    }

    /** The same, of a file that is read now: for who was refused the one before. */
    synchronized String newest() {
        looked = System.nanoTime() - BELIEVED;
        return bearer();
    }

    /** Java's gRPC leaves such a header out without a word. */
    static void checkHeader(String what, String value) {
        if (!value.chars().allMatch(one -> one >= ' ' && one <= '~')) {
            throw Failures.badArgument(
                    "%s has characters, as a line's end, that no header may have", what);
        }
    }

    /** The client's certificate is read again when its files change. */
    ChannelCredentials transport(ScheduledExecutorService timer) {
        if (!options.isEncrypted) {
            return InsecureChannelCredentials.create();
        }
        TlsChannelCredentials.Builder made = TlsChannelCredentials.newBuilder();
        Path reading = options.authority;
        try {
            if (reading != null && !reading.toString().equals("system")) {
                made.trustManager(reading.toFile());
            }
            if (options.certificate != null) {
                reading = options.certificate;
                AdvancedTlsX509KeyManager keys = new AdvancedTlsX509KeyManager();
                keys.updateIdentityCredentials(
                        options.certificate.toFile(),
                        options.key.toFile(),
                        CERTIFICATE_SECONDS,
                        TimeUnit.SECONDS,
                        timer);
                made.keyManager(keys);
            }
            return made.build();
        } catch (IOException | GeneralSecurityException | IllegalArgumentException failed) {
            throw Failures.badArgument("tls: cannot read %s: %s", reading, failed.getMessage());
        }
    }
}
