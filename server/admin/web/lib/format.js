// Numbers as people read them. What is not known is a dash.

const NONE = "–";

const known = (value) => typeof value === "number" && Number.isFinite(value);

// Three digits, no more: 0.123, 1.23, 12.3, 123.
function digits(value) {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return value.toFixed(size >= 10 ? 1 : 2);
}

function scaled(value, step, units) {
  let unit = 0;
  let left = value;
  while (unit + 1 < units.length && Math.abs(left) >= step * 0.9995) {
    left /= step;
    ++unit;
  }
  return `${digits(left)} ${units[unit]}`.trim();
}

export const bytes = (value) => (known(value) ? scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]) : NONE);

// Nanoseconds.
export function time(ns) {
  if (!known(ns)) return NONE;
  if (Math.abs(ns) < 60e9) return ns === 0 ? "0" : scaled(ns, 1000, ["ns", "µs", "ms", "s"]);
  const seconds = Math.round(ns / 1e9);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  return parts.slice(first, first + 2).map(([size, unit], i) => {
    const whole = Math.floor((i === 0 ? seconds : seconds % parts[first][0]) / size);
    return `${whole} ${unit}`;
  }).join(" ");
}

// 12,345, then 1.23 M.
export function count(value) {
  if (!known(value)) return NONE;
  if (Math.abs(value) < 100000) return Number.isInteger(value) ? value.toLocaleString("en-US") : digits(value);
  return scaled(value, 1000, ["", "k", "M", "G", "T", "P"]);
}

export const percent = (part) => (known(part) ? `${(100 * part).toFixed(1)} %` : NONE);

// "12.3 GFLOP/s"
export const rate = (value, unit) => (known(value) ? scaled(value, 1000, ["", "k", "M", "G", "T", "P"]) + unit : NONE);

export const clock = (millis) => new Date(millis).toLocaleTimeString("en-GB");

export const short = (hash) => (hash ? hash.slice(0, 12) : NONE);

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
