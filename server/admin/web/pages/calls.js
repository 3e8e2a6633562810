// Where the time of calls went: each a bar of its parts, those that ended last or those that were slow.
import { h } from "../lib/view.js";
import { card, choice, dot, legend, matches, note, search } from "../lib/parts.js";
import { plural, time } from "../lib/format.js";
import { PARTS, partColour } from "../lib/colours.js";

const MOST = 40; // bars

export class CallsPage {
  constructor(context) {
    this.context = context;
    this.kind = "recent";
    this.wanted = "";
    this.scale = "each";
  }

  // What ended lately is another page of the port's.
  get also() {
    return this.kind === "recent" ? "/api/calls" : null;
  }

  view(state, recent) {
    const { redraw } = this.context;
    const calls = (this.kind === "slow" ? state.slow_calls : recent ?? [])
      .filter((call) => matches(this.wanted, call.method, call.tenant, call.device, call.status, call.trace_id));
    const longest = Math.max(...calls.map((call) => call.seconds), 1e-9);
    const used = new Set(calls.flatMap((call) => call.parts.map((part) => part.name)));
    return [
      h("div", { class: "tools" },
        choice("Which calls", [["recent", "recent"], ["slow", `over ${time(state.slow_after_seconds * 1e9)}`]], this.kind, (kind) => { this.kind = kind; this.context.ask(); redraw(); }),
        choice("Scale", [["each", "each by itself"], ["same", "one scale"]], this.scale, (scale) => { this.scale = scale; redraw(); }),
        search("method, tenant, device, status", this.wanted, (text) => { this.wanted = text; redraw(); })),
      card("Where the time went",
        legend(PARTS.filter(([name]) => used.has(name)).map(([name, title]) => [name, partColour(name), title])),
        totals(calls),
        h("ol", { class: "calls" }, calls.slice(0, MOST).map((call, place) => this.call(call, this.scale === "same" ? longest : call.seconds, place))),
        calls.length === 0 ? h("p", { class: "empty" }, this.kind === "slow" ? `No call took longer than ${time(state.slow_after_seconds * 1e9)}.` : "No call has ended lately.") : null,
        calls.length > MOST ? note(`The first ${MOST} of ${plural(calls.length, "call")}.`) : null),
    ];
  }

  call(call, whole, place) {
    const { colourOf } = this.context;
    const told = call.parts.map((part) => `${part.name} ${time(part.seconds * 1e9)}`).join(", ");
    const known = call.parts.reduce((sum, part) => sum + part.seconds, 0);
    const rest = call.seconds - known;
    return h("li", { key: call.trace_id || place },
      h("div", { class: "call" },
        dot(colourOf(call.tenant)), h("span", { class: "who" }, call.tenant),
        h("span", { class: "method" }, call.method), call.status === "OK" ? null : h("span", { class: "state bad" }, call.status),
        h("span", { class: "aside" }, call.device, " ", h("strong", null, time(call.seconds * 1e9)), ` ${time(Math.max(0, call.ago_seconds) * 1e9)} ago`)),
      h("div", { class: "bar tall", role: "img", "aria-label": `${call.method} took ${time(call.seconds * 1e9)}: ${told || "no parts are known"}` },
        call.parts.map((part) => h("span", {
          key: part.name, class: partColour(part.name), vars: { "--part": part.seconds / whole }, title: `${part.name} ${time(part.seconds * 1e9)}`, "data-part": part.name,
        })),
        rest > 0 ? h("span", { key: "rest", class: "part-other", vars: { "--part": rest / whole }, title: `between parts ${time(rest * 1e9)}` }) : null),
      h("div", { class: "largest" }, largest(call) || "not measured in parts"));
  }
}

// The three parts that took most, as text.
const largest = (call) => [...call.parts].sort((a, b) => b.seconds - a.seconds).slice(0, 3)
  .map((part) => `${part.name} ${time(part.seconds * 1e9)}`).join(" · ");

// Of all that are shown, together.
function totals(calls) {
  const sums = new Map();
  for (const call of calls) for (const part of call.parts) sums.set(part.name, (sums.get(part.name) ?? 0) + part.seconds);
  const whole = [...sums.values()].reduce((sum, value) => sum + value, 0);
  if (whole === 0) return null;
  const top = [...sums].sort(([, a], [, b]) => b - a).slice(0, 4).map(([name, value]) => `${name} ${Math.round((100 * value) / whole)}\u00a0%`);
  return note(`Of ${plural(calls.length, "call")} together: ${top.join(", ")}.`);
}
