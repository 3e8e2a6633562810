import { GRPCInferenceService } from "./gen/inference/grpc_service_pb.js";
import type { Client } from "./client.js";
import type { ModelInputs, ModelOutputs, ModelRequest, ModelTensor } from "./modelmessages.js";
import { outputsOf, requestOf, tensorsOf } from "./modelmessages.js";
import { ModelStream } from "./modelstream.js";
import type { CallOptions } from "./options.js";

const methods = GRPCInferenceService.method;

/** What has become of one version of a model in the server's folder. */
export interface ModelRow {
  readonly name: string;
  readonly version: string;
  readonly state: "READY" | "UNAVAILABLE" | "LOADING" | (string & {});
  /** Why it could not be loaded; beside READY, why its newest files could not. */
  readonly reason: string;
}

/** Which version of a model; without one, the greatest that is ready when a request comes. */
export type ModelOptions = CallOptions & { version?: string | undefined };

/** What a request of its own may say; `id` comes to the server's side with it. */
export type InferOptions = CallOptions & ModelRequest & { id?: string | undefined };

/** @internal */
export async function indexOf(client: Client, options?: CallOptions): Promise<ModelRow[]> {
  const { models } = await client.call(methods.repositoryIndex, {}, options);
  return models.map(({ name, version, state, reason }) => ({ name, version, state, reason }));
}

/**
 * A model that the server has in its folder (docs/serving.md): arrays go in by name, and come out by name. What of it
 * may be asked, and how much at a time, the server says; a request with its answer is one message each way, of 192 MiB
 * unless the server is set otherwise, and answers of at most 256 MiB are taken.
 */
export class Model {
  private constructor(
    private readonly client: Client,
    readonly name: string,
    /** The version that was asked for; "": the greatest that is ready. */
    readonly version: string,
    /** Those that were ready when the model was asked for. */
    readonly versions: readonly string[],
    readonly inputs: readonly ModelTensor[],
    readonly outputs: readonly ModelTensor[],
  ) {}

  /** @internal */
  static async find(client: Client, name: string, { version = "", ...options }: ModelOptions): Promise<Model> {
    const said = await client.call(methods.modelMetadata, { name, version }, options);
    return new Model(client, name, version, said.versions, tensorsOf(said.inputs), tensorsOf(said.outputs));
  }

  /** Whether it can be asked now. */
  async ready(options?: CallOptions): Promise<boolean> {
    const { ready } = await this.client.call(methods.modelReady, { name: this.name, version: this.version }, options);
    return ready;
  }

  /**
   * Runs the model once. A request that the server has refused to begin is made again, within the client's budget,
   * unless it is one of a sequence: whether that has moved on, its caller must know.
   */
  async infer(inputs: ModelInputs, options: InferOptions = {}): Promise<ModelOutputs> {
    const { outputs, sequence, id = "", ...how } = options;
    const request = requestOf(this.name, this.version, inputs, { outputs, sequence }, id);
    const once = sequence !== undefined;
    return outputsOf(await this.client.connection.unary(methods.modelInfer, request, { ...how, once }), outputs);
  }

  /** Begins a stream of requests. It ends when it is closed, or by the options' `signal` or their deadline. */
  stream(options: CallOptions = {}): ModelStream {
    return new ModelStream(this.client, this.name, this.version, options);
  }
}
