package kiln;

import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import kiln.inference.GRPCInferenceServiceGrpc;
import kiln.inference.ModelInferRequest;
import kiln.inference.ModelInferResponse;
import kiln.inference.ModelStreamInferResponse;

/**
 * Requests for a model on one connection, any number under way: the server runs one after the
 * other, and answers in their order. One that fails is told by its future, and the next goes on.
 * All that is under way is in memory, here or on its way.
 *
 * <p>When the stream ends, so do all that are under way, and none is asked again: after a
 * connection that was lost, nobody knows which have been run. Requests that are to run together
 * come by {@link ServedModel#inferAsync}.
 */
public final class InferStream implements AutoCloseable {
    /** A request whose answer is on its way. */
    record Asked(List<String> outputs, CompletableFuture<Map<String, NdArray>> future) {
        void settle(ModelStreamInferResponse answer) {
            try {
                future.complete(outputsOf(answer));
            } catch (Throwable failed) { // an Error, too: who waits must hear of it
                future.completeExceptionally(failed);
            }
        }

        private Map<String, NdArray> outputsOf(ModelStreamInferResponse answer) {
            if (!answer.getErrorMessage().isEmpty()) {
                throw Failures.of(Status.Code.UNKNOWN, "%s", answer.getErrorMessage());
            }
            if (!answer.hasInferResponse()) {
                throw Failures.badServer("gave no answer");
            }
            return InferMessages.outputs(answer.getInferResponse(), outputs);
        }
    }

    private final ServedModel model;
    private final Connection connection;
    private final ArrayDeque<Asked> pending = new ArrayDeque<>();
    private final Set<CompletableFuture<?>> untold = ConcurrentHashMap.newKeySet();
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private CompletableFuture<Void> given; // of the operation that the stream is
    private ClientCall<ModelInferRequest, ModelStreamInferResponse> call;
    private KilnException why; // it has ended; null before
    private boolean isClosing;
    private long answered; // requests, which are numbered from 1 on

    private InferStream(ServedModel model) {
        this.model = model;
        this.connection = model.connection;
    }

    static InferStream begin(ServedModel model, CallOptions options) {
        InferStream made = new InferStream(model);
        made.given = Operation.of(made.connection, options, made::begin);
        if (made.call == null) {
            Operation.await(made.given); // tells why, as of a token that cannot be sent
        }
        return made;
    }

    /** What the connection calls back for waits until this is done. */
    private synchronized CompletableFuture<Void> begin(Operation operation) {
        var made = operation.begin(GRPCInferenceServiceGrpc.getModelStreamInferMethod());
        operation.within(
                () -> {
                    made.start(new Listener(), new Metadata());
                    made.request(1);
                    return null;
                });
        call = made;
        return ended;
    }

    /** Sends a request. */
    public CompletableFuture<Map<String, NdArray>> infer(Map<String, NdArray> inputs) {
        return infer(inputs, InferOptions.DEFAULT);
    }

    /**
     * Sends a request. Arrays must stay as they are until it is answered. To cancel the future ends
     * the waiting alone. What the server says of a request that fails is a text, so its failure has
     * the status UNKNOWN and no code.
     */
    public synchronized CompletableFuture<Map<String, NdArray>> infer(
            Map<String, NdArray> inputs, InferOptions options) {
        if (why != null || isClosing) {
            return CompletableFuture.failedFuture(why == null ? closed() : why);
        }
        if (!options.id.isEmpty()) {
            throw Failures.badArgument(
                    "a stream numbers its requests: give \"%s\" none", options.id);
        }
        try {
            String number = Long.toString(answered + pending.size() + 1);
            call.sendMessage(model.request(inputs, options, number));
        } catch (KilnException mistake) {
            return CompletableFuture.failedFuture(mistake);
        }
        Asked asked = new Asked(options.outputs, new CompletableFuture<>());
        pending.add(asked);
        untold.add(asked.future);
        asked.future.whenComplete((outputs, failed) -> untold.remove(asked.future));
        return asked.future;
    }

    /**
     * Takes no more requests, and waits until those under way are answered: then all futures are
     * done.
     */
    @Override
    public void close() {
        synchronized (this) {
            if (!isClosing && why == null) {
                isClosing = true;
                call.halfClose();
            }
        }
        Operation.await(ended);
        // Other threads tell the answers. A future that is done is not waited for, whatever follows
        // it, which may be this.
        CompletableFuture<?>[] last = untold.toArray(CompletableFuture<?>[]::new);
        Operation.await(CompletableFuture.allOf(last).handle((none, failed) -> null));
    }

    /** Ends it at once; what is under way is given up. */
    public void cancel() {
        given.cancel(true);
    }

    private static KilnException closed() {
        return Failures.of(Status.Code.CANCELLED, "the stream was closed");
    }

    private final class Listener extends ClientCall.Listener<ModelStreamInferResponse> {
        @Override
        public void onMessage(ModelStreamInferResponse answer) {
            synchronized (InferStream.this) {
                try {
                    take(answer);
                    call.request(1);
                } catch (KilnException impossible) {
                    end(impossible);
                }
            }
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            synchronized (InferStream.this) {
                boolean isOver = isClosing && pending.isEmpty();
                if (!status.isOk()) {
                    end(connection.told(Failures.of(status, trailers, null)));
                } else if (isOver) {
                    end(closed());
                } else {
                    end(Failures.of(Status.Code.UNAVAILABLE, "the server has ended the stream"));
                }
            }
        }
    }

    /** Answers come in order; the numbers that come back with them tell one that comes twice. */
    private void take(ModelStreamInferResponse answer) {
        ModelInferResponse said = answer.getInferResponse();
        long next = answered + 1;
        long number = said.getId().isEmpty() ? next : numberOf(said); // none of what was unreadable
        if (why != null || number < next) {
            return;
        }
        if (number > next || pending.isEmpty()) {
            throw Failures.badServer("answers request %s, not %d", said.getId(), next);
        }
        answered = next;
        Asked asked = pending.remove();
        connection.later(() -> asked.settle(answer));
    }

    private static long numberOf(ModelInferResponse said) {
        try {
            return Long.parseLong(said.getId());
        } catch (NumberFormatException none) {
            throw Failures.badServer("answers request \"%s\", which has no number", said.getId());
        }
    }

    private void end(KilnException failed) {
        if (why != null) {
            return;
        }
        why = failed;
        List<Asked> last = new ArrayList<>(pending);
        pending.clear();
        for (Asked asked : last) {
            connection.later(() -> asked.future.completeExceptionally(failed));
        }
        connection.later(() -> ended.complete(null)); // which ends the call, if that goes on
    }
}
