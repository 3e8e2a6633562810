// Parts of a whole, second by second, stacked; and, as dashes, where the borders would be if each had what it is
// entitled to.
import { h } from "../lib/view.js";

const HEIGHT = 260;
const LEFT = 46;
const BOTTOM = 24;
const SPAN = 180; // seconds: what the server keeps

const y = (part) => 8 + (HEIGHT - BOTTOM - 8) * (1 - Math.max(0, Math.min(1, part)));
const at = (point) => `${point[0].toFixed(1)} ${point[1].toFixed(1)}`;

// `width` in pixels; `seconds`: as model.js' sharesOverTime; the last is the one that has just ended.
export function areaChart(label, width, seconds, tenants, colourOf) {
  const x = (ago) => LEFT + ((width - LEFT) * (SPAN - ago)) / SPAN;
  const agos = seconds.map((_, i) => seconds.length - 1 - i);
  const values = (name) => seconds.map((second) => second.find((each) => each.tenant === name) ?? { part: 0, entitled: 0 });
  const floor = seconds.map(() => 0);
  const border = seconds.map(() => 0);
  const areas = [];
  const dashes = [];
  for (const [i, name] of tenants.entries()) {
    const rows = values(name);
    const low = agos.map((ago, k) => [x(ago), y(floor[k])]);
    rows.forEach((row, k) => { floor[k] += row.part; border[k] += row.entitled; });
    const high = agos.map((ago, k) => [x(ago), y(floor[k])]);
    if (high.length > 1) {
      areas.push(h("path", {
        key: name, class: colourOf(name), d: `M${high.map(at).join("L")}L${low.reverse().map(at).join("L")}Z`,
      }));
      // The uppermost border is that of the whole.
      if (i + 1 < tenants.length) {
        dashes.push(h("path", { key: name, class: "entitled", d: `M${agos.map((ago, k) => at([x(ago), y(border[k])])).join("L")}` }));
      }
    }
  }
  return h("svg", { class: "chart area", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label },
    h("g", { class: "grid" }, [0, 0.25, 0.5, 0.75, 1].map((part) => [
      h("line", { x1: LEFT, x2: width, y1: y(part), y2: y(part) }),
      h("text", { x: LEFT - 8, y: y(part), "text-anchor": "end", "dominant-baseline": "middle" }, `${part * 100} %`),
    ])),
    h("g", null, areas),
    h("g", null, dashes),
    h("g", { class: "grid" }, [180, 120, 60, 0].map((ago) => h("text", {
      x: x(ago), y: HEIGHT - 6, "text-anchor": ago === 0 ? "end" : ago === SPAN ? "start" : "middle",
    }, ago === 0 ? "now" : `−${ago} s`))));
}
