import type { MessageInitShape } from "@bufbuild/protobuf";

import type { UOpSchema } from "../gen/kiln/v1/graph_pb.js";
import { Op } from "../gen/kiln/v1/graph_pb.js";
import type { Shape } from "../array.js";
import type { DType } from "../dtype.js";
import { wrongShape } from "../errors.js";
import type { Graph } from "./graph.js";
import type { Tensor } from "./tensor.js";

export type Arg = NonNullable<MessageInitShape<typeof UOpSchema>["arg"]>;

/**
 * A node of a graph, with its dtype and shape. What can be made of it stands in the classes that follow: Movement, then
 * Elementwise, then Reducing, and Tensor is all of them.
 */
export class Value {
  constructor(
    readonly graph: Graph,
    /** @internal */ readonly node: number,
    readonly dtype: DType,
    readonly shape: Shape,
  ) {}

  protected made(op: Op, arg?: Arg, shape = this.shape, dtype = this.dtype, ...more: number[]): Tensor {
    return this.graph.tensor(dtype, shape, op, [this.node, ...more], arg);
  }

  /** The tensor itself: every Value is one. */
  protected get self(): Tensor {
    return this as Value as Tensor;
  }

  /** An axis counts from the end if it is negative. */
  protected axis(axis: number): number {
    if (!Number.isInteger(axis) || axis < -this.shape.length || axis >= this.shape.length) {
      throw wrongShape(`there is no axis ${axis} in a shape of ${this.shape.length}`);
    }
    return axis < 0 ? axis + this.shape.length : axis;
  }
}
