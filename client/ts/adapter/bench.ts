import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescMessage, DescMethod, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";

import { array, connect, hash } from "../src/index.js";
import type { Client, DeviceBuffer, NdArray, Program, Stream } from "../src/index.js";
import { BufferService } from "../src/gen/kiln/v1/buffer_service_pb.js";
import { DType } from "../src/gen/kiln/v1/dtype_pb.js";
import type { Graph } from "../src/gen/kiln/v1/graph_pb.js";
import { KernelService, ResultMode } from "../src/gen/kiln/v1/kernel_service_pb.js";

const chunk = 1 << 20;

/** What `bench` measures: a client's calls, and the same by gRPC alone, with the generated messages. */
export class Bench {
  readonly #values = Float32Array.of(0, 1, 2, 3);
  readonly #bare: grpc.Client;
  #bareCounter = 0n;
  #bareBlock = 0n;

  private constructor(
    readonly stream: Stream,
    readonly program: Program,
    readonly step: Program,
    readonly counter: DeviceBuffer,
    readonly data: Uint8Array,
    readonly block: DeviceBuffer,
    readonly large: Graph,
    address: string,
  ) {
    this.#bare = new grpc.Client(address, grpc.credentials.createInsecure(), { "grpc.max_receive_message_length": -1 });
  }

  static async prepare(ask: Record<string, any>, graphOf: (text: string) => Graph): Promise<Bench> {
    const client: Client = await connect(ask.address);
    const data = new Uint8Array(ask.bytes).map((_, at) => at % 251);
    const made = new Bench(
      client.stream(),
      await client.compile(graphOf(ask.affine)),
      await client.compile(graphOf(ask.counting)),
      await client.upload(new Int32Array(4)),
      data,
      await client.upload(data),
      graphOf(ask.large),
      ask.address,
    );
    const { allocate } = BufferService.method;
    const counter = { case: "type" as const, value: { dtype: DType.INT32, shape: [4n] } };
    made.#bareCounter = (await made.#unary(allocate, { size: counter })).buffer!.handle;
    const block = { case: "bytes" as const, value: BigInt(ask.bytes) };
    made.#bareBlock = (await made.#unary(allocate, { size: block })).buffer!.handle;
    return made;
  }

  async measure({ what, bare, count }: Record<string, any>): Promise<{ seconds: number }> {
    const work = this.#works[`${bare ? "bare" : "kiln"}_${what}`]!;
    const begun = performance.now();
    await work(count);
    return { seconds: (performance.now() - begun) / 1000 };
  }

  readonly #works: Record<string, (count: number) => Promise<void>> = {
    kiln_execute: async (count) => {
      for (let at = 0; at < count; at++) {
        await this.program.run([this.#values]);
      }
    },
    bare_execute: async (count) => {
      for (let at = 0; at < count; at++) {
        const { dtype, shape, bytes }: NdArray = array(this.#values);
        const tensor = { dtype: DType[dtype.toUpperCase() as "FLOAT32"], shape: shape.map(BigInt), data: bytes };
        await this.#unary(KernelService.method.execute, {
          graphHash: this.program.hash,
          arguments: [{ slot: 0, value: { case: "tensor", value: tensor } }],
          resultMode: ResultMode.RESULT_INLINE,
        });
      }
    },
    kiln_submit: async (count) => {
      for (let at = 0; at < count; at++) {
        await this.stream.run(this.step, [this.counter]);
      }
      await this.stream.fence();
    },
    bare_submit: async (count) => {
      const { submit } = KernelService.method;
      const call = this.#bare.makeBidiStreamRequest(path(submit), writer(submit.input), reader(submit.output));
      const ended = new Promise<void>((resolve, reject) => {
        call.on("error", reject);
        call.on("data", ({ event }) => event.case === "failed" && reject(new Error("a command failed")));
        call.on("end", () => resolve());
      });
      call.write(create(submit.input, { command: { case: "hello", value: {} } }));
      for (let at = 0; at < count; at++) {
        const value = { case: "buffer" as const, value: { handle: this.#bareCounter } };
        const request = { graphHash: this.step.hash, arguments: [{ slot: 0, value }] };
        const command = { case: "execute" as const, value: { request } };
        if (!call.write(create(submit.input, { commandId: BigInt(at + 1), command }))) {
          await new Promise((resolve) => call.once("drain", resolve));
        }
      }
      call.write(create(submit.input, { commandId: BigInt(count + 1), command: { case: "fence", value: {} } }));
      call.end();
      await ended;
    },
    kiln_upload: async (count) => {
      for (let at = 0; at < count; at++) {
        await this.block.writeBytes(0, this.data);
      }
    },
    bare_upload: async (count) => {
      for (let at = 0; at < count; at++) {
        await this.#upload();
      }
    },
    kiln_download: async (count) => {
      for (let at = 0; at < count; at++) {
        await this.block.read();
      }
    },
    bare_download: async (count) => {
      const { read } = BufferService.method;
      const request = create(read.input, { buffer: { handle: this.#bareBlock } });
      for (let at = 0; at < count; at++) {
        const made = new Uint8Array(this.data.length);
        let place = 0;
        const call = this.#bare.makeServerStreamRequest(path(read), writer(read.input), reader(read.output), request);
        for await (const answer of call) {
          made.set(answer.chunk, place);
          place += answer.chunk.length;
        }
      }
    },
    kiln_hash: (count) => {
      for (let at = 0; at < count; at++) {
        hash(this.large);
      }
      return Promise.resolve();
    },
  };

  async #upload(): Promise<void> {
    const { write } = BufferService.method;
    let call: grpc.ClientWritableStream<MessageShape<typeof write.input>>;
    const ended = new Promise<void>((resolve, reject) => {
      const done = (error: Error | null) => (error ? reject(error) : resolve());
      call = this.#bare.makeClientStreamRequest(path(write), writer(write.input), reader(write.output), done);
    });
    const header = { buffer: { handle: this.#bareBlock }, bytes: BigInt(this.data.length) };
    call!.write(create(write.input, { part: { case: "header", value: header } }));
    for (let at = 0; at < this.data.length; at += chunk) {
      const value = this.data.subarray(at, at + chunk);
      if (!call!.write(create(write.input, { part: { case: "chunk", value } }))) {
        await new Promise((resolve) => call.once("drain", resolve));
      }
    }
    call!.end();
    await ended;
  }

  #unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethod & { input: I; output: O },
    request: MessageInitShape<I>,
  ): Promise<MessageShape<O>> {
    return new Promise((resolve, reject) => {
      const message = create<I>(method.input, request);
      this.#bare.makeUnaryRequest(
        path(method),
        writer(method.input),
        reader(method.output),
        message,
        (error: grpc.ServiceError | null, answer?: MessageShape<O>) => (error ? reject(error) : resolve(answer!)),
      );
    });
  }
}

const path = (method: DescMethod) => `/${method.parent.typeName}/${method.name}`;

const writer =
  <M extends DescMessage>(of: M) =>
  (message: MessageShape<M>) =>
    Buffer.from(toBinary(of, message));

const reader =
  <M extends DescMessage>(of: M) =>
  (data: Buffer): MessageShape<M> =>
    fromBinary(of, data);
