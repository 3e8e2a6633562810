// Tables that sort, that the arrow keys walk, and of which only the rows in sight are in the document: a thousand
// programs cost what forty do.
import { h } from "./view.js";

const ROW = 34; // pixels, as layout.css has it
const BEYOND = 8; // rows kept on each side of what is in sight
const SMALL = 60; // so many are shown whole

// columns: {name, title, text(row) | node(row), order(row), kind: "number" | "text", low: may go on narrow screens}
export class Table {
  constructor(label, columns, { sort, down = true, idOf, link, redraw, limit = 14 }) {
    Object.assign(this, { label, columns, sort: sort ?? columns[0].name, down, idOf, link, redraw, limit });
    this.current = null; // id of the row that has the focus, or had it
    this.top = 0;
    this.height = 0;
  }

  view(rows) {
    const order = `${this.sort} ${this.down}`;
    if (rows !== this.given || order !== this.order) this.rows = this.sorted(rows);
    Object.assign(this, { given: rows, order });
    const [first, last] = this.inSight();
    const total = this.rows.length;
    if (this.current === null || !this.rows.some((row) => this.idOf(row) === this.current)) {
      this.current = total > 0 ? this.idOf(this.rows[0]) : null;
    }
    return h("div", {
      class: "table", vars: { "--rows": Math.min(total, this.limit) },
      on: { scroll: (event) => this.scrolled(event.currentTarget), keydown: (event) => this.pressed(event) },
      made: (element) => { this.element = element; },
    },
    h("table", { "aria-label": this.label, "aria-rowcount": total + 1 },
      h("thead", null, h("tr", { "aria-rowindex": 1 }, this.columns.map((column) => this.head(column)))),
      h("tbody", null,
        gap("above", first * ROW, this.columns.length),
        this.rows.slice(first, last).map((row, i) => this.row(row, first + i)),
        gap("below", (total - last) * ROW, this.columns.length))),
    total === 0 ? h("p", { class: "empty" }, "Nothing yet.") : null);
  }

  sorted(rows) {
    const column = this.columns.find((each) => each.name === this.sort) ?? this.columns[0];
    const order = column.order ?? column.text;
    const sign = this.down ? -1 : 1;
    return rows.map((row, place) => [order(row), place, row]).sort(([a, i], [b, k]) => {
      // What is not known comes last, either way.
      const [noA, noB] = [Number.isNaN(a), Number.isNaN(b)];
      if (noA || noB) return noA - noB || i - k;
      return (typeof a === "string" ? a.localeCompare(b) : a - b) * sign || i - k;
    }).map(([, , row]) => row);
  }

  inSight() {
    const total = this.rows.length;
    if (total <= SMALL) return [0, total];
    const height = this.height || ROW * this.limit;
    const first = Math.max(0, Math.min(Math.floor(this.top / ROW) - BEYOND, total));
    return [first, Math.min(total, first + Math.ceil(height / ROW) + 2 * BEYOND)];
  }

  head(column) {
    const sorts = column.name === this.sort;
    return h("th", {
      key: column.name, scope: "col", class: classOf(column),
      "aria-sort": sorts ? (this.down ? "descending" : "ascending") : null,
    }, h("button", { type: "button", on: { click: () => this.sortBy(column) } },
      column.title, h("span", { class: "arrow", "aria-hidden": "true" }, sorts ? (this.down ? "▾" : "▴") : " ")));
  }

  row(row, place) {
    const id = this.idOf(row);
    return h("tr", {
      key: id, "aria-rowindex": place + 2, "data-id": id, tabindex: id === this.current ? 0 : -1,
      class: this.link ? "leads" : null,
      on: { focus: () => { this.current = id; }, click: () => { if (this.link) location.hash = this.link(row); } },
    }, this.columns.map((column, i) => {
      const shown = column.node ? column.node(row) : column.text(row);
      const inner = i === 0 && this.link ? h("a", { href: this.link(row), tabindex: -1 }, shown) : shown;
      return h(i === 0 ? "th" : "td", { class: classOf(column), scope: i === 0 ? "row" : null }, inner);
    }));
  }

  sortBy(column) {
    this.down = column.name === this.sort ? !this.down : column.kind === "number";
    this.sort = column.name;
    this.redraw();
  }

  scrolled(element) {
    const before = String(this.inSight());
    this.top = element.scrollTop;
    this.height = element.clientHeight;
    if (String(this.inSight()) !== before) this.redraw();
  }

  pressed(event) {
    if (event.target.tagName !== "TR" && event.target !== this.element) return;
    const place = this.rows.findIndex((row) => this.idOf(row) === this.current);
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" && this.link && place >= 0) location.hash = this.link(this.rows[place]);
    else if (event.key in steps) this.go(Math.max(0, Math.min(this.rows.length - 1, place + steps[event.key])));
    else return;
    event.preventDefault();
  }

  go(place) {
    if (this.rows.length === 0) return;
    this.current = this.idOf(this.rows[place]);
    const top = place * ROW;
    const seen = this.element.clientHeight - 2 * ROW;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top > this.element.scrollTop + seen) this.element.scrollTop = top - seen;
    this.top = this.element.scrollTop;
    this.redraw();
    // Once it is drawn: before, its row may not be in the document.
    requestAnimationFrame(() => {
      for (const row of this.element.querySelectorAll("tbody tr")) {
        if (row.dataset.id === this.current) row.focus({ preventScroll: true });
      }
    });
  }
}

const classOf = (column) =>
  [column.kind === "number" ? "number" : "", column.low ? "low" : "", column.wide ? "wide" : ""].join(" ").trim() || null;

// Stands for the rows that are not in the document.
const gap = (name, height, columns) => h("tr", { key: `gap ${name}`, class: "gap", "aria-hidden": "true" },
  h("td", { colspan: columns, vars: { "--height": `${Math.max(0, height)}px` } }));
