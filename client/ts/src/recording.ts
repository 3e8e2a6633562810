import type { MessageInitShape } from "@bufbuild/protobuf";

import type { RecordSequenceRequestSchema } from "./gen/kiln/v1/kernel_service_pb.js";
import { KernelService } from "./gen/kiln/v1/kernel_service_pb.js";
import type { DeviceBuffer } from "./buffer.js";
import type { Client } from "./client.js";
import type { CallOptions } from "./options.js";
import { until } from "./options.js";
import { KilnError, badArgument } from "./errors.js";
import type { Program } from "./program.js";

/**
 * One call of a recording: a program, and for each of its parameters, in ascending order of slot, where it lies: which
 * of a replay's buffers, and from which byte on.
 */
export interface Step {
  program: Program;
  memory: readonly (number | { buffer: number; offset: number })[];
}

const isForgotten = (error: unknown) => error instanceof KilnError && error.code === "NEED_GRAPH";

/** Calls in a row that the server keeps, and runs again in one round trip. */
export class Recording {
  #hash: Uint8Array = new Uint8Array();

  private constructor(
    readonly client: Client,
    readonly programs: readonly Program[],
    readonly request: MessageInitShape<typeof RecordSequenceRequestSchema>,
  ) {}

  /** @internal */
  static async record(client: Client, steps: readonly Step[], options: CallOptions): Promise<Recording> {
    const programs = [...new Set(steps.map((step) => step.program))];
    const request = {
      device: client.device || (client.devices[0] ?? ""),
      programs: programs.map(({ hash, options }) => ({ graphHash: hash, ...(options && { options }) })),
      steps: steps.map(({ program, memory }, number) => ({
        program: programs.indexOf(program),
        arguments: places(program, memory, number),
      })),
    };
    const made = new Recording(client, programs, request);
    await made.#record(options);
    return made;
  }

  async #record(options: CallOptions): Promise<void> {
    this.#hash = (await this.client.call(KernelService.method.recordSequence, this.request, options)).recording;
  }

  /** Runs the calls on these buffers. What the server has forgotten is recorded again. */
  async replay(buffers: readonly DeviceBuffer[], options: CallOptions = {}): Promise<void> {
    const how = until(options);
    const request = { recording: this.#hash, buffers: buffers.map((buffer) => buffer.ref()) };
    try {
      await this.client.call(KernelService.method.replaySequence, request, how);
    } catch (error) {
      if (!isForgotten(error)) {
        throw error;
      }
      await this.#again(how);
      await this.client.call(KernelService.method.replaySequence, request, how);
    }
  }

  /** For a server that has forgotten the recording, and perhaps its programs. */
  async #again(how: CallOptions): Promise<void> {
    try {
      await this.#record(how);
    } catch (error) {
      if (!isForgotten(error)) {
        throw error;
      }
      const device = this.request.device ?? "";
      for (const { graph, options } of this.programs) {
        await this.client.call(KernelService.method.compile, { graph, device, ...(options && { options }) }, how);
      }
      await this.#record(how);
    }
  }
}

function places(program: Program, memory: Step["memory"], step: number) {
  if (memory.length !== program.takes.length) {
    throw badArgument(
      `step ${step} gives ${memory.length} memories to a program of ${program.takes.length} parameters`,
    );
  }
  return memory.map((place, at) => {
    const { buffer, offset } = typeof place === "number" ? { buffer: place, offset: 0 } : place;
    const value = { case: "memory" as const, value: { buffer, offset: BigInt(offset) } };
    return { slot: program.takes[at]!.slot, value };
  });
}
