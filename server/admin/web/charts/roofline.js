// Each program by its arithmetic for each byte, and what it reaches: under the slope memory is what it waits for,
// under the flat part arithmetic. Both axes are logarithmic.
import { h } from "../lib/view.js";
import { rate } from "../lib/format.js";

const HEIGHT = 320;
const LEFT = 54;
const TOP = 26;
const BOTTOM = 40;
const TICK_X = 70; // at least so many pixels from one to the next
const TICK_Y = 30;

const decadesOf = (values, least) => {
  const logs = values.filter((value) => value > 0).map(Math.log10);
  const low = Math.floor(Math.min(...logs, Infinity));
  const high = Math.ceil(Math.max(...logs, -Infinity));
  if (!Number.isFinite(low)) return [0, least];
  return [low, Math.max(high, low + least)];
};

// Powers of ten, as many as there is room for.
function ticks([low, high], room) {
  const step = Math.max(1, Math.ceil((high - low) / Math.max(1, Math.floor(room))));
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => low + i * step);
}

const powerText = (power) => (power < 0 ? String(Number(`1e${power}`)) : rate(10 ** power, ""));

// `width` in pixels.
export function roofline(label, width, programs, roof, colourOf, selected) {
  const placed = programs.filter((each) => each.flops_per_second > 0 && each.intensity > 0);
  const across = decadesOf([...placed.map((each) => each.intensity), roof.ridge], 2);
  const up = decadesOf([...placed.map((each) => each.flops_per_second), roof.flops], 2);
  const x = (value) => LEFT + ((width - LEFT - 20) * (Math.log10(value) - across[0])) / (across[1] - across[0]);
  const y = (value) => TOP + (HEIGHT - BOTTOM - TOP) * (1 - (Math.log10(value) - up[0]) / (up[1] - up[0]));
  const inside = (value) => Math.max(TOP, Math.min(HEIGHT - BOTTOM, y(value)));

  // One path a tenant, whose points are lines of no length with round ends.
  const dots = new Map();
  for (const each of placed) {
    const at = `M${x(each.intensity).toFixed(1)} ${inside(each.flops_per_second).toFixed(1)}h0`;
    dots.set(each.tenant, (dots.get(each.tenant) ?? "") + at);
  }
  const start = 10 ** across[0];
  const end = 10 ** across[1];
  // The slope begins where it enters the picture.
  const enters = Math.max(start, 10 ** up[0] / roof.bytes);
  const roofPath = roof.ridge > 0 && roof.bytes > 0
    ? `M${x(enters)} ${inside(roof.bytes * enters)}L${x(roof.ridge)} ${inside(roof.flops)}L${x(end)} ${inside(roof.flops)}`
    : "";
  const chosen = placed.find((each) => each.id === selected);
  return h("svg", { class: "chart roofline", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label },
    h("g", { class: "grid" },
      ticks(up, (HEIGHT - TOP - BOTTOM) / TICK_Y).map((power) => [
        h("line", { x1: LEFT, x2: width - 20, y1: y(10 ** power), y2: y(10 ** power) }),
        h("text", { x: LEFT - 8, y: y(10 ** power), "text-anchor": "end", "dominant-baseline": "middle" }, powerText(power)),
      ]),
      ticks(across, (width - LEFT) / TICK_X).map((power) => h("text", { x: x(10 ** power), y: HEIGHT - 22, "text-anchor": "middle" }, powerText(power))),
      h("text", { x: LEFT + (width - LEFT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, "operations for each byte"),
      h("text", { x: 0, y: 4, "dominant-baseline": "hanging" }, "operations a second")),
    h("path", { class: "roof", d: roofPath }),
    [...dots].map(([tenant, d]) => h("path", { key: tenant, class: `dots ${colourOf(tenant)}`, d })),
    chosen === undefined ? null
      : h("circle", { class: "chosen", cx: x(chosen.intensity), cy: inside(chosen.flops_per_second), r: 7 }));
}
