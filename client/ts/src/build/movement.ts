import { Op } from "../gen/kiln/v1/graph_pb.js";
import type { Shape } from "../array.js";
import { byteCount, elementCount, sameShape } from "../array.js";
import { badArgument, wrongShape } from "../errors.js";
import type { Tensor } from "./tensor.js";
import type { Arg } from "./value.js";
import { Value } from "./value.js";

/** Two numbers for an axis: before and after, or begin and end. */
export type Pair = readonly [number, number];

/** What moves elements and computes none. */
export class Movement extends Value {
  #moved(op: Op, shape: Shape, shapes: Shape[], arg?: Arg): Tensor {
    return this.made(op, arg, shape, this.dtype, ...shapes.map((one) => this.graph.shapeNode(one)));
  }

  /** The elements, row-major, in another shape; one size may be -1. */
  reshape(shape: Shape): Tensor {
    const rest = elementCount(shape.filter((size) => size !== -1));
    const sizes = [...shape];
    if (sizes.includes(-1)) {
      sizes[sizes.indexOf(-1)] = rest > 0 ? elementCount(this.shape) / rest : 0;
    }
    if (
      !sizes.every((size) => Number.isInteger(size) && size >= 0) ||
      elementCount(sizes) !== elementCount(this.shape)
    ) {
      throw wrongShape(`reshape: [${this.shape}] does not become [${shape}]`);
    }
    byteCount(this.dtype, sizes);
    return sameShape(sizes, this.shape) ? this.self : this.#moved(Op.RESHAPE, sizes, [sizes]);
  }

  /** Repeats axes of size 1, and adds new ones in front. */
  broadcast(shape: Shape): Tensor {
    if (sameShape(shape, this.shape)) {
      return this.self;
    }
    const all = broadcastShapes(this.shape, shape);
    if (all === undefined || !sameShape(all, shape)) {
      throw wrongShape(`broadcast: [${this.shape}] to [${shape}]: only axes of size 1 stretch`);
    }
    const ones = Array<number>(shape.length - this.shape.length).fill(1);
    const padded = this.reshape([...ones, ...this.shape]);
    return sameShape(shape, padded.shape) ? padded : (padded as Movement).#moved(Op.EXPAND, shape, [shape]);
  }

  /** The axes in another order. */
  permute(order: readonly number[]): Tensor {
    const sorted = [...order].sort((a, b) => a - b);
    if (order.length !== this.shape.length || sorted.some((axis, at) => axis !== at)) {
      throw badArgument(`permute: [${order}] is no order of ${this.shape.length} axes`);
    }
    if (sameShape(order, sorted)) {
      return this.self;
    }
    const shape = order.map((axis) => this.shape[axis]!);
    return this.made(Op.PERMUTE, { case: "axes", value: { axis: order.map(BigInt) } }, shape);
  }

  /** The last two axes exchanged. */
  transpose(): Tensor {
    const last = this.shape.length - 1;
    if (last < 1) {
      throw wrongShape(`transpose of [${this.shape}]: two axes are exchanged`);
    }
    const order = [...this.shape.keys()];
    return this.permute([...order.slice(0, last - 1), last, last - 1]);
  }

  /** The elements the other way round along an axis. */
  flip(axis: number): Tensor {
    const at = this.axis(axis);
    return this.made(Op.FLIP, { case: "flip", value: { axis: this.shape.map((_, other) => other === at) } });
  }

  /** Elements of a number around: [before, after] for each axis. */
  pad(widths: readonly Pair[], value: number | bigint | boolean = 0): Tensor {
    if (widths.length !== this.shape.length || !widths.flat().every((width) => Number.isInteger(width) && width >= 0)) {
      throw wrongShape(`pad: [${widths.join("; ")}] for [${this.shape}]: one pair of 0 or more an axis`);
    }
    const shape = this.shape.map((size, at) => widths[at]![0] + size + widths[at]![1]);
    if (sameShape(shape, this.shape)) {
      return this.self;
    }
    const fill = this.graph.constant(this.dtype, value);
    const before = widths.map(([width]) => width);
    return this.#moved(Op.PAD, shape, [before, shape], { case: "pad", value: { fill } });
  }

  /** The box from begin to end of each axis. */
  shrink(ranges: readonly Pair[]): Tensor {
    const fits = ranges.every(([begin, end], at) => 0 <= begin && begin <= end && end <= (this.shape[at] ?? -1));
    if (ranges.length !== this.shape.length || !fits || !ranges.flat().every(Number.isInteger)) {
      throw wrongShape(`shrink: [${ranges.join("; ")}] of [${this.shape}]: one box inside of it an axis`);
    }
    const shape = ranges.map(([begin, end]) => end - begin);
    if (sameShape(shape, this.shape)) {
      return this.self;
    }
    return this.#moved(Op.SHRINK, shape, [ranges.map(([begin]) => begin), shape]);
  }

  /** The first elements of one axis. */
  protected keep(axis: number, most: number): Tensor {
    return this.shrink(this.shape.map((size, at) => [0, at === axis ? most : size]));
  }
}

/** The shape of what two shapes give together, as numpy has it; undefined if they do not go together. */
export function broadcastShapes(a: Shape, b: Shape): number[] | undefined {
  const [long, short] = a.length < b.length ? [b, a] : [a, b];
  const shape = [...long];
  for (const [at, size] of short.entries()) {
    const place = long.length - short.length + at;
    if (shape[place] === 1) {
      shape[place] = size;
    } else if (size !== 1 && size !== shape[place]) {
      return undefined;
    }
  }
  return shape;
}
