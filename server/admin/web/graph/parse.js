// A stage's text (base/graph/graph_text.h) as nodes: enough of it to draw.
//
//   3 ADD : float32 [1, 2] slot=0 @"tag"   # (4, 8)

const LINE = /^\s*(\d+) (\w+)(?: : (\S+))?(?: \[([\d, ]*)\])?(.*)$/;

// The rest of a line: argument, tag and shape. A '#' within a string begins no comment.
function splitRest(rest) {
  let quoted = false;
  for (let i = 0; i < rest.length; ++i) {
    if (rest[i] === "\\" && quoted) ++i;
    else if (rest[i] === '"') quoted = !quoted;
    else if (rest[i] === "#" && !quoted) return [rest.slice(0, i).trim(), rest.slice(i + 1).trim()];
  }
  return [rest.trim(), ""];
}

// [{op, dtype, sources, argument, shape}], or null for a text that is no graph. Each node's sources come before it.
export function parseGraph(text) {
  const nodes = [];
  for (const line of text.split("\n")) {
    if (/^\s*(#|dialect\b|$)/.test(line)) continue;
    const found = LINE.exec(line);
    if (found === null || Number(found[1]) !== nodes.length) return null;
    const sources = found[4] ? found[4].split(",").map(Number) : [];
    if (sources.some((source) => !(source < nodes.length))) return null;
    const [argument, shape] = splitRest(found[5]);
    nodes.push({ op: found[2], dtype: found[3] ?? "", sources, argument, shape });
  }
  return nodes.length > 0 ? nodes : null;
}

// Ops of a kind have a colour, as in `kiln explain --pictures`.
const FAMILIES = [
  ["movement", "PERMUTE RESHAPE EXPAND PAD SHRINK FLIP STRIDE CAT BITCAST VIEW"],
  ["reduce", "REDUCE REDUCE_AXIS ALLREDUCE WMMA"],
  ["call", "CALL FUNCTION TUPLE GETTUPLE PROGRAM KERNEL"],
  ["memory", "LOAD STORE PARAM BUFFER INDEX DEFINE_LOCAL DEFINE_REG ATOMICADD COPY"],
  ["order", "RANGE SPECIAL END AFTER SINK GROUP LINEAR BARRIER IF ENDIF"],
  ["constant", "CONST STACK BIND DEFINE_VAR"],
];

export const FAMILY_NAMES = [...FAMILIES.map(([name]) => name), "elementwise"];

const BY_OP = new Map(FAMILIES.flatMap(([family, ops]) => ops.split(" ").map((op) => [op, family])));
export const familyOf = (op) => BY_OP.get(op) ?? "elementwise";

// Without what is only a number in an argument of another: a picture is of data, not of sizes.
export function withoutConstants(nodes) {
  const kept = new Map();
  const result = [];
  for (const [i, node] of nodes.entries()) {
    const bare = familyOf(node.op) === "constant" && i + 1 < nodes.length;
    if (bare) continue;
    kept.set(i, result.length);
    const constants = node.sources.filter((source) => nodes[source].op === "CONST").map((source) => nodes[source].argument);
    result.push({ ...node, number: i, constants, sources: node.sources.filter((source) => kept.has(source)).map((source) => kept.get(source)) });
  }
  return result;
}
