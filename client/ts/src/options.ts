import { setMaxListeners } from "node:events";

import { badArgument, givenUp } from "./errors.js";

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
  if (Number.isNaN(timeout) || Number.isNaN(deadline)) {
    throw badArgument("timeout and deadline are numbers of milliseconds, not NaN");
  }
  const moment = timeout === undefined ? deadline : Math.min(deadline ?? Infinity, Date.now() + timeout);
  return { ...rest, deadline: moment };
}

/** What must happen although its caller gave up. */
export const regardless = ({ traceparent }: CallOptions): CallOptions => ({ traceparent, timeout: 10_000 });

/** What `wait` gives, unless the signal comes first. */
export async function orGivenUp<T>(signal: AbortSignal | undefined, wait: () => Promise<T>): Promise<T> {
  if (signal?.aborted) {
    throw givenUp(signal);
  }
  let forget = () => {};
  const aborted = new Promise<never>((_, reject) => {
    forget = onAbort(signal, () => reject(givenUp(signal!)));
  });
  try {
    return await Promise.race([wait(), aborted]);
  } finally {
    forget();
  }
}

/** Calls back when the signal comes, until what it gives is called. */
export function onAbort(signal: AbortSignal | undefined, then: () => void): () => void {
  if (signal === undefined) {
    return () => {};
  }
  setMaxListeners(0, signal); // as many calls as there are may have one signal
  signal.addEventListener("abort", then, { once: true });
  return () => signal.removeEventListener("abort", then);
}
