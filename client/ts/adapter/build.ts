import { Graph } from "../src/index.js";
import type { DType, Operand, Pair, Tensor } from "../src/index.js";

/** A function's name and its arguments, of which `{"value": 2}` is what call 2 made. */
export type Call = [string, ...unknown[]];

// What `build` may call: of the graph, and of tensors.
const ofGraph: Record<string, (graph: Graph, ...given: any[]) => Tensor | void> = {
  param: (graph, name: string, shape: number[], dtype: DType) => graph.param(name, dtype, shape),
  output: (graph, x: Tensor) => graph.output(x),
  update: (graph, x: Tensor, value: Tensor) => graph.update(x, value),
};
const ofTensor: Record<string, (x: Tensor, ...given: any[]) => Tensor> = {
  cast: (x, dtype: DType) => x.cast(dtype),
  reshape: (x, shape: number[]) => x.reshape(shape),
  permute: (x, order: number[]) => x.permute(order),
  broadcast: (x, shape: number[]) => x.broadcast(shape),
  pad: (x, widths: Pair[], value: number) => x.pad(widths, value),
  shrink: (x, ranges: Pair[]) => x.shrink(ranges),
  flip: (x, axis: number) => x.flip(axis),
  sum: (x, axes: number[]) => x.sum(axes),
  max: (x, axes: number[]) => x.max(axes),
  matmul: (x, y: Tensor) => x.matmul(y),
  softmax: (x, axis: number) => x.softmax(axis),
  where: (x, then: Operand, otherwise: Operand) => x.where(then, otherwise),
  add: (x, y: Operand) => x.add(y),
  subtract: (x, y: Operand) => x.sub(y),
  multiply: (x, y: Operand) => x.mul(y),
  divide: (x, y: Operand) => x.div(y),
  maximum: (x, y: Operand) => x.maximum(y),
  less: (x, y: Operand) => x.less(y),
  equal: (x, y: Operand) => x.equal(y),
  negative: (x) => x.neg(),
  exp: (x) => x.exp(),
  log: (x) => x.log(),
  sqrt: (x) => x.sqrt(),
  sin: (x) => x.sin(),
  reciprocal: (x) => x.reciprocal(),
  relu: (x) => x.relu(),
};

export function build(calls: Call[]) {
  const graph = new Graph();
  const values: (Tensor | void)[] = [];
  const value = (given: unknown) => (isValue(given) ? values[given.value] : given);
  for (const [name, ...given] of calls) {
    const [first, ...rest] = given.map(value);
    if (name in ofGraph) {
      values.push(ofGraph[name]!(graph, first, ...rest));
    } else if (name in ofTensor) {
      values.push(ofTensor[name]!(first as Tensor, ...rest));
    } else {
      throw new Error(`build: there is no "${name}"`);
    }
  }
  return graph.build();
}

const isValue = (given: unknown): given is { value: number } =>
  typeof given === "object" && given !== null && "value" in given;
