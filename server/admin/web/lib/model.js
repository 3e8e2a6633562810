// What /api/state says (proto/kiln/v1/state.proto), with numbers for numbers, and what pages derive from it.

// JSON has no 64-bit integers, so Protocol Buffers writes these fields as text.
const WHOLE = new Set([
  "memory_in_use_bytes", "memory_cached_bytes", "memory_peak_bytes", "memory_limit_bytes", "waiting", "in_flight",
  "queue_entries", "launches", "bytes", "guaranteed_bytes", "used", "limit", "running", "refusals", "buffers",
  "accepted", "pending", "under_way", "payload_bytes", "answer_bytes", "compiled", "hits", "runs", "flops",
  "bytes_read", "bytes_written", "slow_calls_left_out", "now_ns", "misses", "compiles", "rejects", "stores",
  "store_failures", "access_lines_lost", "audit_lines_lost",
]);

export function numbers(value) {
  if (Array.isArray(value)) return value.map(numbers);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [
    name, typeof each === "string" && WHOLE.has(name) ? Number(each) : numbers(each),
  ]));
}

// A caller that is no tenant's has no name of its own.
export const NOBODY = "no tenant";
const named = (name) => (name === "" ? NOBODY : name);

export function modelOf(json) {
  const state = numbers(json);
  for (const row of state.tenants) row.name = named(row.name);
  const owned = [state.programs, state.sessions, state.streams, state.slow_calls, state.history, state.compiler.running,
    ...state.devices.map((device) => device.running)];
  for (const rows of owned) for (const row of rows) row.tenant = named(row.tenant);
  state.names = state.tenants.map((tenant) => tenant.name);
  for (const program of state.programs) derive(program);
  return state;
}

// A tenant's row for a device; null if it has none.
export const shareOf = (tenant, device) => tenant.shares.find((share) => share.device === device) ?? null;

// Of one run, on average, and what that is of arithmetic for each byte: its place under a roofline.
function derive(program) {
  const moved = program.bytes_read + program.bytes_written;
  program.id = `${program.graph_hash}/${program.device}/${program.tenant}`;
  program.run_ns = program.runs > 0 ? (program.device_seconds / program.runs) * 1e9 : NaN;
  program.device_ns = program.device_seconds * 1e9;
  program.flops_per_second = program.run_ns > 0 ? program.flops / (program.run_ns / 1e9) : NaN;
  program.bytes_per_second = program.run_ns > 0 ? moved / (program.run_ns / 1e9) : NaN;
  program.intensity = moved > 0 ? program.flops / moved : NaN;
}

// The most that any of these programs has reached: which roof each is under, and how near it is (0 to 1).
export function roofOf(programs) {
  const most = (name) => Math.max(0, ...programs.map((program) => program[name]).filter(Number.isFinite));
  const roof = { flops: most("flops_per_second"), bytes: most("bytes_per_second") };
  roof.ridge = roof.bytes > 0 ? roof.flops / roof.bytes : NaN;
  return roof;
}

export function placeUnder(roof, program) {
  if (!Number.isFinite(program.flops_per_second)) return { bound: "", part: NaN };
  const byBytes = roof.bytes > 0 ? program.bytes_per_second / roof.bytes : 0;
  const byFlops = roof.flops > 0 ? program.flops_per_second / roof.flops : 0;
  return program.intensity < roof.ridge ? { bound: "memory", part: byBytes } : { bound: "arithmetic", part: byFlops };
}

// The seconds that are kept of a device, oldest first: for each, each tenant's part of what was used, or of the
// whole device, and what it is entitled to among those who used it.
export function sharesOverTime(state, device, ofWhole) {
  const lines = state.history.filter((line) => line.device === device);
  const length = Math.max(0, ...lines.map((line) => line.busy.length));
  const weights = new Map(state.tenants.map((tenant) => [tenant.name, tenant.weight || 1]));
  const seconds = [];
  for (let i = 0; i < length; ++i) {
    const busy = lines.map((line) => line.busy[line.busy.length - length + i] ?? 0);
    const used = busy.reduce((sum, part) => sum + part, 0);
    const weight = lines.reduce((sum, line, k) => sum + (busy[k] > 0 ? weights.get(line.tenant) ?? 1 : 0), 0);
    const whole = ofWhole ? Math.max(1, used) : used;
    seconds.push(lines.map((line, k) => ({
      tenant: line.tenant,
      part: whole > 0 ? busy[k] / whole : 0,
      entitled: busy[k] > 0 ? ((weights.get(line.tenant) ?? 1) / weight) * (ofWhole ? used / whole : 1) : 0,
    })));
  }
  return seconds;
}
