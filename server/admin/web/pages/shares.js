// What each tenant has had of a device over the last three minutes, beside what it is entitled to.
import { h } from "../lib/view.js";
import { areaChart } from "../charts/area.js";
import { bar, card, choice, legend, named, note } from "../lib/parts.js";
import { percent, time } from "../lib/format.js";
import { shareOf, sharesOverTime } from "../lib/model.js";
import { Table } from "../lib/table.js";

export class SharesPage {
  query = "history=180";

  constructor(context) {
    this.context = context;
    this.ofWhole = false;
    this.table = new Table("Shares", this.columns(), { sort: "share", idOf: (row) => row.tenant.name, redraw: context.redraw });
  }

  view(state) {
    const names = state.devices.map((device) => device.name);
    if (!names.includes(this.device)) this.device = names[0];
    const seconds = sharesOverTime(state, this.device, this.ofWhole);
    const tenants = state.names.filter((name) => seconds.some((second) => second.some((each) => each.tenant === name && each.part > 0)));
    const rows = state.tenants.map((tenant) => ({ tenant, share: shareOf(tenant, this.device) })).filter(({ share }) => share !== null);
    const { colourOf, redraw } = this.context;
    return [
      h("div", { class: "tools" },
        names.length > 1 ? choice("Device", names.map((name) => [name, name]), this.device, (name) => { this.device = name; redraw(); }) : null,
        choice("Part of what", [[false, "of what was used"], [true, "of the whole device"]], this.ofWhole, (value) => { this.ofWhole = value; redraw(); })),
      card(`${this.device}: shares by second`,
        seconds.length > 1
          ? areaChart(`Shares of ${this.device} by second; the table below has the numbers`, this.context.width(), seconds, tenants, colourOf)
          : note("The first seconds are being counted."),
        legend(tenants.map((name) => [name, colourOf(name)])),
        note("Dashes are the borders that weights give those who used the device in that second. Where area and dashes part, somebody left what was theirs, or is being caught up with.")),
      card("Last minute", this.table.view(rows),
        note("Entitled is the part by weight among those who used the device then, or wait for it now.")),
    ];
  }

  columns() {
    const { colourOf } = this.context;
    const known = (row, name) => (row.share.busy_minute > 0 || row.share.waiting > 0 ? row.share[name] : NaN);
    const difference = (row) => known(row, "share_minute") - known(row, "entitled_minute");
    return [
      { name: "tenant", title: "tenant", text: (row) => row.tenant.name, node: (row) => named(colourOf(row.tenant.name), row.tenant.name) },
      { name: "weight", title: "weight", kind: "number", text: (row) => row.tenant.weight },
      { name: "share", title: "share", kind: "number", text: (row) => row.share.share_minute, node: (row) => percent(row.share.share_minute) },
      { name: "entitled", title: "entitled", kind: "number", text: (row) => known(row, "entitled_minute"), node: (row) => percent(known(row, "entitled_minute")) },
      { name: "difference", title: "difference", kind: "number", low: true, text: difference, node: (row) => signed(difference(row)) },
      {
        name: "bar", title: "share, and its mark", text: (row) => row.share.share_minute, wide: true, low: true,
        node: (row) => bar(row.tenant.name, [{ name: "share", colour: colourOf(row.tenant.name), part: row.share.share_minute, text: percent(row.share.share_minute) }],
          { mark: Number.isNaN(known(row, "entitled_minute")) ? null : row.share.entitled_minute }),
      },
      { name: "total", title: "since the start", kind: "number", low: true, text: (row) => row.share.busy_seconds_total, node: (row) => time(row.share.busy_seconds_total * 1e9) },
    ];
  }
}

const signed = (part) => (Number.isNaN(part) ? "–" : `${part > 0 ? "+" : part < 0 ? "−" : ""}${(100 * Math.abs(part)).toFixed(1)}`);
