import { create, toBinary } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";

import type { BufferDescription } from "./gen/kiln/v1/buffer_service_pb.js";
import { BufferService, ReadResponseSchema, WriteRequestSchema } from "./gen/kiln/v1/buffer_service_pb.js";
import type { BufferRefSchema } from "./gen/kiln/v1/tensor_pb.js";
import type { Shape } from "./array.js";
import { NdArray, byteCount } from "./array.js";
import type { Client } from "./client.js";
import type { CallOptions } from "./options.js";
import { decoded } from "./connection.js";
import type { DType } from "./dtype.js";
import { fromWire } from "./dtype.js";
import { KilnError, badArgument } from "./errors.js";

const chunk = 1 << 20;

/** Memory on a device. It lives until `free`, or until its client is closed: no collector gives it back. */
export class DeviceBuffer {
  /** @internal */ freed = false;

  constructor(
    readonly client: Client,
    /** The server's name for it. */
    readonly handle: bigint,
    readonly bytes: number,
    /** What it holds; undefined where that is not known. */
    readonly dtype: DType | undefined,
    readonly shape: Shape,
    readonly device: string,
  ) {}

  /** @internal */
  static of(client: Client, said: BufferDescription | undefined): DeviceBuffer {
    if (said === undefined) {
      throw new KilnError("INTERNAL", "the server made a buffer and did not say which");
    }
    const [bytes, shape, dtype] = [Number(said.bytes), said.shape.map(Number), fromWire(said.dtype)];
    const wanted = dtype === undefined ? bytes : byteCount(dtype, shape);
    if (!Number.isSafeInteger(bytes) || bytes !== wanted) {
      const type = dtype === undefined ? "" : ` for ${dtype} [${shape}]`;
      throw new KilnError("INTERNAL", `the server says that a buffer has ${said.bytes} bytes${type}`);
    }
    return new DeviceBuffer(client, said.handle, bytes, dtype, shape, said.device);
  }

  /** The part of the buffer from a byte on, as an argument of programs. */
  at(offset: number): BufferPart {
    this.inside(offset, 0);
    return new BufferPart(this, offset);
  }

  /** @internal */
  ref(offset = 0): MessageInitShape<typeof BufferRefSchema> {
    return { handle: this.handle, offset: BigInt(offset) };
  }

  /** Puts bytes at an offset, in chunks: any number of them. */
  async writeBytes(offset: number, data: Uint8Array, options: CallOptions = {}): Promise<void> {
    this.inside(offset, data.length);
    const value = { buffer: this.ref(offset), bytes: BigInt(data.length) };
    const header = toBinary(WriteRequestSchema, create(WriteRequestSchema, { part: { case: "header", value } }));
    await this.client.connection.clientStream(BufferService.method.write, writeRequests(header, data), options);
  }

  /** The bytes from an offset on, chunk by chunk as they come, of which one is here at a time. */
  async *chunks(offset = 0, bytes = this.bytes - offset, options: CallOptions = {}): AsyncGenerator<Uint8Array, void> {
    this.inside(offset, bytes);
    if (bytes === 0) {
      return;
    }
    const request = { buffer: this.ref(offset), bytes: BigInt(bytes) };
    let taken = 0;
    for await (const message of this.client.connection.serverStream(BufferService.method.read, request, options)) {
      const part = decoded(ReadResponseSchema, message).chunk;
      taken += part.length;
      if (taken > bytes) {
        break;
      }
      yield part;
    }
    if (taken !== bytes) {
      throw new KilnError("INTERNAL", `the server sent ${taken} bytes, not ${bytes}`);
    }
  }

  /** The bytes from an offset on. */
  async readBytes(offset: number, bytes: number, options: CallOptions = {}): Promise<Uint8Array> {
    this.inside(offset, bytes);
    const made = room(bytes);
    let at = 0;
    for await (const part of this.chunks(offset, bytes, options)) {
      made.set(part, at);
      at += part.length;
    }
    return made;
  }

  /** Brings the buffer's array here; of a buffer without a type, its bytes as uint8. */
  async read(options: CallOptions = {}): Promise<NdArray> {
    const bytes = await this.readBytes(0, this.bytes, options);
    return this.dtype === undefined
      ? new NdArray("uint8", [this.bytes], bytes)
      : new NdArray(this.dtype, this.shape, bytes);
  }

  /** Repeats a pattern of 1, 2, 4 or 8 bytes all over the buffer. */
  async fill(pattern: Uint8Array, options: CallOptions = {}): Promise<void> {
    await this.client.call(BufferService.method.fill, { buffer: this.ref(), pattern }, options);
  }

  /** Copies the whole of another buffer to the beginning of this. */
  async copyFrom(source: DeviceBuffer, options: CallOptions = {}): Promise<void> {
    const request = { from: source.ref(), to: this.ref(), bytes: BigInt(source.bytes) };
    await this.client.call(BufferService.method.copy, request, options);
  }

  /** Gives it back. What runs may still use it. Twice is once. */
  async free(options: CallOptions = {}): Promise<void> {
    if (!this.freed) {
      this.freed = true;
      try {
        await this.client.call(BufferService.method.free, { handle: [this.handle] }, options);
      } catch (error) {
        this.freed = false; // the caller may try again
        throw error;
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.free();
  }

  /** @internal An error for what is no part of the buffer. */
  inside(offset: number, count: number) {
    if (![offset, count].every((value) => Number.isSafeInteger(value) && value >= 0)) {
      throw badArgument(`${count} bytes from ${offset} on: both are whole numbers of 0 or more`);
    }
    if (offset + count > this.bytes) {
      const message = `bytes ${offset} to ${offset + count} of a buffer of ${this.bytes}`;
      throw new KilnError("OUT_OF_RANGE", message, { code: "OUT_OF_BOUNDS" });
    }
  }
}

/** The part of a buffer from a byte on. */
export class BufferPart {
  constructor(
    readonly buffer: DeviceBuffer,
    readonly offset: number,
  ) {}
}

function room(bytes: number): Uint8Array {
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    const message = `${bytes} bytes are more than an array holds here: read them by chunks()`;
    throw new KilnError("RESOURCE_EXHAUSTED", message, {}, { cause });
  }
}

/**
 * Chunks of data pass protobuf by, so that each byte is copied once here: a WriteRequest is a tag and a length before
 * them.
 */
function* writeRequests(header: Uint8Array, data: Uint8Array): Generator<Uint8Array> {
  yield header;
  for (let at = 0; at < data.length; at += chunk) {
    const part = data.subarray(at, at + chunk);
    const head = [0x12]; // WriteRequest.chunk = 2
    for (let length = part.length; ; length >>>= 7) {
      head.push(length > 0x7f ? (length & 0x7f) | 0x80 : length);
      if (length <= 0x7f) {
        break;
      }
    }
    const message = new Uint8Array(head.length + part.length);
    message.set(head);
    message.set(part, head.length);
    yield message;
  }
}
