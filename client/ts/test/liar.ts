import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescMethod, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";

import {
  GRPCInferenceService,
  ModelInferRequestSchema,
  ModelStreamInferResponseSchema,
} from "../src/gen/inference/grpc_service_pb.js";
import type { ModelInferRequest } from "../src/gen/inference/grpc_service_pb.js";
import { BufferService } from "../src/gen/kiln/v1/buffer_service_pb.js";
import { DeviceService } from "../src/gen/kiln/v1/device_service_pb.js";
import { KernelService, SubmitRequestSchema, SubmitResponseSchema } from "../src/gen/kiln/v1/kernel_service_pb.js";
import type { SubmitRequest } from "../src/gen/kiln/v1/kernel_service_pb.js";
import { SessionService } from "../src/gen/kiln/v1/session_service_pb.js";
import { hash } from "../src/index.js";

export type Call = grpc.ServerDuplexStream<Buffer, Buffer>;
export type Say = (answer: MessageInitShape<typeof SubmitResponseSchema>) => void;
export type Told = (answer: MessageInitShape<typeof ModelStreamInferResponseSchema>) => void;

const devices = { protocolMin: 1, protocolMax: 1, features: ["sessions", "submit"], devices: [{ name: "CPU:0" }] };
const nothing = () => ({});

/** A server that answers as kilnd does, where nothing is read, and whatever a test wants instead. */
export class Liar {
  submit: (request: SubmitRequest, say: Say, call: Call) => void = honest;
  allocate: () => MessageInitShape<typeof BufferService.method.allocate.output> = nothing;
  compile: () => MessageInitShape<typeof KernelService.method.compile.output> = nothing;
  execute: () => MessageInitShape<typeof KernelService.method.execute.output> = nothing;
  metadata: () => MessageInitShape<typeof GRPCInferenceService.method.modelMetadata.output> = nothing;
  inferStream: (request: ModelInferRequest, told: Told, call: Call) => void = () => {};
  leaseSeconds = 30;
  renews = true; // or it does not answer
  readonly freed: bigint[] = [];
  streams = 0;
  renewals = 0;
  address = "";
  readonly #server = new grpc.Server();

  async start(): Promise<void> {
    this.#serve(DeviceService.method.list, () => devices);
    this.#serve(SessionService.method.open, () => ({ token: new Uint8Array(16), leaseSeconds: this.leaseSeconds }));
    this.#serve(SessionService.method.renew, () => (this.renewals++, this.renews ? {} : undefined));
    this.#serve(SessionService.method.close, nothing);
    this.#serve(BufferService.method.allocate, () => this.allocate());
    this.#serve(BufferService.method.free, ({ handle }) => (this.freed.push(...handle), {}));
    this.#serve(KernelService.method.compile, ({ graph }) => ({ graphHash: hash(graph!), ...this.compile() }));
    this.#serve(KernelService.method.execute, () => this.execute());
    this.#serve(GRPCInferenceService.method.modelMetadata, () => this.metadata());
    this.#add(GRPCInferenceService.method.modelStreamInfer, true, (call: Call) => this.#models(call));
    this.#add(KernelService.method.submit, true, (call: Call) => this.#stream(call));
    const insecure = grpc.ServerCredentials.createInsecure();
    const port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync("127.0.0.1:0", insecure, (error, port) => (error ? reject(error) : resolve(port)));
    });
    this.address = `127.0.0.1:${port}`;
  }

  stop() {
    this.#server.forceShutdown();
  }

  #stream(call: Call) {
    this.streams++;
    const say: Say = (answer) => {
      call.write(Buffer.from(toBinary(SubmitResponseSchema, create(SubmitResponseSchema, answer))));
    };
    call.on("error", () => {});
    call.on("end", () => call.end());
    call.on("data", (bytes: Buffer) => this.submit(fromBinary(SubmitRequestSchema, bytes), say, call));
  }

  #models(call: Call) {
    const told: Told = (answer) => {
      call.write(Buffer.from(toBinary(ModelStreamInferResponseSchema, create(ModelStreamInferResponseSchema, answer))));
    };
    call.on("error", () => {});
    call.on("end", () => call.end());
    call.on("data", (bytes: Buffer) => this.inferStream(fromBinary(ModelInferRequestSchema, bytes), told, call));
  }

  #serve<M extends DescMethodUnary>(
    method: M,
    answer: (request: MessageShape<M["input"]>) => MessageInitShape<M["output"]> | undefined,
  ) {
    this.#add(method, false, (call: grpc.ServerUnaryCall<Buffer, Buffer>, callback: grpc.sendUnaryData<Buffer>) => {
      const said = answer(fromBinary(method.input, call.request) as MessageShape<M["input"]>);
      if (said !== undefined) {
        callback(null, Buffer.from(toBinary(method.output, create(method.output, said))));
      }
    });
  }

  #add(method: DescMethod, isStream: boolean, handler: grpc.UntypedHandleCall) {
    const as = (bytes: Buffer) => bytes;
    const bytes = { requestSerialize: as, requestDeserialize: as, responseSerialize: as, responseDeserialize: as };
    const path = `/${method.parent.typeName}/${method.name}`;
    const definition = { path, requestStream: isStream, responseStream: isStream, ...bytes };
    this.#server.addService({ [method.name]: definition }, { [method.name]: handler });
  }
}

export function honest({ command, commandId, answer }: SubmitRequest, say: Say) {
  if (command.case === "hello") {
    say({ event: { case: "welcome", value: { protocol: 1 } } });
  } else if (answer) {
    say({ commandId, event: { case: "done", value: {} } });
  }
}
