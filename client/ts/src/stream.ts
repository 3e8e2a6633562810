import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";

import { BufferDescriptionSchema } from "./gen/kiln/v1/buffer_service_pb.js";
import type { ExecuteCommandSchema } from "./gen/kiln/v1/kernel_service_pb.js";
import type { Shape } from "./array.js";
import { NdArray, array, byteCount } from "./array.js";
import { BufferPart, DeviceBuffer } from "./buffer.js";
import type { Client } from "./client.js";
import type { CallOptions } from "./options.js";
import { orGivenUp } from "./options.js";
import type { DType, TypedArray } from "./dtype.js";
import { dtypes } from "./dtype.js";
import { KilnError, badArgument } from "./errors.js";
import { Link } from "./link.js";
import type { Arguments, Program } from "./program.js";
import type { Session } from "./session.js";

// A written piece: as much as makes no other command wait long.
const piece = 256 << 10;
// A server that had a program a moment ago has it still; for one that was not used for longer (ms), the graph goes
// along.
const known = 10_000;

/**
 * Takes commands without waiting for the server: any number in one round trip. They take effect in the order of their
 * calls, awaited or not. What they make has a name at once, so that the next command can use it; buffers are the
 * client's like any others. What a promise of a command waits for is room, which there is but where very much is under
 * way; `read` and `fence` wait for the server.
 *
 * A command that fails poisons what it would have made or written: what uses that is told the first failure. `fence`
 * tells the first failure of a command whose answer nobody waits for, and forgets it; a mistake in a command's
 * arguments is told by its promise alone. Calls that are no commands know
 * nothing of what is under way: fence first.
 *
 * A connection that is lost is made again for as long as the lease lasts, and what may not have arrived is sent again;
 * each command runs once.
 */
export class Stream {
  readonly #link: Link;
  readonly #known = new Map<string, number>(); // by hash: until when the server is taken to have a program
  // From anywhere on, so that another client's handle is none of ours.
  #name = (1n << 62n) + (randomBytes(8).readBigUInt64LE() >> 3n);

  /** @internal */
  constructor(
    readonly client: Client,
    session: Session,
    before?: Stream,
  ) {
    this.#link = new Link(client.connection, session, before && before.#link);
  }

  /** @internal */
  get ended(): boolean {
    return this.#link.ended !== undefined;
  }

  /** Makes a buffer with an array of zeros. */
  zeros(dtype: DType, shape: Shape): Promise<DeviceBuffer> {
    return begun(async () => {
      const [made, sent] = this.#zeros(dtype, shape);
      await sent;
      return made;
    });
  }

