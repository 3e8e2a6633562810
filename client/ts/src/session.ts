import { SessionService } from "./gen/kiln/v1/session_service_pb.js";
import type { Connection } from "./connection.js";
import { KilnError } from "./errors.js";
import type { CallOptions } from "./options.js";

// Milliseconds between two renewals.
const leastWait = 250;
const mostWait = 2 ** 31 - 1;

/**
 * What a client makes on the server is owned by its session, whose lease a timer renews. A client that is killed renews
 * no more, and the server then frees what it had. A session that the server does not know any more, since it was
 * started anew, is replaced by another: what the first owned is gone.
 */
export class Session {
  /** Undefined before it is open. */
  token: Uint8Array | undefined;
  /** Milliseconds that the server waits for a renewal. */
  lease = 0;
  /** Called when a renewal gets no answer: the peer may be gone. */
  unanswered: (() => void) | undefined;
  readonly #connection: Connection;
  readonly #wanted: number;
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<void> | undefined;
  readonly #ended = new AbortController();
  #closed = false;

  constructor(connection: Connection, lease: number) {
    this.#connection = connection;
    this.#wanted = Math.max(1, Math.ceil(lease / 1000));
  }

  async open(options: CallOptions): Promise<void> {
    await this.#begin(options);
    this.#later();
  }

  async #begin(options: CallOptions): Promise<void> {
    const opened = await this.#connection.unary(SessionService.method.open, { leaseSeconds: this.#wanted }, options);
    this.token = opened.token;
    this.lease = opened.leaseSeconds * 1000;
  }

  #later() {
    // After a third: one call that is lost leaves time for a second. The timer keeps no program from its end.
    this.#timer = setTimeout(() => this.hasten(), this.#third).unref();
  }

  /** A server may grant any lease; what it says becomes neither a hail of renewals, nor more than a timer can wait. */
  get #third() {
    return Math.min(Math.max(this.lease / 3, leastWait), mostWait);
  }

  /** Looks now whether the server still knows the session. */
  hasten() {
    if (this.#closed || this.#renewing !== undefined || this.token === undefined) {
      return;
    }
    clearTimeout(this.#timer);
    this.#renewing = this.#renew(this.token).finally(() => {
      this.#renewing = undefined;
      if (!this.#closed) {
        this.#later();
      }
    });
  }

  async #renew(token: Uint8Array): Promise<void> {
    const options = { timeout: this.#third, signal: this.#ended.signal };
    try {
      await this.#connection.unary(SessionService.method.renew, { token }, options);
    } catch (error) {
      if (error instanceof KilnError && error.status === "NOT_FOUND") {
        // A server that does not answer may come back: the next renewal tries again.
        await this.#begin(options).catch(() => {});
      } else if (error instanceof KilnError && error.status === "DEADLINE_EXCEEDED") {
        this.#connection.redial();
        this.unanswered?.();
      }
    }
  }

  /** Frees what the session owns, until a moment of Date.now()'s. If that fails, the lease's end does it. */
  async close(deadline: number): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#ended.abort();
    await this.#renewing;
    if (this.token !== undefined) {
      await this.#connection.unary(SessionService.method.close, { token: this.token }, { deadline }).catch(() => {});
    }
  }
}
