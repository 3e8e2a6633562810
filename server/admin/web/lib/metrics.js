// The text of /metrics, read as Prometheus reads it.

const SAMPLE = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;
const ESCAPES = { "\\\\": "\\", '\\"': '"', "\\n": "\n" };

const unescaped = (text) => text.replace(/\\[\\"n]/g, (found) => ESCAPES[found]);

// name -> [{labels: {name: value}, value}]
export function parseMetrics(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const sample = line.startsWith("#") ? null : SAMPLE.exec(line);
    if (sample === null) continue;
    const labels = Object.fromEntries([...(sample[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, unescaped(value)]));
    if (!found.has(sample[1])) found.set(sample[1], []);
    found.get(sample[1]).push({ labels, value: Number(sample[3]) });
  }
  return found;
}

// The sum of the samples whose labels are these.
export function total(metrics, name, labels = {}) {
  return (metrics.get(name) ?? []).filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value))
    .reduce((sum, sample) => sum + sample.value, 0);
}

// [label's value, sum], largest first.
export function byLabel(metrics, name, label, labels = {}) {
  const sums = new Map();
  for (const sample of metrics.get(name) ?? []) {
    if (!Object.entries(labels).every(([key, value]) => sample.labels[key] === value)) continue;
    sums.set(sample.labels[label], (sums.get(sample.labels[label]) ?? 0) + sample.value);
  }
  return [...sums].sort(([, a], [, b]) => b - a);
}
