// Who holds memory, of which kind.
import { h } from "../lib/view.js";
import { bar, card, facts, leftOut, named } from "../lib/parts.js";
import { bytes, count, percent } from "../lib/format.js";
import { Table } from "../lib/table.js";

const KINDS = [
  ["buffers", "device memory behind handles and running programs"],
  ["messages", "requests and answers on their way"],
  ["programs", "compiled programs and recordings that are loaded"],
  ["shared", "memory shared with clients on the same machine"],
  ["disk", "compiled programs in the folder"],
];

const heldBy = (tenant, kind, device) => tenant.memory
  .filter((row) => row.kind === kind && (device === undefined || row.device === device))
  .reduce((sum, row) => sum + row.bytes, 0);

export class MemoryPage {
  constructor(context) {
    this.context = context;
    const { colourOf, redraw } = context;
    const tenantColumn = { name: "tenant", title: "tenant", text: (row) => row.name, node: (row) => named(colourOf(row.name), row.name) };
    this.tenants = new Table("Memory by tenant and kind", [
      tenantColumn,
      ...KINDS.map(([kind], place) => ({
        name: kind, title: kind, kind: "number", low: place > 0 && kind !== "programs",
        text: (row) => heldBy(row, kind), node: (row) => bytes(heldBy(row, kind)),
      })),
      { name: "limit", title: "limit of buffers", kind: "number", low: true, text: (row) => limitOf(row) || NaN, node: (row) => (limitOf(row) > 0 ? bytes(limitOf(row)) : "none") },
    ], { sort: "buffers", idOf: (row) => row.name, redraw });
    this.sessions = new Table("Sessions", [
      { name: "session", title: "session", text: (row) => row.id || "none" },
      { name: "tenant", title: "tenant", text: (row) => row.tenant, node: (row) => named(colourOf(row.tenant), row.tenant) },
      { name: "host", title: "client", low: true, text: (row) => row.host },
      { name: "buffers", title: "handles", kind: "number", low: true, text: (row) => row.buffers, node: (row) => count(row.buffers) },
      { name: "bytes", title: "bytes", kind: "number", text: (row) => row.bytes, node: (row) => bytes(row.bytes) },
    ], { sort: "bytes", idOf: (row) => row.key, redraw });
  }

  view(state) {
    return [
      h("div", { class: "cards" }, state.devices.map((device) => this.device(state, device)), this.host(state)),
      card("By tenant and kind", this.tenants.view(state.tenants), leftOut(state.tenants_left_out, "tenants")),
      card("Sessions", this.sessions.view(state.sessions.map((row, place) => ({ ...row, key: `${row.id} ${row.tenant} ${place}` }))), leftOut(state.sessions_left_out, "sessions")),
    ];
  }

  device(state, device) {
    const { colourOf } = this.context;
    const limit = device.memory_limit_bytes || 1;
    const parts = state.tenants.map((tenant) => [tenant.name, heldBy(tenant, "buffers", device.name)]).filter(([, held]) => held > 0);
    const known = parts.reduce((sum, [, held]) => sum + held, 0);
    const rest = Math.max(0, device.memory_in_use_bytes - known);
    return h("section", { class: "card", key: device.name, "aria-label": device.name },
      h("h2", null, device.name, h("span", { class: "aside" }, `${percent(device.memory_in_use_bytes / limit)} in use`)),
      bar(`${device.name}, memory by tenant`, [
        ...parts.map(([name, held]) => ({ name, colour: colourOf(name), part: held / limit, text: bytes(held) })),
        { name: "of no tenant", colour: "tint-rest", part: rest / limit, text: bytes(rest) },
        { name: "kept for the next", colour: "kind-cached", part: device.memory_cached_bytes / limit, text: bytes(device.memory_cached_bytes) },
      ], { tall: true }),
      facts([
        ["in use", bytes(device.memory_in_use_bytes)], ["of no tenant", bytes(rest), "the server's own, and what handles do not show", "tint-rest"],
        ["cached", bytes(device.memory_cached_bytes), "freed, and kept for the next", "kind-cached"],
        ["peak", bytes(device.memory_peak_bytes)], ["limit", bytes(device.memory_limit_bytes)],
      ]));
  }

  host(state) {
    const kinds = KINDS.slice(1).map(([kind, title]) => [kind, title, state.tenants.reduce((sum, tenant) => sum + heldBy(tenant, kind), 0)]);
    const whole = kinds.reduce((sum, [, , held]) => sum + held, 0) || 1;
    return h("section", { class: "card", key: "host", "aria-label": "Host" },
      h("h2", null, "Host and disk"),
      bar("Host and disk, by kind", kinds.map(([kind, , held]) => ({ name: kind, colour: `kind-${kind}`, part: held / whole, text: bytes(held) })), { tall: true }),
      facts(kinds.map(([kind, title, held]) => [kind, bytes(held), title, `kind-${kind}`])));
  }
}

const limitOf = (tenant) => tenant.quotas.find((quota) => quota.name === "device_bytes")?.limit ?? 0;
