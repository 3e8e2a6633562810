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

import { DeviceService } from "./gen/kiln/v1/device_service_pb.js";
import { KilnError, badArgument, closed, fromStatus, givenUp } from "./errors.js";
import type { Identity } from "./identity.js";
import type { CallOptions } from "./options.js";
import { onAbort, orGivenUp, until } from "./options.js";
import { Retries } from "./retries.js";
import type { Session } from "./session.js";

const sessionHeader = "kiln-session-bin";

const channelOptions: grpc.ClientOptions = {
  // A proxy for web pages is no way to a compute server.
  "grpc.enable_http_proxy": 0,
  "grpc.max_receive_message_length": 256 << 20, // a server that has more to say sends chunks
  "grpc.max_send_message_length": -1,
  // Nor does a name's text record say how calls are made.
  "grpc.service_config_disable_resolution": 1,
  // A call on a connection that is dead must end: by a ping as seldom as any server allows. Streams look more often.
  "grpc.keepalive_time_ms": 310_000,
  "grpc.keepalive_timeout_ms": 20_000,
  // Every client has a connection of its own, and makes calls again itself.
  "grpc.use_local_subchannel_pool": 1,
  "grpc.enable_retries": 0,
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 1000,
  // Room for a few chunks on the way.
  "grpc-node.flow_control_window": 8 << 20,
};

const same = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
// No Buffer, whose `slice` shares its memory.
const plain = (bytes: Buffer) => new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
const path = (method: DescMethod) => `/${method.parent.typeName}/${method.name}`;

/**
 * A connection, and what all calls on it have in common: who asks, under which session, what is tried again, and
 * errors.
 */
export class Connection {
  #client: grpc.Client;
  readonly #retries = new Retries();
  session: Session | undefined;
  #closed = false;

  constructor(
    readonly address: string,
    readonly who: Identity,
  ) {
    this.#client = this.#dialed();
  }

