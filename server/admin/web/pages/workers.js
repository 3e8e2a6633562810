// What is compiled now, who waits for it, and how compile workers ended.
import { h } from "../lib/view.js";
import { bar, card, code, dot, facts, note } from "../lib/parts.js";
import { count, percent, time } from "../lib/format.js";
import { byLabel, total } from "../lib/metrics.js";

const CAUSES = {
  crashed: "it crashed", nonsense: "it answered nonsense", cancelled: "nobody waited any more", deadline: "the call's deadline had passed",
  too_long: "it took too long", recycled: "it had done enough jobs, or had grown", idle: "it had nothing to do", made_room: "another tenant needed the place",
  zygote: "what it was forked from had ended", no_memory: "all together had too much memory",
};
const BAD = new Set(["crashed", "nonsense", "too_long", "no_memory", "zygote"]);

export class WorkersPage {
  metrics = true;

  constructor(context) {
    this.context = context;
  }

  view(state, _, metrics) {
    const { compiler } = state;
    const { colourOf } = this.context;
    const busy = compiler.running.length;
    return [
      h("div", { class: "cards" },
        card("Compile threads",
          h("p", { class: "figure" }, `${busy} of ${compiler.threads}`, h("span", null, " at work")),
          bar("Compile threads", [{ name: "at work", colour: "part-compile", part: busy / (compiler.threads || 1), text: count(busy) }], { tall: true }),
          facts([["waiting", count(compiler.waiting)], ["compiled since the start", count(compiler.compiled)]]),
          h("h3", null, "Now"),
          h("ul", { class: "running" }, compiler.running.map((each, i) => h("li", { key: i },
            dot(colourOf(each.tenant)), h("span", { class: "who" }, each.tenant), h("span", { class: "aside" }, time(each.seconds * 1e9)))),
          busy === 0 ? h("li", { class: "idle" }, "nothing") : null)),
        metrics ? this.results(metrics) : null,
        metrics ? this.exits(metrics) : null),
    ];
  }

  results(metrics) {
    const rows = byLabel(metrics, "kiln_compile_seconds_count", "result");
    const all = rows.reduce((sum, [, value]) => sum + value, 0);
    return card("How compilations ended",
      h("p", { class: "figure" }, all > 0 ? time((total(metrics, "kiln_compile_seconds_sum") / all) * 1e9) : "–", h("span", null, " on average")),
      facts(rows.map(([result, value]) => [result, value > 0 && all > 0 ? `${count(value)} (${percent(value / all)})` : count(value)])),
      note("refused: the graph's fault; fault: ours."));
  }

  exits(metrics) {
    const rows = byLabel(metrics, "kiln_compile_worker_exits_total", "cause").filter(([, value]) => value > 0);
    return card("Compile workers that are no more",
      rows.length === 0 ? h("p", { class: "calm" }, "None has ended.")
        : h("ul", { class: "running" }, rows.map(([cause, value]) => h("li", { key: cause },
          h("span", { class: BAD.has(cause) ? "state bad" : "state" }, cause.replace("_", " ")), h("span", null, CAUSES[cause] ?? ""), h("span", { class: "aside" }, count(value))))),
      note("Graphs of tenants are compiled in processes of their own (", code("--compile_isolation"), "). One that ends takes nothing else with it."));
  }
}
