// Small pieces that several pages are put together from.
import { h } from "./view.js";

export const card = (title, ...children) => h("section", { class: "card" }, h("h2", null, title), children);

export const note = (...children) => h("p", { class: "note" }, children);

// A word that is typed as it stands.
export const code = (word) => h("code", null, word);

export const dot = (colour) => h("span", { class: `dot ${colour}`, "aria-hidden": "true" });

export const named = (colour, name) => h("span", { class: "named" }, dot(colour), h("span", null, name));

// A list of numbers with their names, [name, value, what it says, colour].
export const facts = (rows) => h("dl", { class: "facts" }, rows.map(([name, value, title, colour]) =>
  h("div", { key: name, title: title ?? null }, h("dt", null, colour ? dot(colour) : null, name), h("dd", null, value))));

// A bar of parts of 1, each {name, part, colour, text}; what is left is empty. The parts' names and numbers are its
// label, so that it says the same without eyes.
export function bar(label, parts, { tall = false, mark = null } = {}) {
  const shown = parts.filter((each) => each.part > 0);
  const told = shown.map((each) => `${each.name} ${each.text}`).join(", ");
  return h("div", { class: tall ? "bar tall" : "bar", role: "img", "aria-label": `${label}: ${told || "nothing"}` },
    shown.map((each) => h("span", {
      key: each.name, class: each.colour, vars: { "--part": each.part }, title: `${each.name} ${each.text}`,
      "data-part": each.name,
    })),
    mark === null ? null : h("i", { class: "mark", vars: { "--at": mark } }));
}

export const legend = (rows) => h("ul", { class: "legend" }, rows.map(([name, colour, title]) =>
  h("li", { key: name, title: title ?? null }, named(colour, name))));

// One of several, as a row of buttons.
export const choice = (label, options, chosen, choose) => h("div", { class: "choice", role: "group", "aria-label": label },
  options.map(([value, title]) => h("button", {
    key: String(value), type: "button", "aria-pressed": String(value === chosen), on: { click: () => choose(value) },
  }, title)));

export const search = (label, text, change) => h("label", { class: "search" },
  h("span", { class: "hidden" }, label),
  h("input", {
    type: "search", id: "search", placeholder: `${label}  ( / )`, value: text,
    on: { input: (event) => change(event.currentTarget.value) },
  }));

// Whether any of the words is one that was looked for.
export function matches(wanted, ...words) {
  const text = words.join(" ").toLowerCase();
  return wanted.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

export const leftOut = (number, what) => (number > 0 ? note(`${number} more ${what} are not shown.`) : null);
