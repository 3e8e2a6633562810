import { Op } from "../gen/kiln/v1/graph_pb.js";
import type { DType } from "../dtype.js";
import { checkDType, dtypes, isFloat, isNarrow } from "../dtype.js";
import { badArgument, wrongDType, wrongShape } from "../errors.js";
import { Movement, broadcastShapes } from "./movement.js";
import type { Tensor } from "./tensor.js";

/**
 * A tensor of the same graph, or a number, which takes the dtype of the tensor that it meets. Tensors that meet have
 * one dtype (`cast` makes it so), and shapes that broadcast as numpy's do.
 */
export type Operand = Tensor | number | bigint | boolean;

const isNumber = (operand: Operand): operand is Exclude<Operand, Tensor> => typeof operand !== "object";

/** What computes each element by itself. */
export class Elementwise extends Movement {
  /** An operand as a tensor of this one's graph and dtype. */
  #lifted(operand: Operand): Tensor {
    const other = isNumber(operand) ? this.graph.scalar(this.dtype, operand) : operand;
    this.graph.owns(other);
    if (other.dtype !== this.dtype) {
      throw wrongDType(`${this.dtype} and ${other.dtype}: cast one`);
    }
    return other;
  }

  #binary(op: Op, operand: Operand, dtype = this.dtype): Tensor {
    const other = this.#lifted(operand);
    const shape = broadcastShapes(this.shape, other.shape);
    if (shape === undefined) {
      throw wrongShape(`[${this.shape}] and [${other.shape}] do not broadcast`);
    }
    const sources = [this.broadcast(shape).node, other.broadcast(shape).node];
    return this.graph.tensor(dtype, shape, op, sources);
  }

  add(operand: Operand): Tensor {
    return this.#binary(Op.ADD, operand);
  }

  sub(operand: Operand): Tensor {
    return this.#binary(Op.SUB, operand);
  }

  mul(operand: Operand): Tensor {
    return this.#binary(Op.MUL, operand);
  }

  /** Of floats the quotient, of integers the greatest that is not above it. */
  div(operand: Operand): Tensor {
    return this.#binary(isFloat(this.dtype) ? Op.FDIV : Op.FLOORDIV, operand);
  }

  maximum(operand: Operand): Tensor {
    return this.#binary(Op.MAX, operand);
  }

  less(operand: Operand): Tensor {
    return this.#binary(Op.CMPLT, operand, "bool");
  }

  greater(operand: Operand): Tensor {
    return this.#binary(Op.CMPGT, operand, "bool");
  }

  equal(operand: Operand): Tensor {
    return this.#binary(Op.CMPEQ, operand, "bool");
  }

  /** `then` where this tensor of bools is true, and `otherwise` elsewhere; one of both is a Tensor. */
  where(then: Operand, otherwise: Operand): Tensor {
    const like = [then, otherwise].find((operand) => !isNumber(operand)) as Tensor | undefined;
    if (like === undefined) {
      throw badArgument("where: two numbers: make one of them with Graph.scalar");
    }
    if (this.dtype !== "bool") {
      throw wrongDType(`where: the condition is ${this.dtype}, not bool`);
    }
    this.graph.owns(like);
    const [a, b] = [(like as Elementwise).#lifted(then), (like as Elementwise).#lifted(otherwise)];
    const both = broadcastShapes(a.shape, b.shape);
    const shape = both && broadcastShapes(this.shape, both);
    if (shape === undefined) {
      throw wrongShape(`where: [${this.shape}], [${a.shape}] and [${b.shape}] do not broadcast`);
    }
    return this.broadcast(shape).made(
      Op.WHERE,
      undefined,
      shape,
      a.dtype,
      a.broadcast(shape).node,
      b.broadcast(shape).node,
    );
  }

  cast(dtype: DType): Tensor {
    checkDType(dtype);
    return dtype === this.dtype
      ? this.self
      : this.made(Op.CAST, { case: "castTo", value: dtypes[dtype].wire }, this.shape, dtype);
  }

  #floats(): this {
    if (!isFloat(this.dtype)) {
      throw wrongDType(`a function of floats, of ${this.dtype}: cast it`);
    }
    return this;
  }

  #float(op: Op): Tensor {
    return this.#floats().made(op);
  }

  /** Computes floats of less than 32 bits in 32, and rounds once. */
  protected wide(of: (wide: Tensor) => Tensor): Tensor {
    return isNarrow(this.dtype) ? of(this.cast("float32")).cast(this.dtype) : of(this.self);
  }

  neg(): Tensor {
    return this.made(Op.NEG);
  }

  reciprocal(): Tensor {
    return this.#float(Op.RECIPROCAL);
  }

  sqrt(): Tensor {
    return this.#float(Op.SQRT);
  }

  sin(): Tensor {
    return this.#float(Op.SIN);
  }

  exp(): Tensor {
    return this.#floats().wide((x) => (x.mul(Math.LOG2E) as Elementwise).#float(Op.EXP2));
  }

  /** The natural logarithm. */
  log(): Tensor {
    return this.wide((x) => (x as Elementwise).#float(Op.LOG2).mul(Math.LN2));
  }

  relu(): Tensor {
    return this.maximum(0);
  }

  /** The same, through which no gradient flows. */
  detach(): Tensor {
    return this.made(Op.DETACH);
  }
}
