import type { CallOptions, Client, Model, ModelInputs, ModelOutputs, Sequence } from "../src/index.js";
import type { Ask, Does } from "./requests.js";
import { arrayOf, tensorOf, told } from "./told.js";
import type { Answer, Tensor } from "./told.js";

const inputsOf = (ask: Ask): ModelInputs =>
  mapped(ask.inputs as Record<string, { tensor: Tensor }>, ({ tensor }) => arrayOf(tensor));
const outputsOf = (outputs: ModelOutputs): Answer => ({ outputs: mapped(outputs, tensorOf) });

function mapped<T, U>(by: Record<string, T>, make: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(by).map(([name, value]) => [name, make(value)]));
}

function sequenceOf({ sequence }: Ask): Sequence | undefined {
  return sequence && { ...sequence, id: BigInt(sequence.id) };
}

/** What the suite asks of served models. */
export class ModelRequests {
  #models = new Map<string, Model>();

  constructor(readonly client: (ask: Ask) => Client) {}

  clear() {
    this.#models.clear();
  }

  readonly requests: Record<string, Does> = {
    models: async (ask, options) => ({ models: await this.client(ask).models(options) }),
    model: async (ask, options) => {
      const { name, version, as } = ask as Ask & { name: string; version?: string; as?: string };
      const model = await this.client(ask).model(name, { ...options, version });
      this.#models.set(as ?? name, model);
      const { versions, inputs, outputs } = model;
      return { ready: await model.ready(options), versions, inputs, outputs };
    },
    infer: async (ask, options) => {
      const model = this.#models.get(ask.model)!;
      const more = { outputs: ask.outputs as string[] | undefined, sequence: sequenceOf(ask), id: ask.id };
      return outputsOf(await model.infer(inputsOf(ask), { ...options, ...more }));
    },
    infer_stream: (ask, options) => this.#streamed(this.#models.get(ask.model)!, ask.requests as Ask[], options),
  };

  async #streamed(model: Model, requests: Ask[], options: CallOptions): Promise<Answer> {
    const stream = model.stream(options);
    const sent = requests.map((one) =>
      stream.infer(inputsOf(one), { outputs: one.outputs as string[] | undefined, sequence: sequenceOf(one) }),
    );
    const ended = await Promise.allSettled(sent);
    await stream.close();
    return {
      answers: ended.map((one) => (one.status === "fulfilled" ? outputsOf(one.value) : { error: told(one.reason) })),
    };
  }
}
