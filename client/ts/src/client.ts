import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";

import type { AllocateRequestSchema } from "./gen/kiln/v1/buffer_service_pb.js";
import { BufferService } from "./gen/kiln/v1/buffer_service_pb.js";
import { DeviceService } from "./gen/kiln/v1/device_service_pb.js";
import type { GradientRequestSchema, GradientResponse } from "./gen/kiln/v1/kernel_service_pb.js";
import { KernelService } from "./gen/kiln/v1/kernel_service_pb.js";
import type { Shape } from "./array.js";
import { NdArray, array, byteCount } from "./array.js";
import { DeviceBuffer } from "./buffer.js";
import type { Collective, CollectiveKind } from "./collectives.js";
import { collective } from "./collectives.js";
import { Connection } from "./connection.js";
import type { DType, TypedArray } from "./dtype.js";
import { dtypes } from "./dtype.js";
import { KilnError, badArgument, closed } from "./errors.js";
import type { Credentials } from "./identity.js";
import { Identity } from "./identity.js";
import type { ModelOptions, ModelRow } from "./models.js";
import { Model, indexOf } from "./models.js";
import type { ModelStream } from "./modelstream.js";
import type { CallOptions } from "./options.js";
import { regardless, until } from "./options.js";
import type { Compilable, CompileOptions } from "./program.js";
import { Program, messageOf } from "./program.js";
import type { Step } from "./recording.js";
import { Recording } from "./recording.js";
import { Session } from "./session.js";
import { Stream } from "./stream.js";

/** The version of the protocol that this package speaks. */
const protocol = 1;
// In milliseconds: a lease travels as seconds in 32 bits.
const mostLease = 1000 * 0xffffffff;
// How many milliseconds what is under way has to end when a client is closed.
const farewell = 5000;
// For the server behind a balancer, which is near it.
const near = 2000;

export interface ConnectOptions extends Credentials, CallOptions {
  /** Where graphs are compiled and buffers are; else on the server's first device. */
  device?: string;
  /**
   * For how many milliseconds the server keeps what this client has made when it hears nothing more of it; 30,000
   * otherwise. With 0 what it makes belongs to nobody, and stays until it is freed.
   */
  lease?: number;
}

/** Where something is made that need not be on the client's device. */
export type PlaceOptions = CallOptions & { device?: string | undefined };

/**
 * Connects to the kilnd at an address: "host:port", or "unix:PATH"; without one where KILN_ADDR says, or on this
 * machine. Credentials that are not given are those of the environment. Without a timeout it waits 10 s.
 */
export async function connect(address?: string, options: ConnectOptions = {}): Promise<Client> {
  const lease = options.lease ?? 30_000;
  if (!(lease >= 0 && lease <= mostLease)) {
    throw badArgument(`lease: ${lease} is no number of milliseconds from 0 to ${mostLease}`);
  }
  const target = address || process.env.KILN_ADDR || "localhost:7437";
  const how = until(
    options.timeout === undefined && options.deadline === undefined ? { ...options, timeout: 10_000 } : options,
  );
  return connectTo(target, options, lease, how);
}

/**
 * Connects to the server at an address or, if that is a balancer's, to the one behind it; or, if one is named, to that
 * one alone.
 */
async function connectTo(
  target: string,
  options: ConnectOptions,
  lease: number,
  how: CallOptions,
  named?: string,
): Promise<Client> {
  const identity = new Identity(target, options);
  const connection = new Connection(target, identity);
  try {
    await connection.ready(how);
    const said = await connection.unary(DeviceService.method.list, {}, how);
    if (said.protocolMin > protocol || said.protocolMax < protocol) {
      const speaks = `speaks protocol ${said.protocolMin} to ${said.protocolMax}, this package ${protocol}`;
      throw new KilnError("FAILED_PRECONDITION", `the server at ${target} ${speaks}: take the package of its release`);
    }
    const devices = said.devices.map((row) => row.name);
    if (options.device && !devices.includes(options.device)) {
      const message = `the server at ${target} has no device ${options.device}; it has ${devices.join(", ")}`;
      throw new KilnError("NOT_FOUND", message, { code: "UNKNOWN_DEVICE" });
    }
    if (named !== undefined && said.address !== named) {
      throw new KilnError("UNAVAILABLE", `another server is at ${target}, which calls itself "${said.address}"`);
    }
    if (said.address && said.address !== target && identity.mayFollow(said.address)) {
      const direct = await directly(said.address, options, lease, how);
      if (direct) {
        connection.close();
        return direct;
      }
    }
    if (lease > 0 && said.features.includes("sessions")) {
      connection.session = new Session(connection, lease);
      await connection.session.open(how);
    }
    return new Client(connection, said.features, devices, said.serverVersion, options.device ?? "");
  } catch (error) {
    connection.close();
    throw error;
  }
}

/**
 * A client of the server behind a balancer, for what is made is in that server's memory. Nothing if it cannot be
 * reached so: then the balancer must keep us there.
 */
async function directly(
  address: string,
  options: ConnectOptions,
  lease: number,
  how: CallOptions,
): Promise<Client | undefined> {
  try {
    const patience = Math.min(near, ((how.deadline ?? Infinity) - Date.now()) / 2);
    return await connectTo(address, options, lease, until({ ...how, timeout: patience }), address);
  } catch (error) {
    if (how.signal?.aborted) throw error;
    return undefined;
  }
}

