package kiln;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import kiln.v1.ErrorCode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class GraphFilesTest {
    private static final String ONE = "{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}";

    static ByteBuffer file(String header, int... data) {
        byte[] text = header.getBytes(StandardCharsets.UTF_8);
        ByteBuffer made = ByteBuffer.allocate(8 + text.length + data.length);
        made.order(ByteOrder.LITTLE_ENDIAN).putLong(text.length).put(text);
        for (int value : data) {
            made.put((byte) value);
        }
        return made.flip();
    }

    private static ByteBuffer row(String name, String dtype, String shape, String offsets) {
        String form = "{\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":%s}}";
        return file(form.formatted(name, dtype, shape, offsets), 1);
    }

    @Test
    void constantsComeFromTheirFile(@TempDir Path folder) throws IOException {
        String header =
                "{\"__metadata__\":{\"by\":\"x\"},"
                        + "\"3_w\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[0,4]},"
                        + "\"12_b_1\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[4,5]}}  ";
        Path path = folder.resolve("model.safetensors");
        Files.write(path, file(header, 0, 60, 0, 192, 7).array());
        Map<Integer, NdArray> constants = GraphFiles.readConstants(path);
        assertEquals(Set.of(3, 12), constants.keySet());
        NdArray w = constants.get(3);
        assertEquals(DType.FLOAT16, w.dtype());
        assertArrayEquals(new long[] {2, 1}, w.shape());
        assertArrayEquals(new double[] {1, -2}, w.numbers());
        assertArrayEquals(new long[] {}, constants.get(12).shape());
        assertArrayEquals(new byte[] {7}, constants.get(12).bytes());
    }

    @Test
    void constantsThatCannotBeAreRefused() {
        List<ByteBuffer> lies =
                List.of(
                        ByteBuffer.wrap(new byte[] {1, 2}),
                        ByteBuffer.wrap(new byte[] {-1, -1, -1, -1, -1, -1, -1, 127, '{', '}'}),
                        file("{"),
                        file("[]"),
                        file("{\"1_w\":null}"),
                        row("w", "I8", "[1]", "[0,1]"),
                        row("4294967296_w", "I8", "[1]", "[0,1]"),
                        row("1_w", "I7", "[1]", "[0,1]"),
                        row("1_w", "I8", "[2]", "[0,2]"),
                        row("1_w", "I8", "[1]", "[1,0]"),
                        row("1_w", "I8", "[3]", "[0,1]"),
                        row("1_w", "I8", "[-1]", "[0,1]"),
                        row("1_w", "I8", "[1]", "[1]"),
                        file("{\"1_a\":" + ONE + ",\"1_b\":" + ONE + "}", 1));
        for (ByteBuffer lie : lies) {
            Fails.with(ErrorCode.BAD_ARGUMENT, () -> GraphFiles.constants(lie));
        }
    }
}
