import { GRPCInferenceService } from "./gen/inference/grpc_service_pb.js";
import { BufferService } from "./gen/kiln/v1/buffer_service_pb.js";
import { DebugService } from "./gen/kiln/v1/debug_service_pb.js";
import { DeviceService } from "./gen/kiln/v1/device_service_pb.js";
import { KernelService } from "./gen/kiln/v1/kernel_service_pb.js";
import { SessionService } from "./gen/kiln/v1/session_service_pb.js";
import type { KilnError } from "./errors.js";

// Which failed calls are made again, and when. A server that is asked for too much refuses at once, and says when to
// come again. If all its clients came at that moment, or as often as they like, the tries would be a load of their own.
// So a client waits a little longer than it was told, by chance, and has a budget: for ten calls it may make one again,
// and a few at first. Never made again is what may have had an effect, unless it would have the same once more.
const attempts = 3; // of one call, the first among them
const firstWait = 50; // ms
const mostWait = 2000; // who is told to wait longer hears of it instead
const perCall = 0.1; // tries that a call earns
const mostBudget = 10; // that are saved up; they are there at first

// What looks, and what finds a second time what it made the first.
const idempotent = new Set<object>([
  BufferService.method.describe,
  BufferService.method.listTensors,
  DebugService.method.explain,
  DebugService.method.listPrograms,
  DebugService.method.trace,
  DeviceService.method.describe,
  DeviceService.method.list,
  GRPCInferenceService.method.modelMetadata,
  GRPCInferenceService.method.modelReady,
  GRPCInferenceService.method.repositoryIndex,
  KernelService.method.compile,
  KernelService.method.gradient,
  KernelService.method.recordSequence,
  SessionService.method.renew,
  SessionService.method.usage,
]);

export class Retries {
  #budget = mostBudget;

  /** A call begins. */
  earn() {
    this.#budget = Math.min(mostBudget, this.#budget + perCall);
  }

  /**
   * How many milliseconds to wait before a call is made again whose attempt-th attempt, from 1 on, failed so;
   * undefined: it is not. It takes from the budget.
   */
  wait(method: object, failed: KilnError, attempt: number, deadline = Infinity): number | undefined {
    const asked = mayRetry(method, failed);
    if (asked === undefined || attempt >= attempts || asked > mostWait || this.#budget < 1) {
      return undefined;
    }
    const most = Math.min(mostWait, firstWait * 2 ** (attempt - 1));
    const pause = asked === 0 ? Math.random() * most : asked * (1 + Math.random() / 2);
    if (deadline - Date.now() <= pause) {
      return undefined;
    }
    this.#budget--;
    return pause;
  }
}

/** What the server asks for, 0 where it says no time; undefined: the call may have begun, or will not end otherwise. */
function mayRetry(method: object, { status, code, retryAfter }: KilnError): number | undefined {
  if (status === "RESOURCE_EXHAUSTED") {
    return retryAfter;
  }
  // What a server that shuts down has refused has not begun; another server may follow at the address.
  const safe = code === "SHUTTING_DOWN" || (code === undefined && idempotent.has(method));
  return status === "UNAVAILABLE" && safe ? 0 : undefined;
}
