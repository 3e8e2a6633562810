// Every program in memory: how often it was found, what it took of its device, and how near it is to a roof.
import { h } from "../lib/view.js";
import { roofline } from "../charts/roofline.js";
import { bar, card, leftOut, legend, matches, named, note, search } from "../lib/parts.js";
import { count, plural, rate, short, time } from "../lib/format.js";
import { placeUnder, roofOf } from "../lib/model.js";
import { Table } from "../lib/table.js";
import { programLink } from "./now.js";

export class ProgramsPage {
  query = "rows=1000000"; // all that the server gives

  constructor(context) {
    this.context = context;
    this.wanted = "";
    this.roof = { flops: 0, bytes: 0, ridge: NaN };
    this.table = new Table("Programs", this.columns(), {
      sort: "time", idOf: (row) => row.id, link: (row) => programLink(row.graph_hash, row.device, row.tenant), redraw: context.redraw, limit: 18,
    });
  }

  view(state) {
    const { colourOf, redraw } = this.context;
    // Scrolling draws the page anew many times between two answers.
    if (this.seen?.state !== state || this.seen.wanted !== this.wanted) {
      this.seen = { state, wanted: this.wanted, rows: state.programs.filter((row) => matches(this.wanted, row.graph_hash, row.device, row.tenant)) };
      this.roof = roofOf(state.programs);
    }
    const { rows } = this.seen;
    const tenants = state.names.filter((name) => rows.some((row) => row.tenant === name && row.runs > 0));
    return [
      h("div", { class: "tools" }, search("hash, tenant, device", this.wanted, (text) => { this.wanted = text; redraw(); }),
        h("span", { class: "aside" }, `${plural(rows.length, "program")}${rows.length < state.programs.length ? ` of ${count(state.programs.length)}` : ""}`)),
      card("Programs", this.table.view(rows), leftOut(state.programs_left_out, "programs")),
      card("Roofline",
        roofline("Programs by operations for each byte and operations a second; the table has the numbers", this.context.width(), rows, this.roof, colourOf, this.table.current),
        legend(tenants.map((name) => [name, colourOf(name)])),
        note("The roofs are the most that any of these programs reaches, in bytes and in operations a second, with operations and bytes as the compiler counts them. Under the slope a program waits for memory, under the flat part for arithmetic. The ring is the row with the focus.")),
    ];
  }

  columns() {
    const { colourOf } = this.context;
    const place = (row) => placeUnder(this.roof, row);
    return [
      { name: "hash", title: "program", text: (row) => row.graph_hash, node: (row) => h("code", null, short(row.graph_hash)) },
      { name: "tenant", title: "tenant", text: (row) => row.tenant, node: (row) => named(colourOf(row.tenant), row.tenant) },
      { name: "device", title: "device", low: true, text: (row) => row.device },
      { name: "hits", title: "hits", kind: "number", text: (row) => row.hits, node: (row) => count(row.hits) },
      { name: "runs", title: "runs", kind: "number", low: true, text: (row) => row.runs, node: (row) => count(row.runs) },
      { name: "time", title: "device time", kind: "number", text: (row) => row.device_ns, node: (row) => time(row.device_ns) },
      { name: "run", title: "a run", kind: "number", low: true, text: (row) => row.run_ns, node: (row) => time(row.run_ns) },
      { name: "reached", title: "reached", kind: "number", low: true, text: (row) => row.flops_per_second, node: (row) => rate(row.flops_per_second, "FLOP/s") },
      { name: "moved", title: "moved", kind: "number", low: true, text: (row) => row.bytes_per_second, node: (row) => rate(row.bytes_per_second, "B/s") },
      {
        name: "roof", title: "of its roof", low: true, wide: true, text: (row) => place(row).part,
        node: (row) => (Number.isNaN(place(row).part) ? "–"
          : bar("of its roof", [{ name: place(row).bound, colour: `bound-${place(row).bound}`, part: place(row).part, text: `${Math.round(100 * place(row).part)} %` }])),
      },
      { name: "compile", title: "compiled in", kind: "number", low: true, text: (row) => row.compile_seconds, node: (row) => time(row.compile_seconds * 1e9) },
    ];
  }
}
