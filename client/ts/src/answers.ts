import type { SubmitResponse } from "./gen/kiln/v1/kernel_service_pb.js";
import { KilnError, fromCommand } from "./errors.js";

/** An answer that is on its way. */
interface Asked {
  /** How many bytes of data it has; who sends another number is no server to believe. */
  readonly bytes: number;
  data: Uint8Array[];
  taken: number;
  resolve(data: Uint8Array): void;
  reject(failed: KilnError): void;
}

/** The answers of a stream's commands that somebody waits for, in the order in which they come: that of their ids. */
export class Answers {
  readonly #asked = new Map<bigint, Asked>();

  has(id: bigint): boolean {
    return this.#asked.has(id);
  }

  expect(id: bigint, bytes: number, resolve: Asked["resolve"], reject: Asked["reject"]) {
    this.#asked.set(id, { bytes, data: [], taken: 0, resolve, reject });
  }

  /** On another connection all come from their beginning. */
  again() {
    for (const asked of this.#asked.values()) {
      [asked.data, asked.taken] = [[], 0];
    }
  }

  /** Takes an answer, or a piece of one; of a command that nobody waits for, it gives the failure. */
  take({ commandId: id, event, more }: SubmitResponse): KilnError | undefined {
    const [first] = this.#asked.keys();
    if (first !== undefined && first < id) {
      throw new KilnError("INTERNAL", `the server answers command ${id}, and has not answered ${first}`);
    }
    const asked = this.#asked.get(id);
    if (asked !== undefined && event.case === "data") {
      asked.taken += event.value.length;
      if (asked.taken > asked.bytes) {
        throw new KilnError("INTERNAL", `the server sends more than the ${asked.bytes} bytes of command ${id}`);
      }
      asked.data.push(event.value);
    }
    if (more) {
      return undefined;
    }
    const failed = event.case === "failed" ? ofCommand(event.value, id) : undefined;
    if (asked === undefined) {
      return failed;
    }
    if (failed === undefined && asked.taken < asked.bytes) {
      throw new KilnError("INTERNAL", `the server sent ${asked.taken} bytes of command ${id}, not ${asked.bytes}`);
    }
    this.#asked.delete(id);
    if (failed === undefined) {
      asked.resolve(joined(asked));
    } else {
      asked.reject(failed);
    }
    return undefined;
  }

  /** No answer of these comes any more. */
  giveUp(failed: KilnError, upTo?: bigint) {
    for (const [id, asked] of this.#asked) {
      if (upTo === undefined || id <= upTo) {
        this.#asked.delete(id);
        asked.reject(failed);
      }
    }
  }
}

function ofCommand(said: { status: Uint8Array; causeCommandId: bigint; tag: string }, id: bigint): KilnError {
  return fromCommand(said.status, said.causeCommandId || id, said.tag);
}

function joined({ data, taken }: Asked): Uint8Array {
  const made = new Uint8Array(taken);
  let at = 0;
  for (const part of data) {
    made.set(part, at);
    at += part.length;
  }
  return made;
}
