import { clone, create, toBinary } from "@bufbuild/protobuf";

import type { ConstArg, Graph as GraphMessage, UOp } from "../gen/kiln/v1/graph_pb.js";
import { AddrSpace, ConstArgSchema, GraphSchema, Op, UOpSchema } from "../gen/kiln/v1/graph_pb.js";
import { DType as WireDType } from "../gen/kiln/v1/dtype_pb.js";
import type { GradientResponse } from "../gen/kiln/v1/kernel_service_pb.js";
import type { Shape } from "../array.js";
import { byteCount, sameShape } from "../array.js";
import { CanonicalWriter } from "../canonical.js";
import { writeConstant } from "../constant.js";
import type { DType } from "../dtype.js";
import { checkDType, dtypes, stored } from "../dtype.js";
import { KilnError, badArgument, wrongDType, wrongShape } from "../errors.js";
import { Tensor } from "./tensor.js";
import type { Arg } from "./value.js";

interface Parameter {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
}

// Ops through which a tensor is a view of a parameter.
const views = new Set([Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.BITCAST]);

/** A graph under construction. Tensors are its nodes; nothing is computed here, and equal nodes are one. */
export class Graph {
  readonly #nodes: UOp[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #slots = new Map<number, Parameter>();
  readonly #outputs: number[] = [];
  readonly #results: Tensor[] = []; // of the outputs, those that are no updates

  /** An argument of the program, in the next free slot or one of the caller's choice. */
  param(name: string, dtype: DType, shape: Shape = [], slot = Math.max(-1, ...this.#slots.keys()) + 1): Tensor {
    byteCount(dtype, shape);
    if (!Number.isInteger(slot) || slot < 0 || slot > 0xffffffff) {
      throw badArgument(`param: ${slot} is no slot: it is a whole number of 0 or more`);
    }
    const held = this.#slots.get(slot);
    if (held !== undefined && (held.dtype !== dtype || !sameShape(held.shape, shape))) {
      throw wrongShape(`slot ${slot} is ${held.dtype} [${held.shape}] already, not ${dtype} [${shape}]`);
    }
    for (const [other, row] of this.#slots) {
      if (name !== "" && row.name === name && other !== slot) {
        throw badArgument(`slot ${other} is named "${name}" already`);
      }
    }
    this.#slots.set(slot, { name, dtype, shape });
    const value = { slot, dtype: dtypes[dtype].wire, name };
    return this.tensor(dtype, shape, Op.PARAM, [this.shapeNode(shape)], { case: "buffer", value });
  }

  /** A number as a tensor of no axes. */
  scalar(dtype: DType, value: number | bigint | boolean): Tensor {
    return this.tensor(dtype, [], Op.CONST, [], { case: "constant", value: this.constant(dtype, value) });
  }

  /** An array of one number. */
  full(dtype: DType, value: number | bigint | boolean, shape: Shape): Tensor {
    return this.scalar(dtype, value).broadcast(shape);
  }

  /** 0, 1, …, stop - 1. */
  arange(dtype: DType, stop: number): Tensor {
    if (!Number.isInteger(stop) || stop < 0 || stop > 0x7fffffff) {
      throw badArgument(`arange of ${stop} numbers`);
    }
    // A number is the sum of its binary digits, and each digit is an axis of two.
    let total = this.full(dtype, 0, [1]);
    for (let count = 1; count < stop; count *= 2) {
      const digit = this.tensor(dtype, [2], Op.STACK, [this.scalar(dtype, 0).node, this.scalar(dtype, count).node]);
      total = digit
        .reshape([2, 1])
        .add(total.reshape([1, count]))
        .reshape([2 * count]);
    }
    return total.shrink([[0, stop]]);
  }

  /** Makes tensors results of the program, in the order of all calls. */
  output(...tensors: Tensor[]) {
    tensors.forEach((tensor) => this.owns(tensor));
    this.#outputs.push(...tensors.map((tensor) => tensor.node));
    this.#results.push(...tensors);
  }

  /** Stores a value to a parameter, or to a view of one, when the program has run. Other nodes see what was before. */
  update(target: Tensor, value: Tensor) {
    this.owns(target);
    this.owns(value);
    let base = this.#nodes[target.node]!;
    while (views.has(base.op)) {
      base = this.#nodes[base.src[0]!]!;
    }
    if (base.op !== Op.PARAM) {
      throw badArgument("update: only a parameter or a view of one can be updated; this is computed");
    }
    if (value.dtype !== target.dtype) {
      throw wrongDType(`update: the parameter is ${target.dtype}, the value ${value.dtype}: cast it`);
    }
    this.#outputs.push(this.#node(Op.STORE, [target.node, value.broadcast(target.shape).node]));
  }

  /**
   * Calls another graph as a function: argument k stands in the place of its parameter in slot k. What it gives are the
   * other graph's outputs. A large body that is called twice is compiled once.
   */
  call(body: Graph, ...given: Tensor[]): Tensor[] {
    const built = body.build();
    for (const [slot, row] of body.#slots) {
      const argument = given[slot];
      if (argument === undefined) {
        throw new KilnError("INVALID_ARGUMENT", `call: no argument for slot ${slot}`, { code: "MISSING_ARGUMENT" });
      }
      this.owns(argument);
      if (argument.dtype !== row.dtype || !sameShape(argument.shape, row.shape)) {
        const is = `${argument.dtype} [${argument.shape}]`;
        throw wrongShape(`call: parameter "${row.name}" is ${row.dtype} [${row.shape}], the argument ${is}`);
      }
    }
    if (body.#results.length !== body.#outputs.length) {
      throw badArgument("call: the body updates a parameter");
    }
    const root = this.#copied(built.nodes).at(-1)!;
    const call = this.#node(Op.FUNCTION, [root, ...given.map((tensor) => tensor.node)]);
    return body.#results.map(({ dtype, shape }, at) =>
      this.tensor(dtype, shape, Op.GETTUPLE, [call], { case: "index", value: BigInt(at) }),
    );
  }