  #dialed(): grpc.Client {
    try {
      return new grpc.Client(this.address, this.who.transport, channelOptions);
    } catch (cause) {
      const message = `"${this.address}" is no address of a server, as "host:port" and "unix:PATH" are`;
      throw new KilnError("INVALID_ARGUMENT", message, { code: "BAD_ARGUMENT" }, { cause });
    }
  }

  /** Dials anew for the calls that follow: the peer is silent. */
  redial() {
    if (!this.#closed) {
      this.#client.close(); // when its calls have ended
      this.#client = this.#dialed();
    }
  }

  /** Waits until the server is there. */
  async ready({ signal, deadline = Infinity }: CallOptions): Promise<void> {
    const isReady = await orGivenUp(signal, () => {
      return new Promise<boolean>((resolve) => this.#client.waitForReady(deadline, (error) => resolve(!error)));
    });
    if (!isReady) {
      const why = await this.#whyNot();
      throw new KilnError("UNAVAILABLE", `no server answers at ${this.address}${why}: is kilnd running there?`);
    }
  }

  /** What keeps the connection from being made, which gRPC tells a call alone. */
  async #whyNot(): Promise<string> {
    const { list } = DeviceService.method;
    const soon = { deadline: Date.now() + 200 };
    const said = await new Promise<grpc.ServiceError | null>((resolve) => {
      this.#client.makeUnaryRequest(path(list), same, plain, new Uint8Array(), new grpc.Metadata(), soon, resolve);
    });
    return said?.code === grpc.status.UNAVAILABLE ? ` (${said.details})` : "";
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
      throw closed();
    }
  }

  #metadata(method: DescMethod, traceparent: string | undefined, session = this.session?.token): grpc.Metadata {
    const made = new grpc.Metadata();
    const token = this.who.bearer();
    if (token !== undefined) {
      setText(made, "authorization", `Bearer ${token}`, "the token");
    }
    if (session !== undefined && method.parent.name !== "SessionService") {
      made.set(sessionHeader, Buffer.from(session));
    }
    if (traceparent !== undefined) {
      setText(made, "traceparent", traceparent, "traceparent");
    }
    return made;
  }

  /** Makes one call with one answer; `once`: never again, whatever it fails by. */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    { once = false, ...options }: CallOptions & { once?: boolean } = {},
  ): Promise<MessageShape<O>> {
    const { signal, deadline, traceparent } = until(options);
    const bytes = encoded(method.input, request);
    this.#retries.earn();
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await this.#once(method, bytes, signal, deadline, traceparent);
        return decoded(method.output, answer);
      } catch (error) {
        const pause =
          error instanceof KilnError && !once ? this.#retries.wait(method, error, attempt, deadline) : undefined;
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
      return this.#client.makeUnaryRequest(path(method), same, plain, bytes, metadata, deadlineOf(deadline), callback);
    });
  }

  /** Waits for the one answer of a call, which is given up when the signal says so. */
  #answered<C extends { cancel(): void }>(signal: AbortSignal | undefined, begin: Begin<C>): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#check(signal);
      const call = begin((error, answer) => {
        forget();
        if (error === null) {
          resolve(answer!);
        } else {
          reject(signal?.aborted ? givenUp(signal) : this.heed(fromStatus(error)));
        }
      });
      const forget = onAbort(signal, () => call.cancel());
    });
  }

  /** Sends messages, each when there is room for it, and gives the answer. */
  async clientStream(method: DescMethod, messages: Iterable<Uint8Array>, options: CallOptions): Promise<Uint8Array> {
    const { signal, deadline, traceparent } = until(options);
    let writer: grpc.ClientWritableStream<Uint8Array> | undefined;
    const answer = this.#answered(signal, (callback) => {
      const metadata = this.#metadata(method, traceparent);
      writer = this.#client.makeClientStreamRequest(
        path(method),
        same,
        plain,
        metadata,
        deadlineOf(deadline),
        callback,
      );
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
    const bytes = encoded(method.input, request);
    const metadata = this.#metadata(method, traceparent);
    const call = this.#client.makeServerStreamRequest(path(method), same, plain, bytes, metadata, deadlineOf(deadline));
    const forget = onAbort(signal, () => call.cancel());
    try {
      for await (const message of call) {
        yield message as Uint8Array;
      }
    } catch (error) {
      throw signal?.aborted ? givenUp(signal) : this.heed(fromStatus(error as grpc.ServiceError));
    } finally {
      forget();
      call.on("error", () => {}); // of a call that its reader gave up
      call.cancel();
    }
  }

  /** Begins a stream in both directions, under a session's token: by default that of now. Its caller heeds `signal`. */
  duplex(
    method: DescMethod,
    { signal, deadline, traceparent }: CallOptions = {},
    session?: Uint8Array,
  ): grpc.ClientDuplexStream<Uint8Array, Uint8Array> {
    this.#check(signal);
    const metadata = this.#metadata(method, traceparent, session);
    return this.#client.makeBidiStreamRequest(path(method), same, plain, metadata, deadlineOf(deadline));
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

/** A message's bytes; an error for values that its fields do not hold. */
export function encoded<S extends DescMessage>(schema: S, message: MessageInitShape<S>): Uint8Array {
  try {
    return toBinary(schema, create(schema, message));
  } catch (cause) {
    const { message: why } = cause as Error;
    throw new KilnError("INVALID_ARGUMENT", `no ${schema.name}: ${why}`, { code: "BAD_ARGUMENT" }, { cause });
  }
}

function setText(metadata: grpc.Metadata, key: string, value: string, what: string) {
  try {
    metadata.set(key, value);
  } catch {
    throw badArgument(`${what} has characters, as a line's end, that no header may have`);
  }
}

type Begin<C> = (callback: (error: grpc.ServiceError | null, answer?: Uint8Array) => void) => C;

const deadlineOf = (deadline: number | undefined): grpc.CallOptions => (deadline === undefined ? {} : { deadline });
