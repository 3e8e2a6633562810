import { fromBinary, toBinary } from "@bufbuild/protobuf";

import { array, connect, hash, readConstants, readGraph } from "../src/index.js";
import type { Argument, CallOptions, Client, DeviceBuffer, Program, Recording, Stream } from "../src/index.js";
import type { CollectiveKind, Reduction } from "../src/index.js";
import { BufferService } from "../src/gen/kiln/v1/buffer_service_pb.js";
import { GraphSchema } from "../src/gen/kiln/v1/graph_pb.js";
import { Bench } from "./bench.js";
import { build } from "./build.js";
import type { Call } from "./build.js";
import { ModelRequests } from "./models.js";
import { arrayOf, bytesOf, said, tensorOf } from "./told.js";
import type { Answer, Tensor } from "./told.js";

type Given = { tensor: Tensor } | { buffer: string } | { integer: number };

/** The fields of all requests. */
export interface Ask {
  do: string;
  client?: string;
  [name: string]: any;
}

export type Does = (ask: Ask, options: CallOptions) => Promise<Answer | void> | Answer | void;

const graphOf = (text: string) => fromBinary(GraphSchema, bytesOf(text));

/** One of several clients; the stream that it has now, if requests go by that. */
interface Connected {
  readonly client: Client;
  readonly stream: Stream | undefined;
}

export class Adapter {
  #clients = new Map<string, Connected>();
  #programs = new Map<string, Program>();
  #buffers = new Map<string, DeviceBuffer>();
  #recordings = new Map<string, Recording>();
  #models = new ModelRequests((ask) => this.#of(ask).client);
  #bench: Bench | undefined;
  #begun = new Map<string, Promise<Answer>>();

  constructor(readonly answer: (ask: Ask) => Promise<Answer>) {}

