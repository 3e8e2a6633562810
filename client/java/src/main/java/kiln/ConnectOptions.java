package kiln;

import io.grpc.ClientInterceptor;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * How {@link KilnClient#connect} connects. Credentials that are not given are those of the
 * environment: KILN_TOKEN, KILN_TOKEN_FILE, KILN_TLS_CA, KILN_TLS_CERTIFICATE, KILN_TLS_KEY. Each
 * method gives changed options, and leaves these as they are.
 */
public final class ConnectOptions {
    /** Nothing but what the environment says. */
    public static final ConnectOptions DEFAULT = new ConnectOptions();

    private static final long MOST_LEASE_SECONDS = 0xffffffffL; // it travels in 32 bits

    String token;
    Path tokenFile;
    boolean isEncrypted;
    Path authority;
    Path certificate;
    Path key;
    boolean isInsecureTokenAllowed;
    String device = "";
    Duration lease = Duration.ofSeconds(30);
    Duration timeout = Duration.ofSeconds(10);
    List<ClientInterceptor> interceptors = List.of();

    private ConnectOptions() {}

    ConnectOptions changed(Consumer<ConnectOptions> change) {
        ConnectOptions made = new ConnectOptions();
        made.token = token;
        made.tokenFile = tokenFile;
        made.isEncrypted = isEncrypted;
        made.authority = authority;
        made.certificate = certificate;
        made.key = key;
        made.isInsecureTokenAllowed = isInsecureTokenAllowed;
        made.device = device;
        made.lease = lease;
        made.timeout = timeout;
        made.interceptors = interceptors;
        change.accept(made);
        return made;
    }

    /** Says who asks, by a secret that is sent with every call. */
    public ConnectOptions withToken(String secret) {
        return changed(made -> made.token = secret);
    }

    /** Names a file that has the token, and is read again when it changes. */
    public ConnectOptions withTokenFile(Path file) {
        return changed(made -> made.tokenFile = file);
    }

    /** Encrypts, and trusts whom Java trusts. */
    public ConnectOptions withTls() {
        return changed(made -> made.isEncrypted = true);
    }

    /** Encrypts, and trusts who signs with a certificate of this file of PEM. */
    public ConnectOptions withAuthority(Path pem) {
        return changed(
                made -> {
                    made.isEncrypted = true;
                    made.authority = pem;
                });
    }

    /**
     * Shows the server a certificate of the client's: files of PEM, read again when they change.
     */
    public ConnectOptions withCertificate(Path chain, Path privateKey) {
        return changed(
                made -> {
                    made.certificate = chain;
                    made.key = privateKey;
                });
    }

    /** Lets a token travel to another machine without encryption, where something else encrypts. */
    public ConnectOptions withInsecureToken() {
        return changed(made -> made.isInsecureTokenAllowed = true);
    }

    /** Says where graphs are compiled and buffers are; else on the server's first device. */
    public ConnectOptions withDevice(String name) {
        return changed(made -> made.device = name);
    }

    /**
     * Says how long the server keeps what this client has made when it hears nothing more of it; 30
     * s otherwise. With zero what it makes belongs to nobody, and stays until it is freed.
     */
    public ConnectOptions withLease(Duration time) {
        if (time.isNegative() || time.getSeconds() > MOST_LEASE_SECONDS) {
            throw Failures.badArgument(
                    "lease: %s is no time from 0 to %d s", time, MOST_LEASE_SECONDS);
        }
        return changed(made -> made.lease = time);
    }

    /** How long to wait for the server; 10 s otherwise. */
    public ConnectOptions withTimeout(Duration time) {
        return changed(made -> made.timeout = time);
    }

    /** Has a say in each call, as one of OpenTelemetry's. */
    public ConnectOptions withInterceptor(ClientInterceptor interceptor) {
        List<ClientInterceptor> all = new ArrayList<>(interceptors);
        all.add(interceptor);
        return changed(made -> made.interceptors = List.copyOf(all));
    }
}
