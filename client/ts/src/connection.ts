import { setTimeout as sleep } from "node:timers/promises";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type {
  DescMessage,
  DescMethod,
  DescMethodServerStreaming,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";

import { KilnError, fromStatus, givenUp } from "./errors.js";
import type { Identity } from "./identity.js";
import { Retries } from "./retries.js";
import type { Session } from "./session.js";

/** Of every call that talks to the server. What is given up with `signal` ends on the server, too. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Milliseconds that the whole may take. */
  timeout?: number | undefined;
  /** The same as a moment, as Date.now() counts. */
  deadline?: number | undefined;
  /** The trace that the call is part of, as the W3C has it ("00-…-…-01"). */
  traceparent?: string | undefined;
}

/** For what makes several calls: one deadline for them all. */
export function until(options: CallOptions): CallOptions {
  const { timeout, deadline, ...rest } = options;
  const moment = timeout === undefined ? deadline : Math.min(deadline ?? Infinity, Date.now() + timeout);
  return { ...rest, deadline: moment };
}

/** What must happen although its caller gave up. */
export const regardless = ({ traceparent }: CallOptions): CallOptions => ({ traceparent, timeout: 10_000 });

const sessionHeader = "kiln-session-bin";

const channelOptions: grpc.ClientOptions = {
  // A proxy for web pages is no way to a compute server.
  "grpc.enable_http_proxy": 0,
  "grpc.max_receive_message_length": -1,
  "grpc.max_send_message_length": -1,
  // Every client has a connection of its own, and makes calls again itself.
  "grpc.use_local_subchannel_pool": 1,
  "grpc.enable_retries": 0,
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 1000,
  // Room for a few chunks on the way.
  "grpc-node.flow_control_window": 8 << 20,
};

const same = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
const asIs = (bytes: Buffer): Uint8Array => bytes;
const path = (method: DescMethod) => `/${method.parent.typeName}/${method.name}`;

/**
 * A connection, and what all calls on it have in common: who asks, under which session, what is tried again, and
 * errors.
 */
export class Connection {
  readonly #client: grpc.Client;
  readonly #who: Identity;
  readonly #retries = new Retries();
  session: Session | undefined;
  #closed = false;

  constructor(
    readonly address: string,
    who: Identity,
  ) {
    this.#who = who;
    this.#client = new grpc.Client(address, who.transport, channelOptions);
  }

  /** Waits until the server is there. */
  async ready({ signal, deadline = Infinity }: CallOptions): Promise<void> {
    await orGivenUp(signal, () => {
      return new Promise<void>((resolve, reject) => {
        this.#client.waitForReady(deadline, (error) => (error ? reject(this.#silent()) : resolve()));
      });
    });
  }

