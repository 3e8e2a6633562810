package kiln;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.Status;
import kiln.v1.ErrorCode;
import org.junit.jupiter.api.function.Executable;

/** How tests say which failure they expect. */
final class Fails {
    private Fails() {}

    static KilnException with(ErrorCode code, Executable does) {
        KilnException failed = assertThrows(KilnException.class, does);
        assertEquals(code, failed.code(), failed.getMessage());
        return failed;
    }

    static KilnException with(Status.Code status, Executable does) {
        KilnException failed = assertThrows(KilnException.class, does);
        assertEquals(status, failed.status(), failed.getMessage());
        return failed;
    }
}
