import { create } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";

import type { Graph as GraphMessage } from "./gen/kiln/v1/graph_pb.js";
import type {
  CompileOptionsSchema,
  CompileResponse,
  ExecuteRequest,
  ResultValue,
} from "./gen/kiln/v1/kernel_service_pb.js";
import { ArgumentSchema, ExecuteRequestSchema, KernelService, ResultMode } from "./gen/kiln/v1/kernel_service_pb.js";
import { BufferService } from "./gen/kiln/v1/buffer_service_pb.js";
import type { BufferDescription } from "./gen/kiln/v1/buffer_service_pb.js";
import type { Signature } from "./gen/kiln/v1/executable_pb.js";
import type { Tensor as TensorMessage } from "./gen/kiln/v1/tensor_pb.js";
import { NdArray, array, isTypedArray } from "./array.js";
import { BufferPart, DeviceBuffer } from "./buffer.js";
import { Graph } from "./build/graph.js";
import type { Client } from "./client.js";
import type { CallOptions } from "./options.js";
import { regardless, until } from "./options.js";
import type { TypedArray } from "./dtype.js";
import { dtypes, stored } from "./dtype.js";
import { KilnError, badArgument } from "./errors.js";
import { hash } from "./hash.js";

// Arrays of more bytes travel in chunks of their own, not in the message of a call.
const inline = 4 << 20;

/** What can be compiled: a graph under construction, or a message as readGraph gives it. */
export type Compilable = Graph | GraphMessage;

export const messageOf = (graph: Compilable) => (graph instanceof Graph ? graph.build() : graph);

/**
 * What a program can be given: an array, a typed array as one of one axis, memory on the device, or a number for a
 * variable.
 */
export type Argument = NdArray | TypedArray | DeviceBuffer | BufferPart | number | bigint;

/** In ascending order of slot, by slot, or by name. */
export type Arguments = readonly Argument[] | ReadonlyMap<number, Argument> | Readonly<Record<string, Argument>>;

type Bound = NdArray | DeviceBuffer | BufferPart | bigint;

interface Taken {
  readonly slot: number;
  readonly name: string;
}

export type CompileOptions = CallOptions & { options?: MessageInitShape<typeof CompileOptionsSchema> };

/** A graph that a server has compiled. */
export class Program {
  /** @internal */ readonly takes: readonly Taken[];
  readonly #small: boolean;

  private constructor(
    readonly client: Client,
    /** What was sent: nodes in errors are of it. */
    readonly graph: GraphMessage,
    /** @internal */ readonly options: MessageInitShape<typeof CompileOptionsSchema> | undefined,
    /** @internal */ readonly compiled: CompileResponse,
  ) {
    const { parameters, variables, results } = this.signature;
    this.takes = [...parameters, ...variables].sort((a, b) => a.slot - b.slot);
    this.#small = results.reduce((total, row) => total + row.bytes, 0n) <= inline;
  }

  /** @internal It computes the graph's hash itself, and believes no server that says another. */
  static async compile(client: Client, from: Compilable, { options, ...how }: CompileOptions): Promise<Program> {
    const graph = messageOf(from);
    const request = { graph, device: client.device, ...(options && { options }) };
    const answer = await client.call(KernelService.method.compile, request, how);
    const own = Buffer.from(hash(graph)).toString("hex");
    const said = Buffer.from(answer.graphHash).toString("hex");
    if (own !== said) {
      const message = `the server says the graph's hash is ${said}, it is ${own}`;
      throw new KilnError("INTERNAL", message, { code: "HASH_MISMATCH" });
    }
    return new Program(client, graph, options, answer);
  }

  /** The graph's, 32 bytes. */
  get hash(): Uint8Array {
    return this.compiled.graphHash;
  }

  /** What the program takes and gives. */
  get signature(): Signature {
    if (this.compiled.signature === undefined) {
      throw new KilnError("INTERNAL", "the server compiled the graph and did not say what the program takes");
    }
    return this.compiled.signature;
  }