/** A connection to one kilnd, made by `connect`. */
export class Client implements AsyncDisposable {
  #stream: Stream | undefined;
  #closing: Promise<void> | undefined;
  /** @internal Those that have not ended. */ readonly modelStreams = new Set<ModelStream>();

  /** @internal */
  constructor(
    /** @internal */ readonly connection: Connection,
    /** What the server can do, by the names of docs/protocol.md. */
    readonly features: readonly string[],
    readonly devices: readonly string[],
    /** For people: what a server can do, `features` says. */
    readonly serverVersion: string,
    /** Where graphs are compiled and buffers are; "": on the server's first device. */
    readonly device: string,
  ) {}

  /**
   * Makes any call of the protocol: `client.call(DeviceService.method.list, {})`, with the client's credentials,
   * session, retries and errors.
   */
  call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options?: CallOptions,
  ): Promise<MessageShape<O>> {
    return this.connection.unary(method, request, options);
  }

  /** Compiles a graph, or finds it compiled. */
  compile(graph: Compilable, options: CompileOptions = {}): Promise<Program> {
    return Program.compile(this, graph, options);
  }

  /**
   * Asks the server for the graph of a result's gradient with respect to parameters, by their slots. The answer's graph
   * can be compiled, or put into another (Graph.append). The result must have one element, or `more` names a cotangent.
   */
  gradient(
    graph: Compilable,
    wrt: readonly number[],
    more: Omit<MessageInitShape<typeof GradientRequestSchema>, "graph" | "wrtSlot" | "$typeName"> = {},
    options?: CallOptions,
  ): Promise<GradientResponse> {
    const request = { ...more, graph: messageOf(graph), wrtSlot: [...wrt] };
    return this.call(KernelService.method.gradient, request, options);
  }

  /** Makes a buffer of zeros, without a type. */
  async allocate(bytes: number, { device = this.device, ...options }: PlaceOptions = {}): Promise<DeviceBuffer> {
    if (!Number.isSafeInteger(bytes) || bytes < 0) {
      throw badArgument(`allocate: ${bytes} is no number of bytes`);
    }
    return this.#allocated({ device, size: { case: "bytes", value: BigInt(bytes) } }, bytes, options);
  }

  /** Makes a buffer with an array of zeros. */
  async zeros(
    dtype: DType,
    shape: Shape,
    { device = this.device, ...options }: PlaceOptions = {},
  ): Promise<DeviceBuffer> {
    const bytes = byteCount(dtype, shape);
    const value = { dtype: dtypes[dtype].wire, shape: shape.map(BigInt) };
    return this.#allocated({ device, size: { case: "type", value } }, bytes, options);
  }

  async #allocated(
    request: MessageInitShape<typeof AllocateRequestSchema>,
    bytes: number,
    options: CallOptions,
  ): Promise<DeviceBuffer> {
    const { buffer } = await this.call(BufferService.method.allocate, request, options);
    const made = DeviceBuffer.of(this, buffer);
    if (made.bytes !== bytes) {
      throw new KilnError("INTERNAL", `the server made a buffer of ${made.bytes} bytes, not ${bytes}`);
    }
    return made;
  }

  /** Makes a buffer with an array. */
  async upload(what: NdArray | TypedArray, options: PlaceOptions = {}): Promise<DeviceBuffer> {
    const { device, ...given } = options;
    const how = until(given);
    const from = what instanceof NdArray ? what : array(what);
    const made = await this.zeros(from.dtype, from.shape, { ...how, device });
    try {
      if (from.bytes.length > 0) {
        await made.writeBytes(0, from.bytes, how);
      }
      return made;
    } catch (error) {
      await made.free(regardless(given)).catch(() => {});
      throw error;
    }
  }

  /** The client's stream of commands. It is begun when it is first asked for, and anew when its session has ended. */
  stream(): Stream {
    if (this.#closing !== undefined) {
      throw closed();
    }
    const { session } = this.connection;
    if (!this.features.includes("submit") || session?.token === undefined) {
      const message = "the server has no streams of commands under a session";
      throw new KilnError("UNIMPLEMENTED", message, { code: "NOT_IMPLEMENTED" });
    }
    if (this.#stream === undefined || this.#stream.ended) {
      this.#stream = new Stream(this, session, this.#stream);
    }
    return this.#stream;
  }

  /** Records calls of programs that store to their parameters; results that would be new memory have no place here. */
  record(steps: readonly Step[], options: CallOptions = {}): Promise<Recording> {
    return Recording.record(this, steps, options);
  }

  /** Does what several devices do with one tensor together. */
  collective(kind: CollectiveKind, what: Collective): Promise<void> {
    return collective(this, kind, what);
  }

  /** The models in the server's folder, with what has become of each version; for who may administer the server. */
  models(options?: CallOptions): Promise<ModelRow[]> {
    return indexOf(this, options);
  }

  /** Finds a model that the server serves, and asks what it takes and gives. */
  model(name: string, options: ModelOptions = {}): Promise<Model> {
    return Model.find(this, name, options);
  }

  /**
   * Ends the session, with all that was made under it, and the connection; what is under way has 5 s to end. Twice is
   * once. A program with a stream does not end before its client is closed.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const deadline = Date.now() + farewell;
    const soon = deadline - farewell / 5;
    const leaving = [...this.modelStreams].map((one) => one.leave(soon));
    await Promise.all([...leaving, this.#stream?.close(soon)]);
    await this.connection.session?.close(deadline);
    this.connection.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
