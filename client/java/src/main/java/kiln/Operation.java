package kiln;

import com.google.common.util.concurrent.ListenableFuture;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.stub.ClientCalls;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * What a caller asks for, in one call or several: they have one deadline, and end when the caller
 * gives it up. gRPC's Context carries both, so that what surrounds the caller counts, too.
 */
final class Operation {
    /** What must happen although its caller gave up may take so long. */
    private static final Duration REGARDLESS = Duration.ofSeconds(10);

    private final Connection connection;
    private final CallOptions options;
    private final Context.CancellableContext context;
    private final long begun = System.nanoTime();

    private Operation(Connection connection, CallOptions options, Context around) {
        this.connection = connection;
        this.options = options;
        this.context = around.withCancellation();
    }

    /**
     * Does something as one operation, and gives what comes of it, as a future that ends the
     * operation.
     */
    static <T> CompletableFuture<T> of(
            Connection connection,
            CallOptions options,
            Function<Operation, CompletableFuture<T>> does) {
        Context around = Context.current();
        Operation made = new Operation(connection, options, around);
        Given<T> given = new Given<>(made.context);
        CompletableFuture<T> done;
        try {
            done = does.apply(made);
        } catch (RuntimeException mistake) {
            done = CompletableFuture.failedFuture(mistake);
        }
        done.whenComplete(
                (value, failed) -> {
                    made.context.cancel(null);
                    // What follows is no part of this operation.
                    around.run(() -> given.settle(value, failed, connection));
                });
        return given;
    }

    /** One that is neither given up with this nor late, as to give back what was made. */
    Operation regardless() {
        return new Operation(connection, options.withTimeout(REGARDLESS), Context.ROOT);
    }

    static Operation unasked(Connection connection, Duration timeout) {
        return new Operation(connection, CallOptions.timeout(timeout), Context.ROOT);
    }

    private static final class Given<T> extends CompletableFuture<T> {
        private final Context.CancellableContext context;

        Given(Context.CancellableContext context) {
            this.context = context;
        }

        void settle(T value, Throwable failed, Connection connection) {
            if (failed == null) {
                complete(value);
            } else {
                completeExceptionally(connection.told(Failures.of(failed)));
            }
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            boolean is = super.cancel(mayInterrupt);
            if (is) {
                context.cancel(new CancellationException());
            }
            return is;
        }
    }

    private long nanosLeft() {
        if (options.timeout == null) {
            return Long.MAX_VALUE;
        }
        return nanos(options.timeout) - (System.nanoTime() - begun);
    }

    static long nanos(Duration time) {
        try {
            return time.toNanos();
        } catch (ArithmeticException endless) {
            return time.isNegative() ? Long.MIN_VALUE / 2 : Long.MAX_VALUE / 2;
        }
    }

    private io.grpc.CallOptions callOptions() {
        io.grpc.CallOptions made = io.grpc.CallOptions.DEFAULT;
        if (options.traceparent != null) {
            made = made.withOption(Connection.TRACEPARENT, options.traceparent);
        }
        return options.timeout == null
                ? made
                : made.withDeadlineAfter(nanosLeft(), TimeUnit.NANOSECONDS);
    }

    /** A call that is not yet begun. */
    <Q, A> ClientCall<Q, A> begin(MethodDescriptor<Q, A> method) {
        return within(() -> connection.channel().newCall(method, callOptions()));
    }

    /** Does something with gRPC's Context set. */
    <T> T within(Supplier<T> does) {
        Context before = context.attach();
        try {
            return does.get();
        } finally {
            context.detach(before);
        }
    }

    /** Makes one call with one answer, and again where that is safe. */
    <Q, A> CompletableFuture<A> call(MethodDescriptor<Q, A> method, Q request) {
        connection.retries.earn();
        return attempt(method, request, 1);
    }

    /** Makes one call with one answer, and never again, whatever it fails by. */
    <Q, A> CompletableFuture<A> callOnce(MethodDescriptor<Q, A> method, Q request) {
        connection.retries.earn();
        return once(method, request);
    }

    private <Q, A> CompletableFuture<A> attempt(
            MethodDescriptor<Q, A> method, Q request, int attempt) {
        return once(method, request)
                .handle(
                        (answer, failure) -> {
                            if (failure == null) {
                                return CompletableFuture.completedFuture(answer);
                            }
                            KilnException failed = Failures.of(failure);
                            OptionalLong pause =
                                    connection.retries.pause(
                                            method.getFullMethodName(),
                                            failed,
                                            attempt,
                                            nanosLeft());
                            if (pause.isEmpty() || context.isCancelled()) {
                                return CompletableFuture.<A>failedFuture(failed);
                            }
                            return connection
                                    .delay(pause.getAsLong())
                                    .thenCompose(rested -> attempt(method, request, attempt + 1));
                        })
                .thenCompose(Function.identity());
    }

    private <Q, A> CompletableFuture<A> once(MethodDescriptor<Q, A> method, Q request) {
        CompletableFuture<A> made = new CompletableFuture<>();
        try {
            ListenableFuture<A> answer =
                    within(
                            () ->
                                    ClientCalls.futureUnaryCall(
                                            connection.channel().newCall(method, callOptions()),
                                            request));
            answer.addListener(() -> settle(answer, made), Runnable::run);
        } catch (RuntimeException failed) {
            made.completeExceptionally(failed);
        }
        return made;
    }

    private static <A> void settle(ListenableFuture<A> answer, CompletableFuture<A> made) {
        try {
            made.complete(answer.get());
        } catch (ExecutionException failed) {
            made.completeExceptionally(failed.getCause());
        } catch (InterruptedException | CancellationException failed) {
            made.completeExceptionally(failed);
        }
    }

    /** Waits for what a future gives. Who is interrupted gives it up. */
    static <T> T await(CompletableFuture<T> future) {
        try {
            return future.get();
        } catch (ExecutionException failed) {
            throw Failures.of(failed).rethrown();
        } catch (CancellationException failed) {
            throw Failures.of(failed);
        } catch (InterruptedException interrupted) {
            future.cancel(true);
            throw Failures.interrupted();
        }
    }
}
