import type { MessageInitShape } from "@bufbuild/protobuf";
import { status as Status } from "@grpc/grpc-js";
import type { ClientDuplexStream, StatusObject } from "@grpc/grpc-js";

import { Answers } from "./answers.js";
import type { SubmitResponse } from "./gen/kiln/v1/kernel_service_pb.js";
import { KernelService, SubmitRequestSchema, SubmitResponseSchema } from "./gen/kiln/v1/kernel_service_pb.js";
import type { Connection } from "./connection.js";
import { decoded, encoded } from "./connection.js";
import { KilnError, closed, fromStatus } from "./errors.js";
import type { Session } from "./session.js";

const protocol = 1;
// What may be unconfirmed before a sender waits; an answer is asked for at a quarter of it.
const mostCommands = 1024;
const mostBytes = 16 << 20;
// Milliseconds between two attempts to reconnect: at first, and at most.
const again = 50;
const mostAgain = 1000;

export type Command = NonNullable<MessageInitShape<typeof SubmitRequestSchema>["command"]>;

/** A command that is not confirmed. */
interface Kept {
  readonly id: bigint;
  readonly isAsked: boolean; // somebody waits for its answer
  readonly bytes: Uint8Array;
}

// How a stream ended that may be taken up again: nobody has said why, so it is the connection that was lost.
const passing = new Set(["UNAVAILABLE", "INTERNAL", "UNKNOWN", "CANCELLED"]);
const isLoss = (failed: KilnError) => failed.code === undefined && passing.has(failed.status);

/**
 * The way of a stream's commands to the server. It numbers commands, keeps each until an answer confirms it, and when
 * the connection is lost sends what is kept once more on the next; the server runs each number once. The same when the
 * caller's token counts no more and the token's file has another. Else it ends, as it does with its session, or when
 * the server has not been there for as long as a lease.
 */
export class Link {
  /** Why it has ended. */
  ended: KilnError | undefined;
  readonly #token: Uint8Array; // of the session
  #shown: string | undefined; // of the client: the bearer's, as the connection was told
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
  #lost: number | undefined; // when the connection was; a new one must bring an answer, if one is due, to count
  #attempts = 0; // to reconnect, since then
  readonly #answers = new Answers();
  readonly #waiting: (() => void)[] = [];

