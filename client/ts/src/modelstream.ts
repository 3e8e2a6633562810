import type { StatusObject } from "@grpc/grpc-js";
import { status as Status } from "@grpc/grpc-js";

import type { ModelStreamInferResponse } from "./gen/inference/grpc_service_pb.js";
import {
  GRPCInferenceService,
  ModelInferRequestSchema,
  ModelStreamInferResponseSchema,
} from "./gen/inference/grpc_service_pb.js";
import type { Client } from "./client.js";
import { decoded, encoded } from "./connection.js";
import { KilnError, closed, fromStatus, givenUp } from "./errors.js";
import type { ModelInputs, ModelOutputs, ModelRequest } from "./modelmessages.js";
import { outputsOf, requestOf } from "./modelmessages.js";
import type { CallOptions } from "./options.js";
import { onAbort, until } from "./options.js";

/** A request whose answer is on its way. */
interface Asked {
  readonly outputs: readonly string[];
  resolve(outputs: ModelOutputs): void;
  reject(failed: KilnError): void;
}

/**
 * Requests for a model on one connection, any number under way: the server runs one after the other, and answers in
 * their order. One that fails is told by its promise, and the next goes on. All that is under way is in memory, here
 * or on its way.
 *
 * When the stream ends, so do all that are under way, and none is asked again: after a connection that was lost, nobody
 * knows which have been run. Requests that are to run together come by Model.infer.
 */
export class ModelStream implements AsyncDisposable {
  readonly #call;
  readonly #pending: Asked[] = [];
  #answered = 0; // requests, which are numbered from 1 on
  #closing = false;
  #ended: KilnError | undefined;
  #forget = () => {};
  #finish = () => {};
  readonly #over = new Promise<void>((resolve) => (this.#finish = resolve));

  /** @internal */
  constructor(
    readonly client: Client,
    readonly name: string,
    readonly version: string,
    options: CallOptions,
  ) {
    const how = until(options);
    const call = client.connection.duplex(GRPCInferenceService.method.modelStreamInfer, how);
    this.#call = call;
    call.on("data", (bytes: Uint8Array) => this.#read(bytes));
    call.on("error", () => {}); // the status says it, too
    call.on("status", (status: StatusObject) => this.#end(this.#reason(status)));
    this.#forget = onAbort(how.signal, () => this.#end(givenUp(how.signal!)));
    client.modelStreams.add(this);
  }

  /**
   * Sends a request. Its promise need not be awaited. What the server says of one that fails is a text alone, so its
   * error has the status UNKNOWN and no code.
   */
  infer(inputs: ModelInputs, more: ModelRequest = {}): Promise<ModelOutputs> {
    const answer = new Promise<ModelOutputs>((resolve, reject) => {
      if (this.#ended !== undefined || this.#closing) {
        throw this.#ended ?? overAlready();
      }
      const number = this.#answered + this.#pending.length + 1;
      const request = requestOf(this.name, this.version, inputs, more, String(number));
      this.#call.write(encoded(ModelInferRequestSchema, request));
      this.#pending.push({ outputs: more.outputs ?? [], resolve, reject });
    });
    answer.catch(() => {});
    return answer;
  }

  /** Takes no more requests, and waits until those under way are answered. */
  async close(): Promise<void> {
    if (!this.#closing && this.#ended === undefined) {
      this.#closing = true;
      this.#call.end();
    }
    await this.#over;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal The same until a moment of Date.now()'s. */
  async leave(deadline: number): Promise<void> {
    const timer = setTimeout(() => this.#end(closed()), deadline - Date.now());
    await this.close();
    clearTimeout(timer);
  }

  #reason(status: StatusObject): KilnError {
    if (status.code !== Status.OK) {
      return this.client.connection.heed(fromStatus(status));
    }
    const isOver = this.#closing && this.#pending.length === 0;
    return isOver ? overAlready() : new KilnError("UNAVAILABLE", "the server has ended the stream");
  }

  #end(failed: KilnError) {
    if (this.#ended !== undefined) {
      return;
    }
    this.#ended = failed;
    this.#forget();
    this.client.modelStreams.delete(this);
    this.#call.cancel();
    this.#pending.splice(0).forEach((asked) => asked.reject(failed));
    this.#finish();
  }

  #read(bytes: Uint8Array) {
    try {
      if (this.#ended === undefined) {
        this.#take(decoded(ModelStreamInferResponseSchema, bytes));
      }
    } catch (error) {
      this.#end(error as KilnError); // of a server that speaks another language
    }
  }

  /** Answers come in order; the numbers that come back with them tell one that comes twice. */
  #take({ errorMessage, inferResponse }: ModelStreamInferResponse) {
    const next = this.#answered + 1;
    const number = Number(inferResponse?.id || next); // a request that could not be read has none
    if (number < next) {
      return;
    }
    const [asked] = this.#pending;
    if (number !== next || asked === undefined) {
      throw new KilnError("INTERNAL", `the server answers request ${inferResponse?.id}, not ${next}`);
    }
    this.#pending.shift();
    this.#answered = next;
    try {
      if (errorMessage !== "") {
        throw new KilnError("UNKNOWN", errorMessage);
      }
      if (inferResponse === undefined) {
        throw new KilnError("INTERNAL", "the server gave no answer");
      }
      asked.resolve(outputsOf(inferResponse, asked.outputs));
    } catch (failed) {
      asked.reject(failed as KilnError);
    }
  }
}

const overAlready = () => new KilnError("CANCELLED", "the stream was closed");
