/** Writes the pieces of proto/README.md's canonical form. */
export class CanonicalWriter {
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

  get written(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  clear(): this {
    this.#length = 0;
    return this;
  }

  /** Where the next `count` bytes go. */
  #room(count: number): number {
    const at = this.#length;
    this.#length += count;
    if (this.#length > this.#bytes.length) {
      const grown = new Uint8Array(2 * this.#length);
      grown.set(this.#bytes);
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    return at;
  }

  u8(value: number | boolean): this {
    const at = this.#room(1);
    this.#view.setUint8(at, Number(value));
    return this;
  }

  u32(value: number): this {
    const at = this.#room(4);
    this.#view.setUint32(at, value, true);
    return this;
  }

  /** 64 bits, of negative numbers in two's complement. */
  i64(value: bigint): this {
    const at = this.#room(8);
    this.#view.setBigInt64(at, value, true);
    return this;
  }

  raw(bytes: Uint8Array): this {
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
    return this;
  }

  string(text: string | Uint8Array): this {
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    return this.u32(bytes.length).raw(bytes);
  }

  list<T>(items: readonly T[], write: (item: T) => unknown): this {
    this.u32(items.length);
    items.forEach(write);
    return this;
  }

  i64s(values: readonly bigint[]): this {
    return this.list(values, (value) => this.i64(value));
  }

  strings(texts: readonly string[]): this {
    return this.list(texts, (text) => this.string(text));
  }
}
