import { create, toBinary } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ClientDuplexStream, StatusObject } from "@grpc/grpc-js";

import type { SubmitResponse } from "./gen/kiln/v1/kernel_service_pb.js";
import { KernelService, SubmitRequestSchema, SubmitResponseSchema } from "./gen/kiln/v1/kernel_service_pb.js";
import type { Connection } from "./connection.js";
import { decoded } from "./connection.js";
import { KilnError, fromCommand, fromStatus } from "./errors.js";
import type { Session } from "./session.js";

const protocol = 1;
// What may be unconfirmed before a sender waits; an answer is asked for at a quarter of it.
const mostCommands = 1024;
const mostBytes = 16 << 20;
const again = 50; // ms between two attempts to reconnect
const farewell = 5000; // ms

export type Command = NonNullable<MessageInitShape<typeof SubmitRequestSchema>["command"]>;

/** An answer that is on its way. */
interface Asked {
  data: Uint8Array[];
  resolve(data: Uint8Array): void;
  reject(failed: KilnError): void;
}

interface Kept {
  readonly id: bigint;
  readonly bytes: Uint8Array;
}

// How a stream ended that may be taken up again: nobody has said why, so it is the connection that was lost.
const passing = new Set(["UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED"]);

/**
 * The way of a stream's commands to the server. It numbers commands, keeps each until an answer confirms it, and when
 * the connection is lost sends what is kept once more on the next; the server runs each number once. So it ends only
 * with its session, or when the server has not been there for as long as a lease.
 */
export class Link {
  /** Why it has ended. */
  ended: KilnError | undefined;
  readonly #token: Uint8Array;
  #call: ClientDuplexStream<Uint8Array, Uint8Array> | undefined; // none between two connections
  #failure: KilnError | undefined; // the first of a command that nobody waits for
  #closing = false;
  #last = 0n; // the last command's number
  #seen = 0n; // all answers up to this one's have come
  #kept: Kept[] = [];
  #unsent = 0; // of #kept, from here on, not sent on this connection
  #full = false; // the connection takes no more for the moment
  #bytes = 0; // of #kept
  #unasked = { commands: 0, bytes: 0 };
  #lost: number | undefined; // when the connection was
  readonly #asked = new Map<bigint, Asked>();
  readonly #waiting: (() => void)[] = [];

  constructor(
    readonly connection: Connection,
    readonly session: Session,
  ) {
    this.#token = session.token!;
    this.#connect();
  }

