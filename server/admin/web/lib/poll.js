// Asks the server again and again. One that is gone is asked until it is back.

const EVERY_MS = 1000;
const LONGEST_WAIT_MS = 5000;
const PATIENCE_MS = 10000;

// A page of the port as JSON; an Error that says what is wrong.
export async function get(path) {
  const control = new AbortController();
  const timer = setTimeout(() => control.abort(), PATIENCE_MS);
  try {
    const answer = await fetch(path, { signal: control.signal, cache: "no-store", credentials: "omit" });
    const type = answer.headers.get("Content-Type") ?? "";
    if (!type.startsWith("application/json")) throw new Error(`${answer.status} ${await answer.text()}`);
    const body = await answer.json();
    if (!answer.ok && answer.status !== 202) throw new Error(body.error ?? `HTTP ${answer.status}`);
    return body;
  } finally {
    clearTimeout(timer);
  }
}

// Calls `onAnswer` with each answer of path(), which may name another page each time, and `onFailure` with an
// Error and the milliseconds until the next try. now() asks at once.
export class Poll {
  constructor(path, onAnswer, onFailure) {
    this.path = path;
    this.onAnswer = onAnswer;
    this.onFailure = onFailure;
    this.failures = 0;
    this.round = 0;
    this.now();
  }

  stop() {
    ++this.round;
    clearTimeout(this.timer);
  }

  now() {
    this.stop();
    this.ask(this.round);
  }

  async ask(round) {
    let wait = EVERY_MS;
    try {
      const answer = await get(this.path());
      if (round !== this.round) return;
      this.failures = 0;
      this.onAnswer(answer);
    } catch (error) {
      if (round !== this.round) return;
      wait = Math.min(EVERY_MS * 2 ** this.failures++, LONGEST_WAIT_MS);
      this.onFailure(error, wait);
    }
    this.timer = setTimeout(() => this.ask(round), wait);
  }
}
