// Keys that work on every page. Arrow keys in tables are the tables' own (table.js).

export const KEYS = [
  ["/", "go to the search field"],
  ["?", "this help"],
  ["t", "dark, light, or as the system has it"],
  ["1 … 9", "the pages, in their order"],
  ["Tab", "from part to part of a page"],
  ["↑ ↓ PgUp PgDn Home End", "from row to row of a table"],
  ["Enter", "open what a row stands for"],
  ["Esc", "leave the search field, close this help, or go back from a program"],
];

export function listenToKeys({ pages, help, theme, back }) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target instanceof HTMLInputElement;
    if (event.key === "Escape" && typing) return event.target.blur();
    if (typing || document.querySelector("dialog[open]")) return;
    const search = document.getElementById("search");
    const page = pages[Number(event.key) - 1];
    if (event.key === "/" && search) search.focus();
    else if (event.key === "?") help();
    else if (event.key === "t") theme();
    else if (event.key === "Escape") back();
    else if (page) location.hash = `#/${page.path}`;
    else return;
    event.preventDefault();
  });
}
