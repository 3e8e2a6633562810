import { Op } from "../gen/kiln/v1/graph_pb.js";
import { elementCount } from "../array.js";
import { isNarrow } from "../dtype.js";
import { wrongShape } from "../errors.js";
import { Elementwise } from "./elementwise.js";
import type { Tensor } from "./tensor.js";

/** How reductions and collectives combine. */
export type Reduction = "sum" | "prod" | "max";

export const reductions: Readonly<Record<Reduction, Op>> = { sum: Op.ADD, prod: Op.MUL, max: Op.MAX };

/** What combines elements along axes. Without axes it is along all of them. */
export class Reducing extends Elementwise {
  #axes(axes: readonly number[]): number[] {
    const wanted = axes.length ? axes.map((axis) => this.axis(axis)) : [...this.shape.keys()];
    return [...this.shape.keys()].filter((at) => wanted.includes(at));
  }

  #reduced(op: Reduction, axes: number[]): Tensor {
    if (axes.length === 0) {
      return this.self;
    }
    const shape = this.shape.map((size, at) => (axes.includes(at) ? 1 : size));
    return this.made(Op.REDUCE, { case: "reduce", value: { op: reductions[op], axis: axes.map(BigInt) } }, shape);
  }

  /** Keeps the axes, with size 1. Floats of less than 32 bits are added and multiplied in 32, and rounded once. */
  #kept(op: Reduction, axes: readonly number[]): Tensor {
    const along = this.#axes(axes);
    return op === "max" ? this.#reduced(op, along) : this.wide((x) => (x as Reducing).#reduced(op, along));
  }

  /** Combines along axes, which go away. */
  reduce(op: Reduction, axes: readonly number[] = []): Tensor {
    const along = this.#axes(axes);
    return this.#kept(op, axes).reshape(this.shape.filter((_, at) => !along.includes(at)));
  }

  sum(axes?: readonly number[]): Tensor {
    return this.reduce("sum", axes);
  }

  max(axes?: readonly number[]): Tensor {
    return this.reduce("max", axes);
  }

  mean(axes?: readonly number[]): Tensor {
    return this.wide((x) => {
      const total = x.sum(axes);
      return total.mul(elementCount(total.shape) / elementCount(x.shape));
    });
  }

  /** The place (int32) of the greatest along an axis, the first of several. */
  argMax(axis: number): Tensor {
    // Counted from the end, the first place is the greatest.
    const at = this.axis(axis);
    const size = this.shape[at]!;
    const along = this.shape.map((_, other) => (other === at ? size : 1));
    const fromEnd = this.graph.arange("int32", size).neg().add(size).reshape(along);
    const places = this.equal(this.#kept("max", [at])).where(fromEnd, 0);
    return places.max([at]).neg().add(size);
  }

  /** The matrix product of the last two axes; those before broadcast. */
  matmul(other: Tensor): Tensor {
    this.graph.owns(other);
    const [n, m] = [this.shape.length, other.shape.length];
    if (n < 2 || m < 2 || this.shape[n - 1] !== other.shape[m - 2]) {
      const why = "the last axis of one is not the last but one of the other";
      throw wrongShape(`matmul: [${this.shape}] and [${other.shape}]: ${why}`);
    }
    const rows = this.reshape(this.shape.toSpliced(n - 1, 0, 1));
    const turned = other.transpose();
    const columns = turned.reshape(turned.shape.toSpliced(m - 2, 0, 1));
    if (isNarrow(this.dtype) && this.dtype === other.dtype) {
      return rows.cast("float32").mul(columns.cast("float32")).sum([-1]).cast(this.dtype);
    }
    return rows.mul(columns).sum([-1]);
  }

  /** exp(x) / sum(exp(x)) along an axis, safe for large x. */
  softmax(axis: number): Tensor {
    return this.wide((x) => {
      const powers = x.sub((x as Reducing).#kept("max", [axis])).exp();
      return powers.mul((powers as Reducing).#kept("sum", [axis]).reciprocal());
    });
  }

  /** The logarithm of softmax. */
  logSoftmax(axis: number): Tensor {
    return this.wide((x) => {
      const shifted = x.sub((x as Reducing).#kept("max", [axis]));
      return shifted.sub((shifted.exp() as Reducing).#kept("sum", [axis]).log());
    });
  }
}