  #silent() {
    return new KilnError("UNAVAILABLE", `no server answers at ${this.address}: is kilnd running there?`);
  }

  close() {
    this.#closed = true;
    this.#client.close();
  }

  /** What is given up, and what a closed client is asked, is not begun. */
  #check(signal?: AbortSignal) {
    if (signal?.aborted) {
      throw givenUp(signal);
    }
    if (this.#closed) {
      throw new KilnError("CANCELLED", "the client was closed");
    }
  }

  #metadata(method: DescMethod, traceparent: string | undefined, session = this.session?.token): grpc.Metadata {
    const made = new grpc.Metadata();
    const token = this.#who.bearer();
    if (token !== undefined) {
      made.set("authorization", `Bearer ${token}`);
    }
    if (session !== undefined && method.parent.name !== "SessionService") {
      made.set(sessionHeader, Buffer.from(session));
    }
    if (traceparent !== undefined) {
      made.set("traceparent", traceparent);
    }
    return made;
  }

  /** Makes one call with one answer. */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions = {},
  ): Promise<MessageShape<O>> {
    const { signal, deadline, traceparent } = until(options);
    const bytes = toBinary(method.input, create(method.input, request));
    this.#retries.earn();
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await this.#once(method, bytes, signal, deadline, traceparent);
        return decoded(method.output, answer);
      } catch (error) {
        const pause = error instanceof KilnError ? this.#retries.wait(method, error, attempt, deadline) : undefined;
        if (pause === undefined) {
          throw error;
        }
        await orGivenUp(signal, () => sleep(pause));
      }
    }
  }

  #once(method: DescMethod, bytes: Uint8Array, signal?: AbortSignal, deadline?: number, trace?: string) {
    return this.#answered(signal, (callback) => {
      const metadata = this.#metadata(method, trace);
      return this.#client.makeUnaryRequest(path(method), same, asIs, bytes, metadata, deadlineOf(deadline), callback);
    });
  }

  /** Waits for the one answer of a call, which is given up when the signal says so. */
  #answered<C extends { cancel(): void }>(signal: AbortSignal | undefined, begin: Begin<C>): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#check(signal);
      const call = begin((error, answer) => {
        signal?.removeEventListener("abort", giveUp);
        if (error === null) {
          resolve(answer!);
        } else {
          reject(signal?.aborted ? givenUp(signal) : this.heed(fromStatus(error)));
        }
      });
      const giveUp = () => call.cancel();
      signal?.addEventListener("abort", giveUp, { once: true });
    });
  }

  /** Sends messages, each when there is room for it, and gives the answer. */
  async clientStream(method: DescMethod, messages: Iterable<Uint8Array>, options: CallOptions): Promise<Uint8Array> {
    const { signal, deadline, traceparent } = until(options);
    let writer: grpc.ClientWritableStream<Uint8Array> | undefined;
    const answer = this.#answered(signal, (callback) => {
      const metadata = this.#metadata(method, traceparent);
      writer = this.#client.makeClientStreamRequest(path(method), same, asIs, metadata, deadlineOf(deadline), callback);
      return writer;
    });
    let ended = false;
    const end = answer.then(Boolean, () => true).then(() => (ended = true));
    for (const message of messages) {
      if (ended || writer === undefined) {
        break; // the answer says why
      }
      const sent = new Promise<void>((resolve) => writer!.write(message, () => resolve()));
      await Promise.race([sent, end]);
    }
    writer?.end();
    return answer;
  }

  /** The messages of an answer, as they come; the next is taken from the connection when the one before was used. */
  async *serverStream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const { signal, deadline, traceparent } = until(options);
    this.#check(signal);
    const bytes = toBinary(method.input, create(method.input, request));
    const metadata = this.#metadata(method, traceparent);
    const call = this.#client.makeServerStreamRequest(path(method), same, asIs, bytes, metadata, deadlineOf(deadline));
    const giveUp = () => call.cancel();
    signal?.addEventListener("abort", giveUp, { once: true });
    try {
      for await (const message of call) {
        yield message as Uint8Array;
      }
    } catch (error) {
      throw signal?.aborted ? givenUp(signal) : this.heed(fromStatus(error as grpc.ServiceError));
    } finally {
      signal?.removeEventListener("abort", giveUp);
      call.on("error", () => {}); // of a call that its reader gave up
      call.cancel();
    }
  }

  /** Begins a stream in both directions, under a session's token. */
  duplex(method: DescMethod, session: Uint8Array): grpc.ClientDuplexStream<Uint8Array, Uint8Array> {
    return this.#client.makeBidiStreamRequest(path(method), same, asIs, this.#metadata(method, undefined, session));
  }

  /** Lets the session know if it is gone. */
  heed(failed: KilnError): KilnError {
    if ((failed.field === sessionHeader && failed.status === "NOT_FOUND") || failed.code === "SESSION_EXPIRED") {
      this.session?.hasten();
    }
    return failed;
  }
}

/** A message of the server's; an error for what is none. */
export function decoded<S extends DescMessage>(schema: S, bytes: Uint8Array): MessageShape<S> {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    throw new KilnError("INTERNAL", `what came is no ${schema.name}`, {}, { cause });
  }
}

type Begin<C> = (callback: (error: grpc.ServiceError | null, answer?: Uint8Array) => void) => C;

const deadlineOf = (deadline: number | undefined): grpc.CallOptions => (deadline === undefined ? {} : { deadline });

/** What `wait` gives, unless the signal comes first. */
export async function orGivenUp<T>(signal: AbortSignal | undefined, wait: () => Promise<T>): Promise<T> {
  if (signal === undefined) {
    return wait();
  }
  if (signal.aborted) {
    throw givenUp(signal);
  }
  let giveUp = () => {};
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => reject(givenUp(signal));
    signal.addEventListener("abort", giveUp, { once: true });
  });
  try {
    return await Promise.race([wait(), aborted]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}
