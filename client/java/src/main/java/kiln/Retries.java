package kiln;

import io.grpc.Status;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import kiln.inference.GRPCInferenceServiceGrpc;
import kiln.v1.BufferServiceGrpc;
import kiln.v1.DebugServiceGrpc;
import kiln.v1.DeviceServiceGrpc;
import kiln.v1.ErrorCode;
import kiln.v1.KernelServiceGrpc;
import kiln.v1.SessionServiceGrpc;

/**
 * Which failed calls are made again, and when. A server that is asked for too much refuses at once,
 * and says when to come again. If all its clients came at that moment, or as often as they like,
 * the tries would be a load of their own. So a client waits a little longer than it was told, by
 * chance, and has a budget: for ten calls it may make one again, and a few at first. Never made
 * again is what may have had an effect, unless it would have the same once more.
 */
final class Retries {
    /** Of one call, the first among them. */
    static final int ATTEMPTS = 3;

    static final long FIRST_WAIT = Duration.ofMillis(50).toNanos();

    /** Who is told to wait longer hears of it instead. */
    static final long MOST_WAIT = Duration.ofSeconds(2).toNanos();

    /** Tries that are saved up, in tenths, of which a call earns one; they are there at first. */
    static final int MOST_BUDGET = 100;

    private static final int PER_TRY = 10;

    /** What looks, and what finds a second time what it made the first. */
    private static final Set<String> IDEMPOTENT =
            Set.of(
                    BufferServiceGrpc.getDescribeMethod().getFullMethodName(),
                    BufferServiceGrpc.getListTensorsMethod().getFullMethodName(),
                    DebugServiceGrpc.getExplainMethod().getFullMethodName(),
                    DebugServiceGrpc.getListProgramsMethod().getFullMethodName(),
                    DebugServiceGrpc.getTraceMethod().getFullMethodName(),
                    DeviceServiceGrpc.getDescribeMethod().getFullMethodName(),
                    DeviceServiceGrpc.getListMethod().getFullMethodName(),
                    GRPCInferenceServiceGrpc.getModelMetadataMethod().getFullMethodName(),
                    GRPCInferenceServiceGrpc.getModelReadyMethod().getFullMethodName(),
                    GRPCInferenceServiceGrpc.getRepositoryIndexMethod().getFullMethodName(),
                    KernelServiceGrpc.getCompileMethod().getFullMethodName(),
                    KernelServiceGrpc.getGradientMethod().getFullMethodName(),
                    KernelServiceGrpc.getRecordSequenceMethod().getFullMethodName(),
                    SessionServiceGrpc.getRenewMethod().getFullMethodName(),
                    SessionServiceGrpc.getUsageMethod().getFullMethodName());

    private int budget = MOST_BUDGET;

    /** A call begins. */
    synchronized void earn() {
        budget = Math.min(MOST_BUDGET, budget + 1);
    }

    /**
     * How many nanoseconds to wait before a call is made again whose attempt, counted from 1,
     * failed so; or it is not. It takes from the budget.
     */
    OptionalLong pause(String method, KilnException failed, int attempt, long nanosLeft) {
        long asked = failed.retryAfter().toNanos();
        if (!mayRetry(method, failed) || attempt >= ATTEMPTS || asked > MOST_WAIT) {
            return OptionalLong.empty();
        }
        ThreadLocalRandom chance = ThreadLocalRandom.current();
        long pause =
                asked > 0
                        ? asked + chance.nextLong(asked / 2 + 1)
                        : chance.nextLong(Math.min(MOST_WAIT, FIRST_WAIT << (attempt - 1)));
        return nanosLeft > pause && spend() ? OptionalLong.of(pause) : OptionalLong.empty();
    }

    private synchronized boolean spend() {
        if (budget < PER_TRY) {
            return false;
        }
        budget -= PER_TRY;
        return true;
    }

    /** Otherwise the call may have begun, or will not end in another way. */
    private static boolean mayRetry(String method, KilnException failed) {
        if (failed.status() == Status.Code.RESOURCE_EXHAUSTED) {
            return !failed.retryAfter().isZero();
        }
        if (failed.status() != Status.Code.UNAVAILABLE) {
            return false;
        }
        // What is stopping has not begun it; another server may follow at the address.
        return failed.is(ErrorCode.SHUTTING_DOWN)
                || failed.is(ErrorCode.ERROR_CODE_UNSPECIFIED) && IDEMPOTENT.contains(method);
    }
}
