// One program: what it is, and every stage of its compilation as text and as a picture.
import { h } from "../lib/view.js";
import { parseGraph } from "../graph/parse.js";
import { MOST_NODES, picture } from "../graph/picture.js";
import { bar, card, choice, facts, matches, note, search } from "../lib/parts.js";
import { bytes, count, plural, rate, short, time } from "../lib/format.js";
import { NOBODY, numbers, placeUnder, roofOf } from "../lib/model.js";
import { get } from "../lib/poll.js";
import { Table } from "../lib/table.js";

const AGAIN_MS = 500;

export class ProgramPage {
  query = "rows=1000000";

  constructor(context, [hash, device, tenant]) {
    Object.assign(this, { context, hash, device, tenant });
    this.shown = "picture";
    this.zoom = 1;
    this.wanted = "";
    this.kernels = new Table("Kernels", KERNEL_COLUMNS, { sort: "symbol", down: false, idOf: (row) => row.symbol, redraw: context.redraw });
    this.load();
  }

  get path() {
    const tenant = this.tenant === NOBODY ? "" : this.tenant;
    return `/api/program?${new URLSearchParams({ hash: this.hash, device: this.device, tenant })}`;
  }

  leave() {
    this.left = true;
  }

  // The server compiles it again, to show how; until it has, it says so.
  async load() {
    try {
      for (;;) {
        const answer = await get(this.path);
        if (this.left) return;
        if (answer.stages !== undefined) {
          this.compiled = numbers(answer);
          break;
        }
        this.context.redraw();
        await new Promise((wake) => { setTimeout(wake, AGAIN_MS); });
      }
      const first = this.compiled.stages.find((stage) => /\.normalise$/.test(stage.name)) ?? this.compiled.stages[0];
      if (first) await this.open(first.name);
    } catch (error) {
      this.fault = error.message;
    }
    if (!this.left) this.context.redraw();
  }

  async open(name) {
    this.stage = name;
    this.text = null;
    this.context.redraw();
    try {
      const answer = await get(`${this.path}&${new URLSearchParams({ stage: name })}`);
      if (this.stage !== name) return;
      this.text = answer.text ?? "";
      this.graph = parseGraph(this.text);
    } catch (error) {
      this.text = error.message;
      this.graph = null;
    }
    if (!this.left) this.context.redraw();
  }

  view(state) {
    const row = state.programs.find((each) => each.graph_hash === this.hash && each.device === this.device && each.tenant === this.tenant);
    const place = row && placeUnder(roofOf(state.programs), row);
    return [
      h("p", null, h("a", { href: "#/programs" }, "← programs")),
      card(h("code", { class: "hash" }, this.hash),
        row === undefined ? note("It is not in memory any more.") : facts([
          ["tenant", row.tenant], ["device", row.device], ["hits", count(row.hits), "requests that found it there"], ["runs", count(row.runs)],
          ["device time", time(row.device_ns)], ["a run", time(row.run_ns)],
          ["reached", rate(row.flops_per_second, "FLOP/s")], ["moved", rate(row.bytes_per_second, "B/s")],
          ["of its roof", Number.isNaN(place.part) ? "–" : `${Math.round(100 * place.part)} % (${place.bound})`],
          ["compiled in", time(row.compile_seconds * 1e9)], ["kernels", count(row.kernels)], ["size", bytes(row.bytes)],
          ["last run", row.runs > 0 ? `${time(row.idle_seconds * 1e9)} ago` : "never"],
        ])),
      this.compiled ? card("Kernels", this.kernels.view(this.compiled.kernels)) : null,
      card("Stages of its compilation", this.compiled ? this.stages() : note(this.fault ?? "It is being compiled again, to show how.")),
    ];
  }

  stages() {
    const { redraw } = this.context;
    const slowest = Math.max(...this.compiled.stages.map((stage) => stage.micros), 1e-9);
    const stages = this.compiled.stages.filter((stage) => matches(this.wanted, stage.name));
    return h("div", { class: "stages" },
      h("div", { class: "stage-list" },
        search("stage or kernel", this.wanted, (text) => { this.wanted = text; redraw(); }),
        h("ul", { "aria-label": "Stages", on: { keydown: walk } }, stages.map((stage) => h("li", { key: stage.name },
          h("button", { type: "button", "aria-pressed": String(stage.name === this.stage), on: { click: () => this.open(stage.name) } },
            h("span", { class: "who" }, stage.name), h("span", { class: "aside" }, `${plural(stage.nodes, "node")} · ${time(stage.micros * 1000)}`),
            bar("time", [{ name: "time", colour: "part-compile", part: stage.micros / slowest, text: time(stage.micros * 1000) }])))))),
      h("div", { class: "stage" },
        h("div", { class: "tools" },
          h("h3", null, this.stage),
          choice("Form", [["picture", "picture"], ["text", "text"]], this.shown, (value) => { this.shown = value; redraw(); }),
          this.shown === "picture" && this.graph
            ? choice("Size", [[0.5, "small"], [0.75, "medium"], [1, "full"]], this.zoom, (value) => { this.zoom = value; redraw(); }) : null),
        this.content()));
  }

  content() {
    if (this.text === null || this.text === undefined) return note("It is on its way.");
    if (this.shown === "picture" && this.graph && this.graph.length <= MOST_NODES) {
      // Drawn once: a picture of hundreds of boxes is not compared with itself each second.
      const key = `${this.stage} ${this.zoom}`;
      if (this.drawn?.key !== key) this.drawn = { key, node: picture(`${this.stage}: a picture of ${plural(this.graph.length, "node")}`, this.graph, this.zoom) };
      return h("div", { key: "picture" }, this.drawn.node);
    }
    const why = this.shown !== "picture" ? null
      : note(this.graph ? `${plural(this.graph.length, "node")} are too many for a picture, which has ${MOST_NODES} at most.` : "This stage is text alone.");
    return h("div", { key: "text" }, why, h("pre", { tabindex: 0, role: "region", "aria-label": `${this.stage}: its text` }, this.text));
  }
}

// Up and down among the stages.
function walk(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const next = step && event.target.closest("li")?.[step]?.querySelector("button");
  if (!next) return;
  next.focus();
  event.preventDefault();
}

const KERNEL_COLUMNS = [
  { name: "symbol", title: "kernel", text: (row) => row.symbol, node: (row) => h("code", null, row.symbol) },
  { name: "name", title: "computes", low: true, text: (row) => row.name },
  { name: "iterations", title: "iterations", kind: "number", text: (row) => Number(row.iterations), node: (row) => count(Number(row.iterations)) },
  { name: "flops", title: "operations", kind: "number", text: (row) => row.cost?.flops ?? NaN, node: (row) => count(row.cost?.flops) },
  { name: "read", title: "read", kind: "number", low: true, text: (row) => row.cost?.bytes_read ?? NaN, node: (row) => bytes(row.cost?.bytes_read) },
  { name: "written", title: "written", kind: "number", low: true, text: (row) => row.cost?.bytes_written ?? NaN, node: (row) => bytes(row.cost?.bytes_written) },
  { name: "gates", title: "gates", kind: "number", low: true, text: (row) => row.gates },
  { name: "schedule", title: "schedule", low: true, text: (row) => row.schedule, node: (row) => h("code", { title: row.schedule }, row.schedule || "–") },
];
