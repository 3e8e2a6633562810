// A line without axes, of numbers from 0 up.
import { h } from "../lib/view.js";

const WIDTH = 160;
const HEIGHT = 36;

export function spark(label, values, colour = "") {
  const most = Math.max(...values, 1e-12);
  const points = values.map((value, i) => {
    const x = values.length > 1 ? (WIDTH * i) / (values.length - 1) : WIDTH;
    return `${x.toFixed(1)} ${(HEIGHT - 2 - (HEIGHT - 4) * (value / most)).toFixed(1)}`;
  });
  return h("svg", {
    class: `spark ${colour}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, preserveAspectRatio: "none",
  }, h("path", { d: points.length > 1 ? `M${points.join("L")}` : "" }));
}
