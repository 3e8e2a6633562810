// Who has each device now, and had it in the last second.
import { h } from "../lib/view.js";
import { bar, card, dot, facts, leftOut, named } from "../lib/parts.js";
import { bytes, count, percent, plural, short, time } from "../lib/format.js";
import { shareOf } from "../lib/model.js";
import { Table } from "../lib/table.js";

export class NowPage {
  constructor(context) {
    this.context = context;
    this.table = new Table("Tenants", columns(context), {
      sort: "busy", idOf: (tenant) => tenant.name, redraw: context.redraw,
    });
  }

  view(state) {
    return [
      h("div", { class: "cards" }, state.devices.map((device) => this.device(state, device))),
      leftOut(state.devices_left_out, "devices"),
      card("Tenants", this.table.view(state.tenants), leftOut(state.tenants_left_out, "tenants")),
    ];
  }

  device(state, device) {
    const { colourOf } = this.context;
    const parts = state.tenants.map((tenant) => ({ tenant, share: shareOf(tenant, device.name) }))
      .filter(({ share }) => share !== null && share.busy_second > 0)
      .map(({ tenant, share }) => ({
        name: tenant.name, colour: colourOf(tenant.name), part: share.busy_second / Math.max(1, device.busy_second),
        text: percent(share.busy_second),
      }));
    return h("section", { class: "card", key: device.name, "aria-label": device.name },
      h("h2", null, device.name, h("span", { class: device.up ? "state good" : "state bad" }, device.up ? "up" : "lost")),
      h("p", { class: "note" }, device.up ? device.description : device.fault),
      h("h3", null, "Last second", h("span", { class: "aside" }, `busy ${percent(device.busy_second)}`)),
      bar(`${device.name}, last second`, parts, { tall: true }),
      h("h3", null, "On it now"),
      h("ul", { class: "running" }, device.running.map((run, i) => h("li", { key: i },
        dot(colourOf(run.tenant)), h("span", { class: "who" }, run.tenant), what(run, device),
        h("span", { class: "aside" }, time(run.seconds * 1e9)))),
      device.running.length === 0 ? h("li", { class: "idle" }, "nobody") : null),
      leftOut(device.running_left_out, "runs"),
      facts([
        ["waiting", count(device.waiting), "for their turn"],
        ["in flight", count(device.in_flight), "have their turn, or are in the device's queue"],
        ["a newcomer waits", device.predicted_wait_seconds > 0 ? time(device.predicted_wait_seconds * 1e9) : "0", "of weight 1, by what is known of what is there"],
        ["last minute", percent(device.busy_minute)],
        ["launches", count(device.launches)],
      ]),
      h("h3", null, "Memory", h("span", { class: "aside" }, `${bytes(device.memory_in_use_bytes)} of ${bytes(device.memory_limit_bytes)}`)),
      bar(`${device.name}, memory`, [
        { name: "in use", colour: "kind-buffers", part: device.memory_in_use_bytes / device.memory_limit_bytes, text: bytes(device.memory_in_use_bytes) },
        { name: "kept for the next", colour: "kind-cached", part: device.memory_cached_bytes / device.memory_limit_bytes, text: bytes(device.memory_cached_bytes) },
      ]));
  }
}

function what(run, device) {
  const place = run.devices > 1 ? ` on ${plural(run.devices, "device")}` : "";
  if (run.graph_hash === "") return h("span", null, `a transfer, collective or recording${place}`);
  return h("span", null, h("a", { href: programLink(run.graph_hash, device.name, run.tenant) }, short(run.graph_hash)), place);
}

export const programLink = (hash, device, tenant) =>
  `#/program/${[hash, device, tenant].map(encodeURIComponent).join("/")}`;

const sumOf = (tenant, name) => tenant.shares.reduce((sum, share) => sum + share[name], 0);

const columns = ({ colourOf }) => [
  { name: "tenant", title: "tenant", text: (row) => row.name, node: (row) => named(colourOf(row.name), row.name) },
  { name: "weight", title: "weight", kind: "number", text: (row) => row.weight, node: (row) => (row.interactive ? `${row.weight} interactive` : row.weight), low: true },
  { name: "busy", title: "last second", kind: "number", text: (row) => sumOf(row, "busy_second"), node: (row) => percent(sumOf(row, "busy_second")) },
  { name: "minute", title: "last minute", kind: "number", text: (row) => sumOf(row, "busy_minute"), node: (row) => percent(sumOf(row, "busy_minute")), low: true },
  { name: "total", title: "since the start", kind: "number", text: (row) => sumOf(row, "busy_seconds_total"), node: (row) => time(sumOf(row, "busy_seconds_total") * 1e9), low: true },
  { name: "running", title: "running", kind: "number", text: (row) => row.running, low: true },
  { name: "waiting", title: "waiting", kind: "number", text: (row) => row.waiting },
  { name: "sessions", title: "sessions", kind: "number", text: (row) => row.sessions, low: true },
  { name: "refusals", title: "refused", kind: "number", text: (row) => row.refusals, node: (row) => count(row.refusals) },
];
