// Where the boxes of a graph go: each node below all of its sources, in layers; within a layer ordered by where its
// neighbours are, so that few lines cross; then each as near above its users as its neighbours in the layer let it.

const GAP_X = 24;
const GAP_Y = 44;
const ROUNDS = 6;
const LINE = 12; // room for a line that passes through a layer

// `nodes`: {sources, width, height}. Answers {boxes: [{x, y}], lines: [[[x, y], …]], width, height}.
export function layout(nodes) {
  const layers = layersOf(nodes);
  const { rows, slots } = withPassages(nodes, layers);
  order(rows, slots);
  place(rows, slots);
  const tops = topsOf(rows, slots);
  const left = Math.min(...slots.map((slot) => slot.x - slot.width / 2));
  const boxes = nodes.map((node, i) => ({ x: slots[i].x - node.width / 2 - left, y: tops[slots[i].layer] }));
  const lines = nodes.flatMap((node, i) => node.sources.map((source, k) => {
    const points = [[slots[source].x - left, tops[slots[source].layer] + nodes[source].height]];
    for (const passage of slots[i].passages[k]) points.push([slots[passage].x - left, tops[slots[passage].layer] + 12]);
    points.push([slots[i].x - left + spread(k, node), tops[slots[i].layer]]);
    return { points, source, user: i, place: k };
  }));
  const width = Math.max(...slots.map((slot) => slot.x + slot.width / 2)) - left;
  const height = Math.max(...nodes.map((node, i) => boxes[i].y + node.height));
  return { boxes, lines, width, height };
}

// Several lines into a box come in beside each other.
const spread = (k, node) => (node.sources.length < 2 ? 0 : (k / (node.sources.length - 1) - 0.5) * Math.min(node.width - 24, 18 * node.sources.length));

// As low as its users let it, so that a parameter stands beside what reads it first.
function layersOf(nodes) {
  const depth = nodes.map(() => 0);
  nodes.forEach((node, i) => { for (const source of node.sources) depth[i] = Math.max(depth[i], depth[source] + 1); });
  const layer = [...depth];
  const latest = nodes.map(() => Infinity);
  for (let i = nodes.length - 1; i >= 0; --i) {
    if (nodes[i].sources.length === 0 && latest[i] !== Infinity) layer[i] = latest[i] - 1;
    for (const source of nodes[i].sources) latest[source] = Math.min(latest[source], layer[i]);
  }
  return layer;
}

// Slots: the nodes, and behind them one for each layer that a line passes through.
function withPassages(nodes, layers) {
  const rows = Array.from({ length: Math.max(...layers) + 1 }, () => []);
  const slots = nodes.map((node, i) => ({ layer: layers[i], width: node.width, height: node.height, passages: [], above: [], below: [] }));
  slots.forEach((slot, i) => rows[slot.layer].push(i));
  for (const [i, node] of nodes.entries()) {
    for (const source of node.sources) {
      const passages = [];
      let last = source;
      for (let layer = layers[source] + 1; layer < layers[i]; ++layer) {
        const passage = slots.push({ layer, width: LINE, height: 0, above: [], below: [] }) - 1;
        rows[layer].push(passage);
        join(slots, last, passage);
        passages.push(last = passage);
      }
      join(slots, last, i);
      slots[i].passages.push(passages);
    }
  }
  return { rows, slots };
}

function join(slots, upper, lower) {
  slots[upper].below.push(lower);
  slots[lower].above.push(upper);
}

// By the mean place of those above, then of those below, and again.
function order(rows, slots) {
  const number = () => rows.forEach((row) => row.forEach((slot, i) => { slots[slot].place = i / Math.max(1, row.length - 1 || 1); }));
  number();
  for (let round = 0; round < ROUNDS; ++round) {
    const side = round % 2 === 0 ? "above" : "below";
    for (const row of round % 2 === 0 ? rows : [...rows].reverse()) {
      const wish = new Map(row.map((slot) => [slot, mean(slots[slot][side].map((other) => slots[other].place), slots[slot].place)]));
      row.sort((a, b) => wish.get(a) - wish.get(b));
      row.forEach((slot, i) => { slots[slot].place = row.length > 1 ? i / (row.length - 1) : wish.get(slot); });
    }
  }
}

const mean = (values, otherwise) => (values.length === 0 ? otherwise : values.reduce((sum, value) => sum + value, 0) / values.length);

// Pushes apart what would overlap, and shifts each layer as a whole to where it wishes to be.
function place(rows, slots) {
  for (const row of rows) {
    let x = 0;
    for (const slot of row) {
      slots[slot].x = x + slots[slot].width / 2;
      x += slots[slot].width + GAP_X;
    }
  }
  for (let round = 0; round < ROUNDS; ++round) {
    for (const row of round % 2 === 0 ? rows : [...rows].reverse()) {
      const side = round % 2 === 0 ? "above" : "below";
      const wishes = row.map((slot) => mean(slots[slot][side].map((other) => slots[other].x), slots[slot].x));
      settle(row, slots, wishes);
    }
  }
}

// Twice, from the left and from the right; the mean of both keeps the distances.
function settle(row, slots, wishes) {
  const room = (a, b) => (slots[a].width + slots[b].width) / 2 + GAP_X;
  const right = [...wishes];
  for (let i = 1; i < row.length; ++i) right[i] = Math.max(right[i], right[i - 1] + room(row[i - 1], row[i]));
  const left = [...wishes];
  for (let i = row.length - 2; i >= 0; --i) left[i] = Math.min(left[i], left[i + 1] - room(row[i], row[i + 1]));
  row.forEach((slot, i) => { slots[slot].x = (left[i] + right[i]) / 2; });
}

function topsOf(rows, slots) {
  const tops = [];
  let top = 0;
  for (const row of rows) {
    tops.push(top);
    top += Math.max(24, ...row.map((slot) => slots[slot].height)) + GAP_Y;
  }
  return tops;
}
