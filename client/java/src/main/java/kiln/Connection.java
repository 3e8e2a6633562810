package kiln;

import io.grpc.CallOptions.Key;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import kiln.v1.ErrorCode;

/**
 * A connection, with what all calls on it have in common, those by stubs too: who asks, and under
 * which session. No thread of it keeps a program from its end, and all end when it is closed.
 */
final class Connection {
    static final Metadata.Key<byte[]> SESSION =
            Metadata.Key.of("kiln-session-bin", Metadata.BINARY_BYTE_MARSHALLER);
    static final Key<String> TRACEPARENT = Key.create("traceparent");

    /** Of a stream, which stays with the session that it began under. */
    static final Key<byte[]> OWN_SESSION = Key.create("kiln-session");

    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private static final Metadata.Key<String> TRACE =
            Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER);

    /** What a server may say at once. Arrays of more come in chunks; the rest is for graphs. */
    private static final int MOST_MESSAGE = 256 << 20;

    /** Room for a few chunks on the way. */
    private static final int WINDOW = 8 << 20;

    /**
     * A connection on which calls wait, and nothing comes for so many seconds, is asked whether it
     * is alive.
     */
    private static final long LEAST_SILENCE = 20;

    /** gRPC servers take pings amiss that come oftener than each 5 minutes for nothing. */
    private static final long MOST_SILENCE = 310;

    private static final long PONG = 10;

    /** gRPC's own pauses between two tries to connect grow to two minutes, and cannot be set. */
    private static final long AGAIN = TimeUnit.SECONDS.toNanos(1);

    /** Seconds after which a thread ends that has nothing to do. */
    private static final long IDLE = 10;

    private static final AtomicInteger CLIENTS = new AtomicInteger();

    final String address;
    final Identity identity;
    final Retries retries = new Retries();
    final ExecutorService executor;
    final ScheduledThreadPoolExecutor timer;
    final Session session;
    private final Set<CompletableFuture<Void>> delays = ConcurrentHashMap.newKeySet();
    private final ManagedChannel channel;
    private final Channel intercepted;
    private final AtomicLong redialed = new AtomicLong(System.nanoTime() - AGAIN);

    Connection(String address, Identity identity) {
        this.address = address;
        this.identity = identity;
        String name = "kiln-" + CLIENTS.incrementAndGet();
        executor =
                new ThreadPoolExecutor(
                        0,
                        Integer.MAX_VALUE,
                        IDLE,
                        TimeUnit.SECONDS,
                        new SynchronousQueue<>(),
                        daemons(name + "-call"),
                        (late, closed) ->
                                late.run()); // of a client that is closed, to tell who asks
        timer = new ScheduledThreadPoolExecutor(1, daemons(name + "-timer"));
        timer.setRemoveOnCancelPolicy(true);
        session = new Session(this, identity.options.lease);
        try {
            channel = dial();
        } catch (RuntimeException failed) {
            executor.shutdown();
            timer.shutdownNow();
            throw failed instanceof KilnException
                    ? failed
                    : Failures.badArgument(
                            "\"%s\" is no address of a server, as \"host:port\" is", address);
        }
        Channel outer = ClientInterceptors.intercept(channel, identity.options.interceptors);
        intercepted = ClientInterceptors.intercept(outer, new Outgoing());
    }

    private static ThreadFactory daemons(String name) {
        AtomicInteger count = new AtomicInteger();
        return runnable -> {
            Thread made = new Thread(runnable, name + "-" + count.incrementAndGet());
            made.setDaemon(true);
            return made;
        };
    }

    private ManagedChannel dial() {
        ManagedChannelBuilder<?> made = Grpc.newChannelBuilder(address, identity.transport(timer));
        if (made instanceof NettyChannelBuilder netty) {
            netty.flowControlWindow(WINDOW);
        }
        long seconds =
                identity.options.lease.isZero()
                        ? MOST_SILENCE
                        : identity.options.lease.getSeconds() / 2;
        return made.executor(executor)
                .offloadExecutor(executor)
                // A proxy for web pages is no way to a compute server.
                .proxyDetector(target -> null)
                // Nor does a name's text record say how calls are made.
                .disableServiceConfigLookUp()
                .disableRetry()
                .maxInboundMessageSize(MOST_MESSAGE)
                // Longer than a session is silent, whose renewals are answered: one in order is
                // asked nothing.
                .keepAliveTime(
                        Math.min(Math.max(LEAST_SILENCE, seconds), MOST_SILENCE), TimeUnit.SECONDS)
                .keepAliveTimeout(PONG, TimeUnit.SECONDS)
                .build();
    }

    /** With credentials and session. */
    Channel channel() {
        return intercepted;
    }

    /** Learns from a failure: a session may be gone, a server may be back. */
    void heed(KilnException failed) {
        boolean isSession =
                failed.field().equals(SESSION.name()) && failed.status() == Status.Code.NOT_FOUND;
        if (isSession || failed.is(ErrorCode.SESSION_EXPIRED)) {
            session.hasten();
        }
        long last = redialed.get();
        if (failed.status() == Status.Code.UNAVAILABLE
                && System.nanoTime() - last >= AGAIN
                && redialed.compareAndSet(last, System.nanoTime())) {
            redial();
        }
    }

    /** The next call tries to connect at once. */
    void redial() {
        channel.resetConnectBackoff();
    }

    /**
     * Ends when so many nanoseconds are over; by a failure when the connection is closed before.
     */
    CompletableFuture<Void> delay(long nanos) {
        CompletableFuture<Void> over = new CompletableFuture<>();
        delays.add(over);
        over.whenComplete((rested, closed) -> delays.remove(over));
        try {
            timer.schedule(() -> later(() -> over.complete(null)), nanos, TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException closed) {
            over.completeExceptionally(Failures.closed());
        }
        return over;
    }

    /** Runs what may wait for other answers of the call that is answered now. */
    void later(Runnable does) {
        executor.execute(does);
    }

    /** What a call says of a connection that was closed is not that the server is gone. */
    KilnException told(KilnException failed) {
        boolean isClosed = channel.isShutdown() && failed.status() == Status.Code.UNAVAILABLE;
        return isClosed ? Failures.closed() : failed;
    }

    /** Ends all calls. Twice is once. */
    void close() {
        timer.shutdownNow();
        delays.forEach(over -> over.completeExceptionally(Failures.closed()));
        channel.shutdownNow();
        try {
            channel.awaitTermination(PONG, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        executor.shutdown();
    }

    private final class Outgoing implements ClientInterceptor {
        @Override
        public <Q, A> ClientCall<Q, A> interceptCall(
                MethodDescriptor<Q, A> method, io.grpc.CallOptions options, Channel next) {
            return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
                @Override
                public void start(Listener<A> listener, Metadata headers) {
                    fill(method, options, headers);
                    super.start(heeding(listener), headers);
                }
            };
        }

        private void fill(
                MethodDescriptor<?, ?> method, io.grpc.CallOptions options, Metadata headers) {
            String token = identity.bearer();
            if (token != null) {
                headers.put(AUTHORIZATION, "Bearer " + token);
            }
            byte[] own = options.getOption(OWN_SESSION);
            byte[] current = own == null ? session.token() : own;
            if (current != null && !"kiln.v1.SessionService".equals(method.getServiceName())) {
                headers.put(SESSION, current);
            }
            if (options.getOption(TRACEPARENT) != null) {
                headers.put(TRACE, options.getOption(TRACEPARENT));
            }
        }

        private <A> ClientCall.Listener<A> heeding(ClientCall.Listener<A> listener) {
            return new SimpleForwardingClientCallListener<>(listener) {
                @Override
                public void onClose(Status status, Metadata trailers) {
                    if (!status.isOk()) {
                        heed(Failures.of(status, trailers, null));
                    }
                    super.onClose(status, trailers);
                }
            };
        }
    }
}
