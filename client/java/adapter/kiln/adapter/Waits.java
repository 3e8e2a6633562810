package kiln.adapter;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import kiln.KilnException;

/** How answers are waited for. */
final class Waits {
    private Waits() {}

    /** A future's failure is what the suite wants. */
    static <T> T waited(CompletableFuture<T> future) {
        try {
            return future.join();
        } catch (RuntimeException failed) {
            throw KilnException.of(failed);
        }
    }

    /** The same; given up after a while, if the request says so. */
    static <T> T waited(CompletableFuture<T> future, Ask r) {
        if (r.has("cancel_after_ms")) {
            long pause = r.number("cancel_after_ms");
            CompletableFuture.delayedExecutor(pause, TimeUnit.MILLISECONDS)
                    .execute(() -> future.cancel(true));
        }
        return waited(future);
    }
}