  #zeros(dtype: DType, shape: Shape): [DeviceBuffer, Promise<void>] {
    const bytes = byteCount(dtype, shape);
    const { device } = this.client;
    const made = new DeviceBuffer(this.client, ++this.#name, bytes, dtype, shape, device);
    const type = { dtype: dtypes[dtype].wire, shape: shape.map(BigInt) };
    return [made, this.#link.send({ case: "allocate", value: { handle: made.handle, device, type } })];
  }

  /** Makes a buffer with an array. */
  upload(what: NdArray | TypedArray): Promise<DeviceBuffer> {
    return begun(async () => {
      const from = what instanceof NdArray ? what : array(what);
      const [made, sent] = this.#zeros(from.dtype, from.shape);
      await Promise.all([sent, this.writeBytes(made, 0, from.bytes)]);
      return made;
    });
  }

  /** Puts bytes at an offset, in pieces. They must stay as they are until the promise is kept. */
  writeBytes(to: DeviceBuffer, offset: number, data: Uint8Array): Promise<void> {
    return begun(async () => {
      to.inside(offset, data.length);
      const sent: Promise<void>[] = [];
      for (let at = 0; at < data.length; at += piece) {
        const value = { buffer: to.ref(offset + at), data: data.subarray(at, at + piece) };
        sent.push(this.#link.send({ case: "write", value }));
      }
      await Promise.all(sent);
    });
  }

  /** Gives the array in a buffer. After `signal` it waits no longer; the server still carries the read out. */
  read(from: DeviceBuffer, { signal }: Pick<CallOptions, "signal"> = {}): Promise<NdArray> {
    return begun(async () => {
      const value = { buffer: from.ref(), bytes: BigInt(from.bytes) };
      const bytes = await orGivenUp(signal, () => this.#link.ask({ case: "read", value }, from.bytes));
      return from.dtype === undefined
        ? new NdArray("uint8", [from.bytes], bytes)
        : new NdArray(from.dtype, from.shape, bytes);
    });
  }

  /** Runs a program, and gives its results as buffers. The tag comes back with its failure. */
  run(program: Program, given: Arguments = [], tag = ""): Promise<DeviceBuffer[]> {
    return begun(async () => {
      const bound = program.bind(given);
      if (program.compiled.resultLayouts.length > 0) {
        throw badArgument("a program for several devices: call it by Client.call");
      }
      const rows = program.signature.results;
      const results = rows.map((row) => this.#result(program, bound, row));
      const command: MessageInitShape<typeof ExecuteCommandSchema> = {
        request: { ...program.request(bound), ...this.#graph(program) },
        resultHandle: rows.map((row, at) => (row.aliases === undefined ? results[at]!.handle : 0n)),
      };
      await this.#link.send({ case: "execute", value: command }, tag);
      return results;
    });
  }

  /** What a result will be: new memory, or the parameter that it is after its update. */
  #result(program: Program, bound: Bound, { symbolic, aliases, shape, dtype, bytes }: Result): DeviceBuffer {
    if (symbolic.length > 0) {
      throw badArgument("a result's size depends on a variable: Program.runKeep gives it");
    }
    if (aliases === undefined) {
      const { client } = this;
      const description = { handle: ++this.#name, bytes, dtype, shape, device: client.device };
      return DeviceBuffer.of(client, create(BufferDescriptionSchema, description));
    }
    const parameter = program.signature.parameters[aliases];
    if (parameter === undefined) {
      throw new KilnError("INTERNAL", `the server says that a result is parameter ${aliases}, which is not there`);
    }
    const own = bound.get(parameter.slot);
    if (own instanceof DeviceBuffer || own instanceof BufferPart) {
      return own instanceof DeviceBuffer ? own : own.buffer;
    }
    throw badArgument("the program updates a parameter that is given by value: upload it");
  }

  #graph(program: Program) {
    const key = Buffer.from(program.hash).toString("hex");
    if (performance.now() < (this.#known.get(key) ?? -Infinity)) {
      return {};
    }
    this.#known.set(key, performance.now() + known);
    return { graph: program.graph };
  }

  /** Gives buffers back. What was sent before still has their memory. */
  free(...buffers: DeviceBuffer[]): Promise<void> {
    return begun(async () => {
      const still = [...new Set(buffers)].filter((buffer) => !buffer.freed);
      still.forEach((buffer) => (buffer.freed = true));
      try {
        await this.#link.send({ case: "free", value: { handle: still.map((buffer) => buffer.handle) } });
      } catch (error) {
        still.forEach((buffer) => (buffer.freed = false)); // it did not go
        throw error;
      }
    });
  }

  /** Waits until all before it has ended, and tells the first failure that nobody was told. */
  fence({ signal }: Pick<CallOptions, "signal"> = {}): Promise<void> {
    return begun(async () => {
      const fenced = this.#link.ask({ case: "fence", value: {} }).then(
        () => undefined,
        (ended: KilnError) => ended,
      );
      const ended = await orGivenUp(signal, () => fenced);
      const failed = this.#link.takeFailure() ?? ended;
      if (failed !== undefined) {
        throw failed;
      }
    });
  }

  /** @internal */
  close(deadline: number): Promise<void> {
    return this.ended ? Promise.resolve() : this.#link.close(deadline);
  }
}

type Bound = ReturnType<Program["bind"]>;
type Result = Program["signature"]["results"][number];

/** A command's promise. Nobody need await it: that the stream has ended, `fence` tells. */
function begun<T>(command: () => Promise<T>): Promise<T> {
  const promise = command();
  promise.catch(() => {});
  return promise;
}
