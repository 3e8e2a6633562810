// Handwritten digits: a small network learns 1,437 of them on the server, and reads 360 that it has not seen.
//
//   ./dev run & (cd client/ts && npm run build && node dist/examples/digits.js)    KILN_ADDR: another server
//
// A step, from the batch to the new weights, is one program there. The server makes the gradient once, as a graph.
import { readFile } from "node:fs/promises";

import { Graph, array, connect } from "kiln";
import type { Client, DeviceBuffer, Program, Tensor } from "kiln";

const [images, pixels, classes] = [1797, 64, 10];
const [trained, batch, hidden] = [1437, 64, 64];
const [epochs, rate] = [15, 0.5];

// Of the weights, which have slots 0 to 3 in every graph. Images have slot 4; their digits, ten numbers each, slot 5.
const shapes = [[pixels, hidden], [hidden], [hidden, classes], [classes]];

function logits(g: Graph, count: number): [Tensor, Tensor[]] {
  const weights = shapes.map((shape, slot) => g.param(`w${slot}`, "float32", shape, slot));
  const [w0, w1, w2, w3] = weights as [Tensor, Tensor, Tensor, Tensor];
  const x = g.param("x", "float32", [count, pixels], 4);
  return [x.matmul(w0).add(w1).relu().matmul(w2).add(w3), weights];
}

/** A program that lowers the loss: every weight goes against its gradient, in place. */
async function step(client: Client): Promise<Program> {
  const loss = new Graph();
  const [guesses] = logits(loss, batch);
  const digits = loss.param("digits", "float32", [batch, classes], 5);
  loss.output(
    guesses
      .logSoftmax(-1)
      .mul(digits)
      .sum()
      .mul(-1 / batch),
  );
  const gradient = await client.gradient(loss, [0, 1, 2, 3], { includeResults: true });
  const g = new Graph();
  const [, weights] = logits(g, batch);
  g.param("digits", "float32", [batch, classes], 5);
  const [value, ...slopes] = g.append(gradient);
  g.output(value!);
  weights.forEach((weight, at) => g.update(weight, weight.sub(slopes[at]!.mul(rate))));
  return client.compile(g);
}

/** Numbers by chance, always the same ones: between 0 and 1, and of the normal distribution. */
let state = 2;
function uniform(): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return (state + 0.5) / 2 ** 32;
}
const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());

/** The first weights: numbers by chance for matrices, zeros for the rest. */
function begin(client: Client): Promise<DeviceBuffer[]> {
  const made = shapes.map(([rows = 1, columns]) => {
    const values = new Float32Array(rows * (columns ?? 1));
    return array(
      columns ? values.map(() => normal() * Math.sqrt(2 / rows)) : values,
      columns ? [rows, columns] : [rows],
    );
  });
  return Promise.all(made.map((values) => client.upload(values)));
}

/** What is in two .npy files, in an order by chance; digits also as ten numbers each. */
async function data(folder: URL) {
  const pictures = (await readFile(new URL("digits_images.npy", folder))).subarray(-images * pixels);
  const names = (await readFile(new URL("digits_labels.npy", folder))).subarray(-images);
  const order = [...names.keys()].map((row) => [uniform(), row] as const).sort(([a], [b]) => a - b);
  const x = new Float32Array(images * pixels);
  const digits = new Float32Array(images * classes);
  const labels = order.map(([, row], at) => {
    x.set(pictures.subarray(row * pixels, (row + 1) * pixels), at * pixels);
    digits[at * classes + names[row]!] = 1;
    return names[row]!;
  });
  return { x: x.map((ink) => ink / 16), digits, labels };
}

const client = await connect();
try {
  const { x, digits, labels } = await data(new URL("../../../demo/data/", import.meta.url));
  const [weights, program] = [await begin(client), await step(client)];
  for (let epoch = 1; epoch <= epochs; epoch++) {
    let total = 0;
    for (let at = 0; at + batch <= trained; at += batch) {
      const pictures = array(x.subarray(at * pixels, (at + batch) * pixels), [batch, pixels]);
      const names = array(digits.subarray(at * classes, (at + batch) * classes), [batch, classes]);
      const [loss] = await program.run([...weights, pictures, names]);
      total += Number(loss!.values[0]);
    }
    const mean = total / Math.floor(trained / batch);
    console.log(`epoch ${String(epoch).padStart(2)}   loss ${mean.toFixed(4)}`);
  }
  const unseen = images - trained;
  const g = new Graph();
  g.output(logits(g, unseen)[0].argMax(-1));
  const pictures = array(x.subarray(trained * pixels), [unseen, pixels]);
  const [read] = await (await client.compile(g)).run([...weights, pictures]);
  const right = read!.numbers().filter((digit, at) => digit === labels[trained + at]).length;
  console.log(`read ${right} of ${unseen}: ${(right / unseen).toFixed(4)}`);
} finally {
  await client.close();
}
