// A graph as boxes and lines: what each node is, and the shape of what it makes.
import { h } from "../lib/view.js";
import { layout } from "./layout.js";
import { FAMILY_NAMES, familyOf, withoutConstants } from "./parse.js";
import { legend } from "../lib/parts.js";

export const MOST_NODES = 600;

const LETTER = 7.2;
const PADDING = 12;
const TEXT_LINE = 16;
const LONGEST = 34;

const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

function labelOf(node) {
  const lines = [`${node.number} ${node.op}${node.dtype && node.dtype !== "void" ? ` ${node.dtype}` : ""}`];
  const detail = [node.argument, node.constants.length > 0 && node.constants.length <= 3 ? `[${node.constants.join(", ")}]` : ""]
    .filter(Boolean).join(" ");
  if (detail) lines.push(detail);
  return lines.map(cut);
}

function lineOf(points) {
  const [first, ...rest] = points;
  let path = `M${first[0].toFixed(1)} ${first[1].toFixed(1)}`;
  let [x, y] = first;
  for (const [nextX, nextY] of rest) {
    const middle = ((y + nextY) / 2).toFixed(1);
    path += `C${x.toFixed(1)} ${middle} ${nextX.toFixed(1)} ${middle} ${nextX.toFixed(1)} ${nextY.toFixed(1)}`;
    [x, y] = [nextX, nextY];
  }
  return path;
}

// `parsed`: what parseGraph gave.
export function picture(label, parsed, zoom) {
  const nodes = withoutConstants(parsed).map((node) => {
    const lines = labelOf(node);
    const longest = Math.max(...lines.map((line) => line.length), node.shape.length + 2);
    return { ...node, lines, width: longest * LETTER + 2 * PADDING, height: (lines.length + (node.shape ? 1 : 0)) * TEXT_LINE + PADDING };
  });
  const { boxes, lines, width, height } = layout(nodes);
  const families = new Set(nodes.map((node) => familyOf(node.op)));
  return h("div", { class: "picture" },
    legend(FAMILY_NAMES.filter((name) => families.has(name)).map((name) => [name, `family-${name}`])),
    h("div", { class: "canvas", tabindex: 0, role: "group", "aria-label": label },
      h("svg", { viewBox: `-8 -8 ${width + 16} ${height + 16}`, width: (width + 16) * zoom, height: (height + 16) * zoom, role: "img", "aria-label": label },
        h("g", { class: "lines" }, lines.map((line) => h("path", { key: `${line.user} ${line.place}`, d: lineOf(line.points) }))),
        nodes.map((node, i) => h("g", {
          key: node.number, class: `node family-${familyOf(node.op)}`, transform: `translate(${boxes[i].x.toFixed(1)} ${boxes[i].y.toFixed(1)})`,
        },
        h("rect", { width: node.width, height: node.height, rx: 6 }),
        node.lines.map((line, k) => h("text", { x: node.width / 2, y: PADDING / 2 + TEXT_LINE * (k + 0.75), "text-anchor": "middle", class: k === 0 ? "op" : "detail" }, line)),
        node.shape ? h("text", { x: node.width / 2, y: node.height - PADDING / 2 - 4, "text-anchor": "middle", class: "shape" }, node.shape) : null)))));
}