  #of(ask: Ask): Connected {
    return this.#clients.get(ask.client ?? "")!;
  }

  #named(names: string[]): DeviceBuffer[] {
    return names.map((name) => this.#buffers.get(name)!);
  }

  #argument(given: Given): Argument {
    if ("tensor" in given) {
      return arrayOf(given.tensor);
    }
    return "integer" in given ? given.integer : this.#buffers.get(given.buffer)!;
  }

  async #run(ask: Ask, given: Argument[], names: string[], options: CallOptions): Promise<void> {
    const program = this.#programs.get(ask.program)!;
    const { stream } = this.#of(ask);
    const made = await (stream === undefined ? program.runKeep(given, options) : stream.run(program, given, ask.tag));
    names.forEach((name, at) => this.#buffers.set(name, made[at]!));
  }

  readonly requests: Record<string, Does> = {
    ...this.#models.requests,
    reset: async () => {
      await Promise.all([...this.#clients.values()].map(({ client }) => client.close()));
      for (const held of [this.#clients, this.#programs, this.#buffers, this.#recordings, this.#begun]) {
        held.clear();
      }
      this.#models.clear();
    },
    connect: async (ask, { timeout }) => {
      const { address, token, token_file: tokenFile, ca: authority, certificate, key, lease_seconds: seconds } = ask;
      const tls = authority && { authority, ...(certificate && { certificate, key }) };
      const who = { ...(token && { token }), ...(tokenFile && { tokenFile }), ...(tls && { tls }) };
      const client = await connect(address, { ...who, ...(seconds && { lease: seconds * 1000 }), timeout });
      // A server without streams is called.
      const streams = ask.stream && client.features.includes("submit");
      const one: Connected = {
        client,
        get stream() {
          return streams ? client.stream() : undefined;
        },
      };
      this.#clients.set(ask.client ?? "", one);
      return { features: client.features, devices: client.devices };
    },
    close: (ask) => this.#of(ask).client.close(),
    hash: (ask) => ({ hash: Buffer.from(hash(graphOf(ask.graph))).toString("hex") }),
    build: (ask) => ({ graph: said(toBinary(GraphSchema, build(ask.calls as Call[]))) }),
    compile: async (ask, options) => {
      const program = await this.#of(ask).client.compile(graphOf(ask.graph), options);
      this.#programs.set(ask.as, program);
      return { hash: Buffer.from(program.hash).toString("hex") };
    },
    gradient: async (ask, options) => {
      const made = await this.#of(ask).client.gradient(graphOf(ask.graph), ask.wrt, {}, options);
      return { graph: said(toBinary(GraphSchema, made.graph!)) };
    },
    upload: async (ask, options) => {
      const { client, stream } = this.#of(ask);
      const from = arrayOf(ask.tensor);
      const place = { ...options, device: ask.device as string | undefined };
      this.#buffers.set(ask.as, await (stream === undefined ? client.upload(from, place) : stream.upload(from)));
    },
    allocate: async (ask, options) => {
      this.#buffers.set(ask.as, await this.#of(ask).client.allocate(Number(ask.bytes), options));
    },
    write: (ask, options) => {
      return this.#buffers.get(ask.buffer)!.writeBytes(Number(ask.offset ?? 0), bytesOf(ask.data), options);
    },
    read: async (ask, options) => {
      const buffer = this.#buffers.get(ask.buffer)!;
      if (ask.bytes !== undefined) {
        return { data: said(await buffer.readBytes(Number(ask.offset ?? 0), Number(ask.bytes), options)) };
      }
      return { tensor: tensorOf(await (this.#of(ask).stream?.read(buffer, options) ?? buffer.read(options))) };
    },
    free: async (ask, options) => {
      const { stream } = this.#of(ask);
      for (const buffer of this.#named(ask.buffers)) {
        await (stream === undefined ? buffer.free(options) : stream.free(buffer));
      }
    },
    handle: (ask) => ({ handle: String(this.#buffers.get(ask.buffer)!.handle) }),
    // Of a handle, whosever it is.
    describe: async (ask, options) => {
      const request = { handle: BigInt(ask.handle) };
      const { buffer } = await this.#of(ask).client.call(BufferService.method.describe, request, options);
      return { bytes: Number(buffer?.bytes) };
    },
    run: async (ask, options) => {
      const given = (ask.arguments as Given[]).map((item) => this.#argument(item));
      if (ask.keep !== undefined) {
        return this.#run(ask, given, ask.keep, options);
      }
      const results = await this.#programs.get(ask.program)!.run(given, options);
      return { results: results.map(tensorOf) };
    },
    // Of a graph of a file, on constants of another, which are uploaded, and on what is given by value.
    run_files: async (ask, options) => {
      const { client } = this.#of(ask);
      const program = await client.compile(await readGraph(ask.graph_file), options);
      const given = new Map<number, Argument>();
      for (const [slot, constant] of await readConstants(ask.constants_file)) {
        given.set(slot, await client.upload(constant, options));
      }
      (ask.arguments as Given[]).forEach((item, slot) => given.set(slot, this.#argument(item)));
      return { results: (await program.run(given, options)).map(tensorOf) };
    },
    // This client checks nothing that the server does.
    unchecked_run: (ask, options) => this.#run(ask, this.#named([ask.buffer]), [ask.keep], options),
    bench: async (ask) => {
      if (ask.what === "prepare") {
        this.#bench = await Bench.prepare(ask, graphOf);
        return;
      }
      return { ...(await this.#bench!.measure(ask)) };
    },
    begin: (ask) => {
      this.#begun.set(ask.as, this.answer(ask.request));
    },
    end: (ask) => this.#begun.get(ask.of)!,
    fence: async (ask, options) => this.#of(ask).stream?.fence(options),
    record: async (ask, options) => {
      const steps = (ask.steps as [string, number[]][]).map(([name, memory]) => ({
        program: this.#programs.get(name)!,
        memory,
      }));
      this.#recordings.set(ask.as, await this.#of(ask).client.record(steps, options));
    },
    replay: (ask, options) => this.#recordings.get(ask.recording)!.replay(this.#named(ask.buffers), options),
    collective: (ask, options) => {
      const [inputs, outputs] = [this.#named(ask.inputs), this.#named(ask.outputs)];
      const kind = ask.kind.replace(/_(.)/, (_: string, letter: string) => letter.toUpperCase()) as CollectiveKind;
      const more = { ...(ask.op && { op: ask.op as Reduction }), ...(ask.root && { root: ask.root as number }) };
      return this.#of(ask).client.collective(kind, { inputs, outputs, ...more, ...options });
    },
    transfer: async (ask, options) => {
      const sent = new Uint8Array(ask.bytes).map((_, at) => at % 251);
      const { client, stream } = this.#of(ask);
      const buffer = await (stream?.upload(array(sent)) ?? client.upload(sent, options));
      const came = (await (stream?.read(buffer, options) ?? buffer.read(options))).bytes;
      await buffer.free(options);
      return { wrong: sent.reduce((wrong, value, at) => wrong + Number(value !== came[at]), 0) };
    },
  };
}
