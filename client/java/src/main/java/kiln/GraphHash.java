package kiln;

import io.grpc.Status;
import java.nio.charset.StandardCharsets;
import kiln.v1.Dialect;
import kiln.v1.ErrorCode;
import kiln.v1.Op;
import kiln.v1.UOp;
import org.apache.commons.codec.digest.Blake3;

/**
 * A graph's hash, the same in every language: proto/README.md fixes each byte. A digest of a node
 * is BLAKE3 over its op's name, its argument in canonical form and its sources' digests, so one
 * pass from the first node to the last gives all.
 */
public final class GraphHash {
    private static final byte[] VERSION = "kiln.graph\u0001".getBytes(StandardCharsets.US_ASCII);

    private GraphHash() {}

    /**
     * The hash, 32 bytes. What has none is a {@link KilnException} with the code and the node that
     * the server would give.
     */
    public static byte[] of(kiln.v1.Graph graph) {
        if (graph.getNodesCount() == 0) {
            throw refused(ErrorCode.GRAPH_EMPTY, "a graph without nodes has no hash");
        }
        if (graph.getDialect() == Dialect.UNRECOGNIZED) {
            throw Failures.badArgument("dialect %d is unknown", graph.getDialectValue());
        }
        boolean isLegacy = graph.getDialect() == Dialect.LEGACY_2025;
        byte[][] digests = new byte[graph.getNodesCount()][];
        CanonicalBytes bytes = new CanonicalBytes();
        for (int number = 0; number < digests.length; number++) {
            UOp node = graph.getNodes(number);
            try {
                write(bytes, node, number, digests, isLegacy);
            } catch (KilnException failed) {
                String op =
                        isKnown(node.getOp())
                                ? node.getOp().name()
                                : Integer.toString(node.getOpValue());
                throw Failures.atNode(failed, number, op, node.getTag());
            }
            digests[number] = Blake3.hash(bytes.take());
        }
        return Blake3.hash(bytes.raw(VERSION).raw(digests[digests.length - 1]).take());
    }

    private static KilnException refused(ErrorCode code, String format, Object... values) {
        return Failures.coded(code, Status.Code.INVALID_ARGUMENT, format, values);
    }

    static boolean isKnown(Op op) {
        return op != Op.OP_UNSPECIFIED && op != Op.UNRECOGNIZED;
    }

    private static void write(
            CanonicalBytes to, UOp node, int number, byte[][] digests, boolean isLegacy) {
        if (!isKnown(node.getOp())) {
            throw Failures.coded(
                    ErrorCode.UNKNOWN_OP,
                    Status.Code.UNIMPLEMENTED,
                    "op %d is unknown",
                    node.getOpValue());
        }
        to.string(nameOf(node, isLegacy));
        CanonicalArgument.write(to, node);
        to.u32(node.getSrcCount());
        for (int source : node.getSrcList()) {
            if (Integer.compareUnsigned(source, digests.length) >= 0) {
                throw refused(
                        ErrorCode.SOURCE_OUT_OF_RANGE,
                        "source %s is no node of the graph",
                        Integer.toUnsignedString(source));
            }
            if (source >= number) {
                throw refused(ErrorCode.GRAPH_CYCLE, "source %d is not earlier", source);
            }
            to.raw(digests[source]);
        }
    }

    /** An op's name, by what its dialect, and a dtype that is no mere check, make of it. */
    private static String nameOf(UOp node, boolean isLegacy) {
        String name =
                switch (node.getOp()) {
                    case IDIV -> isLegacy ? "CDIV" : "FLOORDIV";
                    case MOD -> isLegacy ? "CMOD" : "FLOORMOD";
                    case LOAD, STORE, RANGE -> node.getOp() + (isLegacy ? ":LEGACY_2025" : "");
                    default -> node.getOp().name();
                };
        return saysDType(node) ? name + ":" + node.getDtypeValue() : name;
    }

    /** Whether the node's dtype is no check, but says what it is. */
    private static boolean saysDType(UOp node) {
        if (node.getDtypeValue() == 0) {
            return false;
        }
        return switch (node.getOp()) {
            case BUFFER_VIEW, CUSTOM, CUSTOMI, EMPTY, INS, VCONST -> true;
            case DEFINE_GLOBAL, DEFINE_LOCAL, DEFINE_REG, DEFINE_ACC ->
                    node.getBuffer().getDtypeValue() == 0;
            case RANGE, LOOP, SPECIAL ->
                    node.getDtype() != kiln.v1.DType.INT64
                            && node.getDtype() != kiln.v1.DType.WEAKINT;
            default -> false;
        };
    }
}