  constructor(
    readonly connection: Connection,
    readonly session: Session,
    before?: Link,
  ) {
    this.#token = session.token!;
    if (before !== undefined && Buffer.compare(before.#token, this.#token) === 0) {
      // The server passes over numbers that it had under this session.
      this.#last = this.#seen = before.#last;
      this.#failure = before.takeFailure();
    }
    session.unanswered = () => this.#leave();
    this.#connect();
  }

  /** Sends a command whose answer nobody waits for. It waits itself while as much is unconfirmed as may be. */
  send(command: Command, tag = ""): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#enter(() => {
        this.#keep(command, tag, false);
        resolve();
      }, reject);
    });
  }

  /** Sends a command, and gives the data of its answer, of so many bytes. */
  ask(command: Command, bytes = 0): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#enter(() => this.#answers.expect(this.#keep(command, "", true), bytes, resolve, reject), reject);
    });
  }

  /** Commands go in the order in which they were given. One that cannot be written is refused, and harms no other. */
  #enter(keep: () => void, reject: (failed: KilnError) => void) {
    const enter = () => {
      if (this.ended !== undefined) {
        return reject(this.ended);
      }
      try {
        keep();
      } catch (error) {
        reject(asKilnError(error));
      }
    };
    if (this.ended !== undefined || (this.#hasRoom && this.#waiting.length === 0)) {
      enter();
    } else {
      this.#waiting.push(enter);
    }
  }

  get #hasRoom() {
    return this.#kept.length < mostCommands && this.#bytes < mostBytes;
  }

  /** Numbers a command and puts it on its way. */
  #keep(command: Command, tag: string, isAsked: boolean): bigint {
    const id = this.#last + 1n;
    const request = { commandId: id, acknowledged: this.#seen, tag, command };
    let bytes = encoded(SubmitRequestSchema, { ...request, answer: isAsked });
    this.#unasked.commands++;
    this.#unasked.bytes += bytes.length;
    if (isAsked || 4 * this.#unasked.commands > mostCommands || 4 * this.#unasked.bytes > mostBytes) {
      bytes = isAsked ? bytes : encoded(SubmitRequestSchema, { ...request, answer: true });
      this.#unasked = { commands: 0, bytes: 0 };
    }
    this.#last = id;
    this.#kept.push({ id, bytes, isAsked });
    this.#bytes += bytes.length;
    this.#pump();
    return id;
  }

  /** The first failure of a command that nobody waited for, once; those after it are forgotten. */
  takeFailure(): KilnError | undefined {
    const failed = this.#failure;
    this.#failure = undefined;
    return failed;
  }

  /** Ends the stream when all that was sent has ended, or at a moment of Date.now()'s. */
  async close(deadline: number): Promise<void> {
    if (this.#kept.length > 0 || this.#waiting.length > 0) {
      const timer = setTimeout(() => this.end(closed()), deadline - Date.now());
      // The answer of a last command confirms all.
      await this.ask({ case: "fence", value: {} }).catch(() => {});
      clearTimeout(timer);
    }
    this.#closing = true;
    this.#call?.end();
    this.end(closed());
  }

  // -- what goes out

  #connect() {
    try {
      this.#begin();
    } catch (error) {
      this.end(asKilnError(error)); // of a token that cannot be sent
    }
  }

  /** Begins a stream with the hello; then goes all that is kept. */
  #begin() {
    this.#shown = this.connection.who.bearer();
    const call = this.connection.duplex(KernelService.method.submit, {}, this.#token);
    const isOurs = () => this.#call === call;
    this.#call = call;
    this.#unsent = 0;
    this.#full = false;
    this.#answers.again();
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
    call.write(encoded(SubmitRequestSchema, { acknowledged: this.#seen, command: { case: "hello", value } }));
    this.#pump();
  }

  #pump() {
    while (this.#call !== undefined && !this.#full && this.#unsent < this.#kept.length) {
      this.#full = !this.#call.write(this.#kept[this.#unsent++]!.bytes);
    }
  }

  #lose(status: StatusObject) {
    const failed =
      status.code === Status.OK
        ? new KilnError("UNAVAILABLE", "the stream has ended")
        : this.connection.heed(fromStatus(status));
    this.#retry(failed);
  }

  /** Or a peer that is silent would be waited for. */
  #leave() {
    const call = this.#call;
    if (call !== undefined) {
      this.#retry(new KilnError("UNAVAILABLE", `the server at ${this.connection.address} does not answer`));
      call.cancel();
    }
  }

  #retry(failed: KilnError) {
    this.#call = undefined;
    this.#lost ??= performance.now();
    const mayPass = !this.#closing && (isLoss(failed) || this.#isKnownAnew(failed));
    if (mayPass && performance.now() - this.#lost <= this.session.lease) {
      const pause = Math.min(mostAgain, again * 2 ** this.#attempts++);
      setTimeout(() => this.ended === undefined && this.#connect(), pause);
    } else {
      this.end(failed);
    }
  }

  /** Whether it ended for a token that counts no more, in place of which there is another by now. */
  #isKnownAnew(failed: KilnError): boolean {
    return failed.code === "NOT_AUTHENTICATED" && this.connection.who.newest() !== this.#shown;
  }

  /** Ends it at once. */
  end(failed: KilnError) {
    if (this.ended !== undefined) {
      return;
    }
    this.ended = failed;
    this.session.unanswered = undefined;
    this.#failure ??= this.#kept.some((kept) => !kept.isAsked) ? failed : undefined;
    const call = this.#call;
    this.#call = undefined;
    if (!this.#closing) {
      call?.cancel();
    }
    this.#answers.giveUp(failed);
    this.#waiting.splice(0).forEach((enter) => enter());
  }

  // -- what comes in

  #read(bytes: Uint8Array) {
    try {
      this.#take(decoded(SubmitResponseSchema, bytes));
    } catch (error) {
      this.end(asKilnError(error)); // of a server that speaks another language
    }
  }

  #take(answer: SubmitResponse) {
    const { commandId: id, event, more } = answer;
    if (event.case === "welcome") {
      return this.#goOn(event.value.answersLost);
    }
    if (id <= this.#seen) {
      return; // it comes a second time
    }
    if (id > this.#last) {
      throw new KilnError("INTERNAL", `the server answers command ${id}, and the last is ${this.#last}`);
    }
    const failed = this.#answers.take(answer);
    this.#failure ??= failed;
    if (!more) {
      this.#lost = undefined;
      this.#attempts = 0;
      this.#confirm(id);
    }
  }

  /** There is a connection again. The answers up to `lost` are no longer all there. */
  #goOn(lost: bigint) {
    if (this.#kept.length === 0) {
      this.#lost = undefined;
    }
    const { address } = this.connection;
    const gone = (what: string) => new KilnError("UNAVAILABLE", `the connection to ${address} was lost with ${what}`);
    if (this.#kept.some((kept) => kept.id <= lost && !kept.isAsked)) {
      this.#failure ??= gone("answers: whether all commands succeeded is not known");
    }
    this.#answers.giveUp(gone("an answer: ask again"), lost);
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
}

const asKilnError = (error: unknown): KilnError =>
  error instanceof KilnError ? error : new KilnError("INTERNAL", String(error), {}, { cause: error });
