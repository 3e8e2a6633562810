// How tensors and errors are written in the suite's requests and answers.
import { KilnError, NdArray } from "../src/index.js";
import type { DType } from "../src/index.js";

export interface Tensor {
  dtype: DType;
  shape?: number[];
  data?: string;
}

export type Answer = Record<string, unknown>;

export const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, "base64"));
export const said = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
export const arrayOf = ({ dtype, shape, data }: Tensor) => new NdArray(dtype, shape ?? [], bytesOf(data ?? ""));
export const tensorOf = ({ dtype, shape, bytes }: NdArray) => ({ dtype, shape, data: said(bytes) });

/** An error as the suite wants it. */
export function told(error: unknown): Answer {
  if (!(error instanceof KilnError)) {
    return { message: error instanceof Error ? error.stack : String(error) };
  }
  const { code, status, message, node, op, tag, slot, field, limit, limitValue, used, retryAfter } = error;
  const said = { code, status, message, node, op, tag, slot, field, limit, used };
  return { ...said, limit_value: limitValue, retry_after_ms: retryAfter };
}