  /**
   * Puts a gradient's graph into this one, and gives its results in order. Its parameters are those of equal slots
   * here.
   */
  append(gradient: GradientResponse): Tensor[] {
    const nodes = gradient.graph?.nodes ?? [];
    const root = nodes.at(-1);
    if (root === undefined || root.src.length !== gradient.results.length) {
      throw new KilnError("INVALID_ARGUMENT", "append: no gradient", { code: "BAD_ROOT" });
    }
    for (const { op, arg } of nodes) {
      const isParameter = op === Op.PARAM && arg.case === "buffer" && arg.value.addrspace !== AddrSpace.ALU;
      if (isParameter && !this.#slots.has(arg.value.slot)) {
        const message = `append: there is no parameter in slot ${arg.value.slot}: make it with param`;
        throw new KilnError("INVALID_ARGUMENT", message, { code: "UNKNOWN_ARGUMENT" });
      }
    }
    const numbers = this.#copied(nodes.slice(0, -1));
    return gradient.results.map((row, at) => {
      const node = numbers[root.src[at]!];
      if (node === undefined) {
        throw new KilnError("INVALID_ARGUMENT", "append: the root is its own source", { code: "GRAPH_CYCLE" });
      }
      return new Tensor(this, node, stored(row.dtype), row.shape.map(Number));
    });
  }

  /** The graph as a message: the nodes that outputs and updates need, the root last. */
  build(): GraphMessage {
    if (this.#outputs.length === 0) {
      throw new KilnError("INVALID_ARGUMENT", "the graph has neither an output nor an update", { code: "BAD_ROOT" });
    }
    const needed = new Set(this.#outputs);
    for (let node = this.#nodes.length - 1; node >= 0; node--) {
      if (needed.has(node)) {
        this.#nodes[node]!.src.forEach((source) => needed.add(source));
      }
    }
    const numbers: number[] = [];
    const renumbered = (sources: number[]) => sources.map((source) => numbers[source]!);
    const built = create(GraphSchema);
    this.#nodes.forEach((uop, node) => {
      if (needed.has(node)) {
        numbers[node] = built.nodes.length;
        built.nodes.push({ ...clone(UOpSchema, uop), src: renumbered(uop.src) });
      }
    });
    built.nodes.push(create(UOpSchema, { op: Op.TUPLE, src: renumbered(this.#outputs) }));
    return built;
  }

  /** @internal */
  owns(tensor: Tensor) {
    if (tensor.graph !== this) {
      throw badArgument("a tensor of another graph");
    }
  }

  /** @internal */
  tensor(dtype: DType, shape: Shape, op: Op, sources: number[], arg?: Arg): Tensor {
    return new Tensor(this, this.#node(op, sources, arg), dtype, [...shape]);
  }

  /** @internal A shape as a source of movement ops. */
  shapeNode(shape: Shape): number {
    const sizes = shape.map((size) => {
      const value = { dtype: WireDType.WEAKINT, value: { case: "i" as const, value: BigInt(size) } };
      return this.#node(Op.CONST, [], { case: "constant", value });
    });
    return this.#node(Op.STACK, sizes);
  }

  /** @internal A number as the message has it; an error if the dtype does not hold it. */
  constant(dtype: DType, value: number | bigint | boolean): ConstArg {
    const whole =
      typeof value !== "boolean" && (typeof value === "bigint" || Number.isSafeInteger(value)) && !Object.is(value, -0);
    if (whole && (value > 0xffffffffffffffffn || value < -0x8000000000000000n)) {
      throw badArgument(`a constant of more than 64 bits: ${value}`);
    }
    const form = whole ? (value > 0x7fffffffffffffffn ? "u" : "i") : typeof value === "boolean" ? "b" : "f";
    const written = { case: form, value: whole ? BigInt(value) : value } as ConstArg["value"];
    checkDType(dtype);
    const made = create(ConstArgSchema, { dtype: dtypes[dtype].wire, value: written });
    try {
      writeConstant(new CanonicalWriter(), made);
    } catch {
      throw badArgument(`${dtype} does not hold ${value}`);
    }
    return made;
  }

  /** Puts nodes into this graph, and gives their indices here. */
  #copied(nodes: UOp[]): number[] {
    const numbers: number[] = [];
    for (const uop of nodes) {
      const src = uop.src.map((source) => {
        if (numbers[source] === undefined) {
          const message = `source ${source} of node ${numbers.length} is not earlier`;
          throw new KilnError("INVALID_ARGUMENT", message, { code: "GRAPH_CYCLE" });
        }
        return numbers[source];
      });
      numbers.push(this.#interned({ ...clone(UOpSchema, uop), src }));
    }
    return numbers;
  }

  #node(op: Op, src: number[], arg?: Arg): number {
    return this.#interned(create(UOpSchema, arg === undefined ? { op, src } : { op, src, arg }));
  }

  /** The index of a node, which is that of an equal one if there is any. */
  #interned(uop: UOp): number {
    const key = Buffer.from(toBinary(UOpSchema, uop)).toString("latin1");
    const number = this.#numbers.get(key) ?? this.#nodes.push(uop) - 1;
    this.#numbers.set(key, number);
    return number;
  }
}
