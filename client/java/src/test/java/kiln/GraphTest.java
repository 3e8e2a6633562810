package kiln;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import kiln.v1.BufferArg;
import kiln.v1.ErrorCode;
import kiln.v1.GradientResponse;
import kiln.v1.Op;
import kiln.v1.Signature;
import kiln.v1.UOp;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class GraphTest {
    private final Graph g = new Graph();
    private final Tensor x = g.param("x", DType.FLOAT32, 2, 3);

    private static Graph twice() {
        Graph body = new Graph();
        body.output(body.param("x", DType.FLOAT32, 2, 3).mul(2));
        return body;
    }

    @Test
    void shapesThatDoNotFit() {
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.add(g.full(DType.FLOAT32, 1, 5)));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.sum(2));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.reshape(4, -1));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.reshape(-1, -1));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.shrink(new long[] {0, 3}, new long[] {1, 4}));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.shrink(new long[] {0, 1}));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.pad(0, new long[] {0, -1}, new long[] {0, 0}));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> g.paramAt(0, "x", DType.FLOAT32, 4));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.matmul(x));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.conv2d(x));
        Fails.with(
                ErrorCode.SHAPE_MISMATCH, () -> g.full(DType.INT8, 1, 1, 1, 2, 2).maxPool2d(3, 1));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.sum().transpose());
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> x.broadcast(3));
    }

    @Test
    void sizesThatOverflow() {
        Tensor large = g.full(DType.FLOAT64, 1, 1L << 31, 1L << 28);
        Fails.with(
                ErrorCode.SIZE_OVERFLOW,
                () -> large.reshape(1L << 59, 1).add(g.full(DType.FLOAT64, 1, 1, 64)));
        Fails.with(ErrorCode.SIZE_OVERFLOW, () -> g.param("y", DType.INT64, Long.MAX_VALUE));
        Fails.with(
                ErrorCode.SHAPE_MISMATCH,
                () -> x.pad(0, new long[] {Long.MAX_VALUE, 1}, new long[2]));
        Fails.with(ErrorCode.SIZE_OVERFLOW, () -> x.reshape(Long.MAX_VALUE, Long.MAX_VALUE));
        Tensor image = g.full(DType.INT8, 1, 1, 1, 1L << 40, 1);
        Fails.with(ErrorCode.SIZE_OVERFLOW, () -> image.maxPool2d(1L << 40, 1));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> g.arange(DType.INT64, 1L << 40));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> g.paramAt(-1, "y", DType.INT64));
    }

    @Test
    void typesAndNumbersThatDoNotFit() {
        Fails.with(ErrorCode.DTYPE_MISMATCH, () -> x.add(g.full(DType.INT32, 1, 3)));
        Fails.with(ErrorCode.DTYPE_MISMATCH, () -> x.cast(DType.INT32).exp());
        Fails.with(ErrorCode.DTYPE_MISMATCH, () -> x.where(x, 1));
        Fails.with(ErrorCode.DTYPE_MISMATCH, () -> g.update(x, x.cast(DType.INT32)));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> x.cast(DType.INT8).add(300));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> x.cast(DType.INT8).add(0.5));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> x.add(new java.math.BigDecimal(1)));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> x.add(new Graph().param("y", DType.FLOAT32, 3)));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> x.permute(0, 0));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> g.param("x", DType.FLOAT32, 2));
        Fails.with(ErrorCode.BAD_ARGUMENT, () -> g.update(x.add(1), x));
        Fails.with(ErrorCode.MISSING_ARGUMENT, () -> g.call(twice()));
        Fails.with(ErrorCode.SHAPE_MISMATCH, () -> g.call(twice(), x.sum()));
        Fails.with(ErrorCode.BAD_ROOT, () -> new Graph().build());
    }

    @Test
    void equalNodesAreOne() {
        Graph made = new Graph();
        Tensor one = made.param("x", DType.FLOAT32, 4);
        made.output(one.add(1).mul(one.add(1)));
        one.exp(); // needed by nothing
        // x and 1 with two sizes and three shapes, and how 1 is stretched; the sum, the product,
        // the root.
        assertEquals(11, made.build().getNodesCount());
    }

    @Test
    void filesKeepGraphs(@TempDir Path folder) throws IOException {
        kiln.v1.Graph built = twice().build();
        for (String name : List.of("graph.kgraph", "graph.pb", "graph.txtpb")) {
            GraphFiles.write(folder.resolve(name), built);
            assertEquals(built, GraphFiles.read(folder.resolve(name)));
            Files.writeString(folder.resolve(name), "no graph\0");
            Fails.with(ErrorCode.BAD_ARGUMENT, () -> GraphFiles.read(folder.resolve(name)));
        }
        org.junit.jupiter.api.Assertions.assertThrows(
                NoSuchFileException.class, () -> GraphFiles.read(folder.resolve("none.pb")));
    }

    private void refuses(ErrorCode code, UOp... nodes) {
        GradientResponse.Builder said = GradientResponse.newBuilder();
        said.addResults(Signature.Result.newBuilder().setDtype(kiln.v1.DType.FLOAT32));
        said.getGraphBuilder().addAllNodes(List.of(nodes));
        Fails.with(code, () -> g.append(said.build()));
    }

    @Test
    void aGradientThatCannotBe() {
        UOp root = UOp.newBuilder().setOp(Op.TUPLE).addSrc(0).build();
        refuses(ErrorCode.GRAPH_CYCLE, UOp.newBuilder().setOp(Op.TUPLE).addSrc(9).build());
        refuses(ErrorCode.GRAPH_CYCLE, UOp.newBuilder().setOp(Op.TUPLE).addSrc(-1).build());
        refuses(ErrorCode.UNKNOWN_ARGUMENT, UOp.newBuilder().setOp(Op.PARAM).build(), root);
        BufferArg other = BufferArg.newBuilder().setSlot(7).build();
        refuses(
                ErrorCode.UNKNOWN_ARGUMENT,
                UOp.newBuilder().setOp(Op.PARAM).setBuffer(other).build(),
                root);
        refuses(ErrorCode.GRAPH_CYCLE, UOp.newBuilder().setOp(Op.NEG).addSrc(0).build(), root);
        refuses(ErrorCode.BAD_ROOT, UOp.newBuilder().setOp(Op.TUPLE).build());
        refuses(ErrorCode.BAD_ROOT);
    }
}
