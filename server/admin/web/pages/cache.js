// Whether programs are found, and why not.
import { h } from "../lib/view.js";
import { spark } from "../charts/spark.js";
import { bar, card, code, facts, note } from "../lib/parts.js";
import { bytes, count, percent, plural } from "../lib/format.js";
import { byLabel, total } from "../lib/metrics.js";

const LOOKUPS = "kiln_cache_lookups_total";

const HOW = [
  ["hit", "memory", "in memory"], ["hit", "loaded", "loaded: compiled before, for another device or by another server"],
  ["miss", "compiled", "compiled"], ["miss", "joined", "joined another's compilation"],
  ["miss", "need_graph", "a hash alone, of what is not there"], ["miss", "failed", "failed"],
];

export class CachePage {
  query = "rows=1000000";
  also = "/api/cache";
  metrics = true;
  rates = [];

  constructor(context) {
    this.context = context;
  }

  view(state, cache, metrics) {
    if (!metrics || !cache) return [card("Lookups", note("It is on its way."))];
    const all = total(metrics, LOOKUPS);
    const hits = total(metrics, LOOKUPS, { result: "hit" });
    this.count(state.now_ns, all);
    const held = state.programs.reduce((sum, program) => sum + program.bytes, 0);
    return [
      h("div", { class: "cards" },
        card("Lookups since the start",
          h("p", { class: "figure" }, all > 0 ? percent(hits / all) : "–", h("span", null, " found")),
          bar("Lookups", HOW.map(([result, reason]) => ({ name: reason, colour: `how-${reason}`, part: total(metrics, LOOKUPS, { result, reason }) / (all || 1), text: count(total(metrics, LOOKUPS, { result, reason })) })), { tall: true }),
          facts(HOW.map(([result, reason, title]) => [reason.replace("_", " "), count(total(metrics, LOOKUPS, { result, reason })), title, `how-${reason}`])),
          h("h3", null, "Lookups a second", h("span", { class: "aside" }, `${count(this.rates.at(-1))} now`)),
          spark("Lookups a second, since this page was opened", this.rates)),
        card("In memory", facts([
          ["programs", count(state.programs.length + state.programs_left_out)],
          ["of these, bytes", bytes(held), "of those that are listed"],
          ["hits", count(cache.hits)], ["misses", count(cache.misses)], ["compiled", count(cache.compiles)],
        ])),
        card("On disk", cache.disk ? facts([
          ["found", count(cache.disk.hits)], ["not found", count(cache.disk.misses)],
          ["rejected", count(cache.disk.rejects), "entries that were not as they were written, or not for this server"],
          ["stored", count(cache.disk.stores)], ["not stored", count(cache.disk.store_failures)],
        ]) : note("This server keeps no programs on disk (", code("--program_cache_dir"), ")."))),
      card("Who is refused", refusals(metrics)),
    ];
  }

  // Lookups a second, by what was counted since the last answer.
  count(now, all) {
    if (this.before && now > this.before.now) {
      this.rates.push(Math.max(0, ((all - this.before.all) * 1e9) / (now - this.before.now)));
      if (this.rates.length > 120) this.rates.shift();
    }
    if (this.before?.now !== now) this.before = { now, all };
  }
}

function refusals(metrics) {
  const rows = byLabel(metrics, "kiln_rejections_total", "limit").filter(([, value]) => value > 0);
  if (rows.length === 0) return h("p", { class: "calm" }, "Nobody was refused for a limit.");
  return [facts(rows.map(([limit, value]) => [limit, count(value)])),
    note(`${plural(rows.reduce((sum, [, value]) => sum + value, 0), "call")} or commands since the start, by the limit that was reached.`)];
}
