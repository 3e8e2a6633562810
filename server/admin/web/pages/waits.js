// Why a request waits: who is before it, at which place, and by which rule.
import { h } from "../lib/view.js";
import { card, dot, leftOut, named, note } from "../lib/parts.js";
import { bytes, count, percent, plural, short, time } from "../lib/format.js";
import { shareOf } from "../lib/model.js";
import { Table } from "../lib/table.js";

export class WaitsPage {
  constructor(context) {
    this.context = context;
    const { colourOf, redraw } = context;
    this.streams = new Table("Streams of commands", [
      { name: "session", title: "session", text: (row) => row.session || "none" },
      { name: "tenant", title: "tenant", text: (row) => row.tenant, node: (row) => named(colourOf(row.tenant), row.tenant) },
      { name: "pending", title: "not begun", kind: "number", text: (row) => row.pending },
      { name: "under", title: "under way", kind: "number", text: (row) => row.under_way },
      { name: "payload", title: "payload", kind: "number", low: true, text: (row) => row.payload_bytes, node: (row) => bytes(row.payload_bytes) },
      { name: "answers", title: "answers", kind: "number", low: true, text: (row) => row.answer_bytes, node: (row) => bytes(row.answer_bytes) },
      { name: "connected", title: "client", low: true, text: (row) => (row.connected ? "connected" : "gone") },
    ], { sort: "pending", idOf: (row) => row.id, redraw });
  }

  view(state) {
    const reasons = reasonsOf(state);
    const streams = state.streams.map((stream, place) => ({ ...stream, id: `${stream.session} ${place}` }));
    return [
      card("Now", reasons.length === 0 ? h("p", { class: "calm" }, "Nobody waits.")
        : h("ul", { class: "reasons" }, reasons.map((reason) => h("li", { key: `${reason.place} ${reason.tenant}` },
          dot(this.context.colourOf(reason.tenant)),
          h("div", null, h("strong", null, reason.head), h("p", null, reason.why)))))),
      card("Streams of commands", this.streams.view(streams), leftOut(state.streams_left_out, "streams")),
      card("The order", note("At a device, whoever has had least of its time for its weight is next; a tenant of the class INTERACTIVE is put before others by at most 2 ms. A program that has begun is not interrupted. Compile threads go by the same rule. What is beyond a quota is not kept waiting but refused.")),
    ];
  }
}

// A sentence for each that waits, and for each limit that is reached. Those that wait most come first.
export function reasonsOf(state) {
  const reasons = [];
  for (const device of state.devices) {
    for (const tenant of state.tenants) {
      const share = shareOf(tenant, device.name);
      if (share !== null && share.waiting > 0) reasons.push(atDevice(device, tenant, share));
    }
  }
  if (state.compiler.waiting > 0) reasons.push(toCompile(state.compiler));
  reasons.sort((a, b) => b.size - a.size);
  for (const tenant of state.tenants) {
    for (const quota of tenant.quotas) {
      if (quota.limit > 0 && quota.used >= quota.limit) reasons.push(atLimit(tenant, quota));
    }
  }
  return reasons;
}

function atDevice(device, tenant, share) {
  const others = device.running.map((run) =>
    `${run.tenant === tenant.name ? "its own" : `${run.tenant}'s`} ${run.graph_hash ? short(run.graph_hash) : "transfer"}, ${time(run.seconds * 1e9)} so far`);
  const holder = others.length > 0 ? `On the device: ${others.slice(0, 3).join("; ")}${others.length > 3 ? `; and ${others.length - 3} more` : ""}.` : "The device is between two runs.";
  const over = share.share_second - share.entitled_second;
  const rule = over > 0.01 ? "It has had more than its part, so others are first."
    : over < -0.01 ? "It has had less than its part, so it is next when what runs has ended."
      : "It has what it is entitled to; so have the others.";
  return {
    place: device.name, tenant: tenant.name, size: share.waiting,
    head: `${tenant.name}: ${plural(share.waiting, "entry").replace("entrys", "entries")} for ${device.name}`,
    why: `${holder} In the last second ${tenant.name} had ${percent(share.share_second)} of what was used and was entitled to ${percent(share.entitled_second)}. ${rule}`,
  };
}

function toCompile(compiler) {
  const running = compiler.running.map((each) => `${each.tenant}'s for ${time(each.seconds * 1e9)}`).slice(0, 4).join("; ");
  return {
    place: "compile threads", tenant: "", size: compiler.waiting,
    head: `${plural(compiler.waiting, "compilation")} for a thread`,
    why: `All ${plural(compiler.threads, "compile thread")} are at work${running ? `: ${running}` : ""}.`,
  };
}

const atLimit = (tenant, quota) => ({
  place: quota.name, tenant: tenant.name, size: 0,
  head: `${tenant.name}: ${quota.name} is at its limit`,
  why: `${count(quota.used)} of ${count(quota.limit)}. More is refused with QUOTA_EXCEEDED, and not kept waiting.`,
});