  /** Sends a command whose answer nobody waits for. It waits itself while as much is unconfirmed as may be. */
  send(command: Command, tag = ""): Promise<void> {
    return new Promise((resolve, reject) => this.#enter(() => resolve(this.#keep(command, tag)), reject));
  }

  /** Sends a command, and gives the data of its answer. */
  ask(command: Command): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#enter(() => this.#keep(command, "", { data: [], resolve, reject }), reject);
    });
  }

  /** Commands go in the order in which they were given. */
  #enter(keep: () => void, reject: (failed: KilnError) => void) {
    const enter = () => (this.ended === undefined ? keep() : reject(this.ended));
    if (this.ended !== undefined || (this.#hasRoom && this.#waiting.length === 0)) {
      enter();
    } else {
      this.#waiting.push(enter);
    }
  }

  get #hasRoom() {
    return this.#kept.length < mostCommands && this.#bytes < mostBytes;
  }

  #keep(command: Command, tag: string, asked?: Asked) {
    const id = ++this.#last;
    const request = create(SubmitRequestSchema, { commandId: id, acknowledged: this.#seen, tag, command });
    let bytes = toBinary(SubmitRequestSchema, request);
    this.#unasked.commands++;
    this.#unasked.bytes += bytes.length;
    if (asked !== undefined || 4 * this.#unasked.commands > mostCommands || 4 * this.#unasked.bytes > mostBytes) {
      request.answer = true;
      bytes = toBinary(SubmitRequestSchema, request);
      this.#unasked = { commands: 0, bytes: 0 };
    }
    if (asked !== undefined) {
      this.#asked.set(id, asked);
    }
    this.#kept.push({ id, bytes });
    this.#bytes += bytes.length;
    this.#pump();
  }

  /** The first failure of a command that nobody waited for, once; those after it are forgotten. */
  takeFailure(): KilnError | undefined {
    const failed = this.#failure;
    this.#failure = undefined;
    return failed;
  }

  /** Ends the stream when all that was sent has ended, or soon. */
  async close(): Promise<void> {
    const timer = setTimeout(() => this.#end(new KilnError("CANCELLED", "the client was closed")), farewell);
    // The answer of a last command confirms all.
    await this.ask({ case: "fence", value: {} }).catch(() => {});
    clearTimeout(timer);
    this.#closing = true;
    this.#call?.end();
    this.#end(new KilnError("CANCELLED", "the client was closed"));
  }

  // -- what goes out

  /** Begins a stream with the hello; then goes all that is kept. */
  #connect() {
    const call = this.connection.duplex(KernelService.method.submit, this.#token);
    const isOurs = () => this.#call === call;
    this.#call = call;
    this.#unsent = 0;
    this.#full = false;
    for (const asked of this.#asked.values()) {
      asked.data = []; // it comes again, from its beginning
    }
    call.on("data", (bytes: Uint8Array) => isOurs() && this.#read(bytes));
    call.on("drain", () => {
      if (isOurs()) {
        this.#full = false;
        this.#pump();
      }
    });
    call.on("error", () => {}); // the status says it, too
    call.on("status", (status: StatusObject) => isOurs() && this.#lose(status));
    const value = { protocolMin: protocol, protocolMax: protocol, sessionToken: this.#token };
    const hello = create(SubmitRequestSchema, { acknowledged: this.#seen, command: { case: "hello", value } });
    call.write(toBinary(SubmitRequestSchema, hello));
    this.#pump();
  }

  #pump() {
    while (this.#call !== undefined && !this.#full && this.#unsent < this.#kept.length) {
      this.#full = !this.#call.write(this.#kept[this.#unsent++]!.bytes);
    }
  }

  #lose(status: StatusObject) {
    const failed =
      status.code === 0
        ? new KilnError("UNAVAILABLE", "the stream has ended")
        : this.connection.heed(fromStatus(status));
    this.#call = undefined;
    this.#lost ??= performance.now();
    const mayPass = !this.#closing && failed.code === undefined && passing.has(failed.status);
    if (mayPass && performance.now() - this.#lost <= this.session.lease) {
      setTimeout(() => this.ended === undefined && this.#connect(), again);
    } else {
      this.#end(failed);
    }
  }

  #end(failed: KilnError) {
    if (this.ended !== undefined) {
      return;
    }
    this.ended = failed;
    const call = this.#call;
    this.#call = undefined;
    if (!this.#closing) {
      call?.cancel();
    }
    for (const asked of this.#asked.values()) {
      asked.reject(failed);
    }
    this.#asked.clear();
    this.#waiting.splice(0).forEach((enter) => enter());
  }

  // -- what comes in

  #read(bytes: Uint8Array) {
    try {
      this.#take(decoded(SubmitResponseSchema, bytes));
    } catch (error) {
      this.#end(error as KilnError); // of a server that speaks another language
    }
  }

  #take(answer: SubmitResponse) {
    const { commandId: id, event, more } = answer;
    this.#lost = undefined;
    if (event.case === "welcome") {
      this.#giveUp(event.value.answersLost);
      return;
    }
    if (id <= this.#seen) {
      return; // it comes a second time
    }
    const asked = this.#asked.get(id);
    if (event.case === "data") {
      asked?.data.push(event.value);
    }
    if (more) {
      return;
    }
    const failed = event.case === "failed" ? ofCommand(event.value, id) : undefined;
    this.#confirm(id);
    if (asked === undefined) {
      this.#failure ??= failed;
      return;
    }
    this.#asked.delete(id);
    if (failed === undefined) {
      asked.resolve(joined(asked.data));
    } else {
      asked.reject(failed);
    }
  }

  /** All up to this command have ended. */
  #confirm(id: bigint) {
    this.#seen = id;
    const still = this.#kept.findIndex((kept) => kept.id > id);
    const done = this.#kept.splice(0, still < 0 ? this.#kept.length : still);
    this.#bytes -= done.reduce((total, kept) => total + kept.bytes.length, 0);
    this.#unsent = Math.max(0, this.#unsent - done.length);
    while (this.#waiting.length > 0 && this.#hasRoom) {
      this.#waiting.shift()!();
    }
  }

  /** The answers up to `lost` are no longer all there. */
  #giveUp(lost: bigint) {
    for (const [id, asked] of this.#asked) {
      if (id <= lost) {
        this.#asked.delete(id);
        const { address } = this.connection;
        asked.reject(new KilnError("UNAVAILABLE", `the connection to ${address} was lost with an answer: ask again`));
      }
    }
  }
}

function ofCommand(said: { status: Uint8Array; causeCommandId: bigint; tag: string }, id: bigint): KilnError {
  return fromCommand(said.status, said.causeCommandId || id, said.tag);
}

function joined(parts: Uint8Array[]): Uint8Array {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) {
    return only;
  }
  const made = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    made.set(part, at);
    at += part.length;
  }
  return made;
}