  /**
   * Runs the program once and brings its results here. A parameter that the program stores to is updated in place if it
   * is memory on the device.
   */
  async run(given: Arguments = [], options: CallOptions = {}): Promise<NdArray[]> {
    const how = until(options);
    const bound = this.bind(given);
    const staged: DeviceBuffer[] = [];
    try {
      for (const [slot, value] of bound) {
        if (value instanceof NdArray && value.bytes.length > inline) {
          staged.push(await this.client.upload(value, how));
          bound.set(slot, staged.at(-1)!);
        }
      }
      const rows = await this.#execute(bound, this.#small, how);
      try {
        const results: NdArray[] = [];
        for (const row of rows) {
          results.push(await this.#fetched(bound, row, how));
        }
        return results;
      } finally {
        await this.#freeNew(bound, rows, options);
      }
    } finally {
      await Promise.all(staged.map((buffer) => buffer.free(regardless(options)).catch(() => {})));
    }
  }

  /**
   * Runs the program once and leaves its results on the device. One that is a parameter after its update is the buffer
   * that was given.
   */
  async runKeep(given: Arguments = [], options: CallOptions = {}): Promise<DeviceBuffer[]> {
    const how = until(options);
    const bound = this.bind(given);
    const rows = await this.#execute(bound, false, how);
    const uploaded: DeviceBuffer[] = [];
    const results: DeviceBuffer[] = [];
    try {
      for (const { value } of rows) {
        if (value.case === "tensor") {
          uploaded.push(await this.client.upload(arrayOf(value.value), how)); // of a parameter that was sent by value
          results.push(uploaded.at(-1)!);
        } else {
          results.push(this.#given(bound, onOneDevice(value)));
        }
      }
      return results;
    } catch (error) {
      await Promise.all(uploaded.map((buffer) => buffer.free(regardless(options)).catch(() => {})));
      await this.#freeNew(bound, rows, options);
      throw error;
    }
  }

  /** @internal Gives arguments their slots. */
  bind(given: Arguments): Map<number, Bound> {
    const bound = new Map<number, Bound>();
    for (const [row, what, value] of this.#rows(given)) {
      if (row === undefined) {
        throw new KilnError("INVALID_ARGUMENT", `the program takes no ${what}`, { code: "UNKNOWN_ARGUMENT" });
      }
      bound.set(row.slot, boundValue(value, what));
    }
    return bound;
  }

  #rows(given: Arguments): [Taken | undefined, string, Argument][] {
    if (isList(given)) {
      return given.map((value, at) => [this.takes[at], `argument ${at} of ${this.takes.length}`, value]);
    }
    const find = (is: (row: Taken) => boolean) => this.takes.find(is);
    if (given instanceof Map) {
      const bySlot: ReadonlyMap<number, Argument> = given;
      return [...bySlot].map(([slot, value]) => [find((row) => row.slot === slot), `slot ${slot}`, value]);
    }
    const byName = given as Readonly<Record<string, Argument>>;
    return Object.entries(byName).map(([name, value]) => [find((row) => row.name === name), `"${name}"`, value]);
  }

  /** @internal */
  request(bound: Map<number, Bound>): ExecuteRequest {
    const rows = [...bound].sort(([a], [b]) => a - b);
    const base = { graphHash: this.hash, device: this.client.device, ...(this.options && { options: this.options }) };
    return create(ExecuteRequestSchema, { ...base, arguments: rows.map(([slot, value]) => argument(slot, value)) });
  }

  /** Sends the graph if, and only if, the server has forgotten it. */
  async #execute(bound: Map<number, Bound>, byValue: boolean, options: CallOptions): Promise<ResultValue[]> {
    const request = this.request(bound);
    request.resultMode = byValue ? ResultMode.RESULT_INLINE : ResultMode.RESULT_HANDLES;
    const { results } = await this.client.call(KernelService.method.execute, request, options).catch((error) => {
      if (!(error instanceof KilnError) || error.code !== "NEED_GRAPH") {
        throw error;
      }
      return this.client.call(KernelService.method.execute, { ...request, graph: this.graph }, options);
    });
    const wanted = this.signature.results.length;
    if (results.length !== wanted) {
      await this.#freeNew(bound, results, options);
      throw new KilnError("INTERNAL", `the server gave ${results.length} results of a program that has ${wanted}`);
    }
    return results;
  }

  /** A result as a buffer: the caller's own, if it is an argument's memory. */
  #given(bound: Map<number, Bound>, said: BufferDescription): DeviceBuffer {
    const own = [...bound.values()].find((value) => value instanceof DeviceBuffer && value.handle === said.handle);
    return (own as DeviceBuffer | undefined) ?? DeviceBuffer.of(this.client, said);
  }

  async #fetched(bound: Map<number, Bound>, { value }: ResultValue, options: CallOptions): Promise<NdArray> {
    return value.case === "tensor" ? arrayOf(value.value) : this.#given(bound, onOneDevice(value)).read(options);
  }

  /** Gives back what a run made, whatever has become of it: the results that are no argument's memory. */
  async #freeNew(bound: Map<number, Bound>, rows: ResultValue[], options: CallOptions): Promise<void> {
    const given = [...bound.values()].map((one) => (one instanceof BufferPart ? one.buffer : one));
    const own = new Set(given.map((one) => (one instanceof DeviceBuffer ? one.handle : undefined)));
    const handles = rows.flatMap(({ value }) => (value.case === "buffer" ? [value.value.handle] : []));
    const handle = [...new Set(handles)].filter((one) => !own.has(one));
    if (handle.length > 0) {
      await this.client.call(BufferService.method.free, { handle }, regardless(options)).catch(() => {});
    }
  }
}

function isList(given: Arguments): given is readonly Argument[] {
  return Array.isArray(given);
}

function boundValue(value: Argument, what: string): Bound {
  if (isTypedArray(value)) {
    return array(value);
  }
  if (typeof value === "bigint" || (typeof value === "number" && Number.isSafeInteger(value))) {
    const whole = BigInt(value);
    if (BigInt.asIntN(64, whole) !== whole) {
      throw badArgument(`${what} is beyond 64 bits: ${value}`);
    }
    return whole;
  }
  if (value instanceof NdArray || value instanceof DeviceBuffer || value instanceof BufferPart) {
    return value;
  }
  throw badArgument(`${what} is neither an array, nor memory on a device, nor a whole number: ${String(value)}`);
}

function argument(slot: number, value: Bound) {
  if (typeof value === "bigint") {
    return create(ArgumentSchema, { slot, value: { case: "integer", value } });
  }
  if (value instanceof NdArray) {
    const tensor = { dtype: dtypes[value.dtype].wire, shape: value.shape.map(BigInt), data: value.bytes };
    return create(ArgumentSchema, { slot, value: { case: "tensor", value: tensor } });
  }
  const ref = value instanceof BufferPart ? value.buffer.ref(value.offset) : value.ref();
  return create(ArgumentSchema, { slot, value: { case: "buffer", value: ref } });
}

// A copy: the message's memory is one that Node shares among small messages.
const arrayOf = ({ dtype, shape, data }: TensorMessage) => new NdArray(stored(dtype), shape.map(Number), data.slice());

function onOneDevice(value: ResultValue["value"]): BufferDescription {
  if (value.case === undefined) {
    throw new KilnError("INTERNAL", "the server gave a result without a value");
  }
  if (value.case !== "buffer") {
    throw badArgument("a result is on several devices: call it by Client.call");
  }
  return value.value;
}
