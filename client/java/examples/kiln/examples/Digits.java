package kiln.examples;

import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import kiln.*;

/**
 * Handwritten digits: a small network learns 1,437 of them on the server, and reads 360 that it has
 * not seen. A step, from the batch to the new weights, is one program there. The server makes the
 * gradient once, as a graph.
 */
public final class Digits {
    private static final int IMAGES = 1797, PIXELS = 64, CLASSES = 10;
    private static final int TRAINED = 1437, BATCH = 64, HIDDEN = 64, EPOCHS = 15;
    private static final double RATE = 0.5;

    /**
     * Of the weights, slots 0 to 3 in every graph. Images have slot 4; their digits, ten numbers
     * each, slot 5.
     */
    private static final long[][] SHAPES = {
        {PIXELS, HIDDEN}, {HIDDEN}, {HIDDEN, CLASSES}, {CLASSES}
    };

    private final float[] images = new float[IMAGES * PIXELS];
    private final float[] digits = new float[IMAGES * CLASSES];

    /** Reads what is in two .npy files, in an order by chance that is always the same. */
    private Digits(Path folder) throws IOException {
        byte[] pictures = Files.readAllBytes(folder.resolve("digits_images.npy"));
        byte[] names = Files.readAllBytes(folder.resolve("digits_labels.npy"));
        List<Integer> order = new ArrayList<>();
        Random random = new Random(1);
        for (int at = 0; at < IMAGES; at++) {
            order.add(random.nextInt(order.size() + 1), at);
        }
        for (int row = 0; row < IMAGES; row++) {
            int from = pictures.length + (order.get(row) - IMAGES) * PIXELS;
            for (int pixel = 0; pixel < PIXELS; pixel++) {
                images[row * PIXELS + pixel] = pictures[from + pixel] / 16f;
            }
            digits[row * CLASSES + names[names.length - IMAGES + order.get(row)]] = 1;
        }
    }

    private static NdArray rows(float[] all, int width, int begin, int end) {
        float[] part = Arrays.copyOfRange(all, begin * width, end * width);
        return NdArray.of(part, end - begin, width);
    }

    private static Tensor logits(Graph g, int count, List<Tensor> weights) {
        for (long[] shape : SHAPES) {
            weights.add(g.paramAt(weights.size(), "w" + weights.size(), DType.FLOAT32, shape));
        }
        Tensor x = g.paramAt(4, "x", DType.FLOAT32, count, PIXELS);
        Tensor hidden = x.matmul(weights.get(0)).add(weights.get(1)).relu();
        return hidden.matmul(weights.get(2)).add(weights.get(3));
    }

    /** A program that lowers the loss: every weight goes against its gradient, in place. */
    private static Program step(KilnClient client) {
        Graph loss = new Graph();
        Tensor guesses = logits(loss, BATCH, new ArrayList<>());
        Tensor wanted = loss.paramAt(5, "digits", DType.FLOAT32, BATCH, CLASSES);
        loss.output(guesses.logSoftmax(-1).mul(wanted).sum().mul(-1.0 / BATCH));
        Graph g = new Graph();
        List<Tensor> weights = new ArrayList<>();
        logits(g, BATCH, weights);
        g.paramAt(5, "digits", DType.FLOAT32, BATCH, CLASSES);
        List<Tensor> values = g.append(client.gradient(loss, 0, 1, 2, 3));
        g.output(values.get(0));
        for (Tensor weight : weights) {
            Tensor slope = values.get(1 + weights.indexOf(weight));
            g.update(weight, weight.sub(slope.mul(RATE)));
        }
        return client.compile(g);
    }

    /** Where the data is may be given; KILN_ADDR says where the server is. */
    public static void main(String[] arguments) throws IOException {
        Digits data = new Digits(Path.of(arguments.length > 0 ? arguments[0] : "../demo/data"));
        Random random = new Random(2);
        try (KilnClient client = KilnClient.connect()) {
            Argument[] given = new Argument[SHAPES.length + 2];
            for (int slot = 0; slot < SHAPES.length; slot++) {
                given[slot] = client.upload(first(SHAPES[slot], random));
            }
            Program step = step(client);
            for (int epoch = 1; epoch <= EPOCHS; epoch++) {
                float total = 0;
                for (int at = 0; at + BATCH <= TRAINED; at += BATCH) {
                    given[4] = rows(data.images, PIXELS, at, at + BATCH);
                    given[5] = rows(data.digits, CLASSES, at, at + BATCH);
                    total += step.run(given).get(0).floats()[0];
                }
                System.out.printf("epoch %2d   loss %.4f%n", epoch, total / (TRAINED / BATCH));
            }
            Graph g = new Graph();
            g.output(logits(g, IMAGES - TRAINED, new ArrayList<>()).argMax(-1));
            given[4] = rows(data.images, PIXELS, TRAINED, IMAGES);
            int[] guesses = client.compile(g).run(Arrays.copyOf(given, 5)).get(0).ints();
            float right = 0;
            for (int at = 0; at < guesses.length; at++) {
                right += data.digits[(TRAINED + at) * CLASSES + guesses[at]];
            }
            System.out.printf(
                    "read %.0f of %d: %.4f%n", right, guesses.length, right / guesses.length);
        }
    }

    /** Numbers by chance for matrices, zeros for the rest. */
    private static NdArray first(long[] shape, Random random) {
        float[] values = new float[(int) Arrays.stream(shape).reduce(1, (a, b) -> a * b)];
        for (int at = 0; at < values.length && shape.length == 2; at++) {
            values[at] = (float) (random.nextGaussian() * Math.sqrt(2.0 / shape[0]));
        }
        return NdArray.of(values, shape);
    }
}
