import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { status as Status } from "@grpc/grpc-js";
import type { StatusObject } from "@grpc/grpc-js";

import { ErrorCode, ErrorDetailSchema } from "./gen/kiln/v1/error_pb.js";

/** gRPC's status, by name. */
export type StatusName = keyof typeof Status;

/** The protocol's code, by name; of one that is newer than this package, its number as text. */
export type CodeName = keyof typeof ErrorCode | (string & {});

/** What a failure tells besides its text, as far as it applies. */
export interface Details {
  /** Stable, for programs. Undefined where nobody gave one, as when a connection is lost. */
  code?: CodeName | undefined;
  /**
   * The index of the node at fault in the graph as sent; its op and tag. Of a stream's command, the first cause's tag.
   */
  node?: number;
  op?: string;
  tag?: string;
  pass?: string;
  /** The slot of the argument at fault, or the field of the request. */
  slot?: number;
  field?: string;
  handle?: bigint;
  /** The name of a limit that was met, its value, and how much of it is used. */
  limit?: string;
  limitValue?: number;
  used?: number;
  /** How many milliseconds the server asks to wait before another try; undefined where waiting does not help. */
  retryAfter?: number;
  /** In a stream, which command went wrong first. */
  command?: bigint;
}

/** A failure that the server found, or this package. Programs read `code` and `status`; the message is for people. */
export class KilnError extends Error implements Details {
  override readonly name = "KilnError";
  declare readonly code?: CodeName | undefined;
  declare readonly node?: number;
  declare readonly op?: string;
  declare readonly tag?: string;
  declare readonly pass?: string;
  declare readonly slot?: number;
  declare readonly field?: string;
  declare readonly handle?: bigint;
  declare readonly limit?: string;
  declare readonly limitValue?: number;
  declare readonly used?: number;
  declare readonly retryAfter?: number;
  declare readonly command?: bigint;

  constructor(
    readonly status: StatusName,
    message: string,
    details: Details = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    Object.assign(this, details);
  }

  override toString(): string {
    const where = this.node === undefined ? "" : ` (node ${this.node}, ${this.op})`;
    return `${this.code ?? this.status}: ${this.message}${where}${this.tag ? ` [${this.tag}]` : ""}`;
  }
}

export function badArgument(message: string): KilnError {
  return new KilnError("INVALID_ARGUMENT", message, { code: "BAD_ARGUMENT" });
}

export function wrongShape(message: string): KilnError {
  return new KilnError("INVALID_ARGUMENT", message, { code: "SHAPE_MISMATCH" });
}

export function wrongDType(message: string): KilnError {
  return new KilnError("INVALID_ARGUMENT", message, { code: "DTYPE_MISMATCH" });
}

/** Of what a client is asked that was closed. */
export const closed = () => new KilnError("CANCELLED", "the client was closed");

/** Of a call that its caller gave up: by AbortSignal.timeout, or otherwise. */
export function givenUp(signal: AbortSignal): KilnError {
  const late = signal.reason instanceof DOMException && signal.reason.name === "TimeoutError";
  const [status, text] = late
    ? (["DEADLINE_EXCEEDED", "the time is over"] as const)
    : (["CANCELLED", "given up"] as const);
  return new KilnError(status, text, {}, { cause: signal.reason });
}

/** Of how a call of gRPC's ended. */
export function fromStatus(ended: Pick<StatusObject, "code" | "details" | "metadata">): KilnError {
  const [packed] = ended.metadata?.get("grpc-status-details-bin") ?? [];
  const said = packed instanceof Uint8Array ? readStatus(packed) : undefined;
  return new KilnError((Status[ended.code] ?? "UNKNOWN") as StatusName, ended.details, said?.details);
}

/** Of a command of a stream: `status` is a google.rpc.Status. */
export function fromCommand(status: Uint8Array, command: bigint, tag: string): KilnError {
  const said = readStatus(status);
  const details = { ...said.details, command };
  return new KilnError(
    (Status[said.code] ?? "UNKNOWN") as StatusName,
    said.message,
    tag ? { ...details, tag } : details,
  );
}

interface Said {
  code: number;
  message: string;
  details: Details;
}

/** What a google.rpc.Status says; of one that cannot be read, nothing. */
function readStatus(data: Uint8Array): Said {
  try {
    return statusOf(new BinaryReader(data));
  } catch {
    return { code: Status.INTERNAL, message: "a failure that cannot be read", details: {} };
  }
}

/** This package generates no message of it: code = 1, message = 2, details = 3. */
function statusOf(reader: BinaryReader): Said {
  const said: Said = { code: 0, message: "", details: {} };
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 1) {
      said.code = reader.int32();
    } else if (field === 2) {
      said.message = reader.string();
    } else if (field === 3) {
      said.details = readAny(reader.bytes()) ?? said.details;
    } else {
      reader.skip(wire);
    }
  }
  return said;
}

function readAny(data: Uint8Array): Details | undefined {
  const reader = new BinaryReader(data);
  let type = "";
  let value: Uint8Array = new Uint8Array();
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field === 1) {
      type = reader.string();
    } else if (field === 2) {
      value = reader.bytes();
    } else {
      reader.skip(wire);
    }
  }
  if (!type.endsWith("/kiln.v1.ErrorDetail")) {
    return undefined;
  }
  const {
    $typeName: _,
    $unknown: __,
    code,
    node,
    slot,
    limitValue,
    retryAfterMs,
    used,
    ...same
  } = fromBinary(ErrorDetailSchema, value);
  const numbers = { limitValue: Number(limitValue), used: Number(used), retryAfter: retryAfterMs };
  // What is not set in the message is not there; but a node or a slot may be the first.
  const said = Object.entries({ ...same, ...numbers }).filter(([, one]) => one !== "" && one !== 0 && one !== 0n);
  const places = { ...(node !== undefined && { node }), ...(slot !== undefined && { slot }) };
  return {
    ...Object.fromEntries(said),
    ...places,
    ...(code !== ErrorCode.ERROR_CODE_UNSPECIFIED && { code: ErrorCode[code] ?? String(code) }),
  };
}
