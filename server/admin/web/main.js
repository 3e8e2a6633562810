// The pages for who operates a server: asks it each second what it does, and draws the page that the address names.
// Pages and their order are the table below.
import { h, patch } from "./lib/view.js";
import { tenantColours } from "./lib/colours.js";
import { clock, time } from "./lib/format.js";
import { KEYS, listenToKeys } from "./lib/keys.js";
import { parseMetrics } from "./lib/metrics.js";
import { modelOf, numbers } from "./lib/model.js";
import { get, Poll } from "./lib/poll.js";
import { applyTheme, nextTheme, theme } from "./lib/theme.js";
import { CachePage } from "./pages/cache.js";
import { CallsPage } from "./pages/calls.js";
import { MemoryPage } from "./pages/memory.js";
import { NowPage } from "./pages/now.js";
import { ProgramPage } from "./pages/program.js";
import { ProgramsPage } from "./pages/programs.js";
import { SharesPage } from "./pages/shares.js";
import { WaitsPage } from "./pages/waits.js";
import { WorkersPage } from "./pages/workers.js";

const PAGES = [
  { path: "now", title: "Now", make: NowPage },
  { path: "shares", title: "Shares", make: SharesPage },
  { path: "waits", title: "Waits", make: WaitsPage },
  { path: "calls", title: "Calls", make: CallsPage },
  { path: "memory", title: "Memory", make: MemoryPage },
  { path: "programs", title: "Programs", make: ProgramsPage },
  { path: "cache", title: "Cache", make: CachePage },
  { path: "workers", title: "Compiling", make: WorkersPage },
];
// Without a place among the others.
const PROGRAM = { path: "program", title: "Program", make: ProgramPage, under: "programs" };

let shown = { row: null, page: null, hash: null };
let state = null;
let also = null; // what the page asks for beside the state
let metrics = null;
let gone = null; // {since, reason} while the server does not answer
let colours = tenantColours([]);
let drawing = false;
let asks = false; // the page has just been asked for

const context = {
  redraw: () => schedule(),
  ask: () => poll.now(),
  colourOf: (name) => colours(name),
  // Of a chart in a card: charts are drawn in pixels, so that letters in them are as large as others.
  width: () => Math.max(240, document.querySelector("#page .card")?.clientWidth ?? 0) - 36,
};

function route() {
  if (location.hash === shown.hash || (location.hash && !location.hash.startsWith("#/"))) return;
  const [path, ...rest] = location.hash.replace(/^#\//, "").split("/").map(decoded);
  const row = [...PAGES, PROGRAM].find((each) => each.path === path) ?? PAGES[0];
  shown.page?.leave?.();
  also = metrics = null;
  shown = { row, hash: location.hash, page: new row.make(context, rest) };
  document.title = `${row.title} – kilnd`;
  window.scrollTo(0, 0);
  asks = true;
  poll?.now();
  schedule();
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // written by hand
  }
}

// At most one drawing a frame, whatever asks for it.
function schedule() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    draw();
  });
}

function draw() {
  const active = document.activeElement;
  patch(document.getElementById("pages"), PAGES.map((row) => h("li", { key: row.path }, h("a", {
    href: `#/${row.path}`, "aria-current": row === shown.row || row.path === shown.row.under ? "page" : null,
  }, row.title))));
  if (asks) document.querySelector("#pages [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  asks = false;
  patch(document.getElementById("server"), [state ? `${state.server.version}, up ${time(state.server.up_seconds * 1e9)}` : ""]);
  patch(document.getElementById("theme"), [`theme: ${theme()}`]);
  const live = document.getElementById("live");
  live.className = gone ? "live bad" : "live";
  patch(live, [gone ? `no answer since ${clock(gone.since)}` : state ? "live" : "asking"]);
  document.body.classList.toggle("stale", gone !== null);
  patch(document.getElementById("gone"), gone ? [h("p", null, h("strong", null, "The server does not answer. "), `${gone.reason}. This is what it said last; it is asked again all the time.`)] : []);
  const title = h("h1", { key: "title" }, shown.row.title);
  patch(document.getElementById("page"), [title, h("div", { key: shown.hash || "first", class: "page" },
    state ? shown.page.view(state, also, metrics) : h("p", { class: "note" }, "The server is being asked."))]);
  // A row that has moved among others has lost it.
  if (active !== document.activeElement && active?.isConnected) active.focus({ preventScroll: true });
}

// The state, and what else the page wants, together: numbers on a page are of one moment.
async function answered(json) {
  const page = shown.page;
  const [more, text] = await Promise.allSettled([
    page.also ? get(page.also) : null,
    page.metrics ? fetch("/metrics", { cache: "no-store", signal: AbortSignal.timeout(10000) }).then((answer) => answer.text()) : null,
  ]);
  if (page !== shown.page) return;
  if (more.status === "fulfilled" && more.value) also = page.also === "/api/calls" ? modelOfCalls(more.value) : numbers(more.value);
  if (text.status === "fulfilled" && text.value) metrics = parseMetrics(text.value);
  state = modelOf(json);
  colours = tenantColours(state.names);
  gone = null;
  schedule();
}

const modelOfCalls = (json) => numbers(json.slow_calls);

function failed(error) {
  gone ??= { since: Date.now() };
  gone.reason = error.name === "AbortError" ? "It took too long" : error.message.trim().replace(/\.$/, "");
  schedule();
}

function openHelp() {
  const help = document.getElementById("help");
  patch(document.getElementById("keys"), KEYS.map(([key, what]) => h("div", { key }, h("dt", null, h("kbd", null, key)), h("dd", null, what))));
  help.showModal();
}

function changeTheme() {
  nextTheme();
  schedule();
}

applyTheme();
document.getElementById("theme").addEventListener("click", changeTheme);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the page
  document.getElementById("page").focus();
});
document.getElementById("help-open").addEventListener("click", openHelp);
document.getElementById("help-close").addEventListener("click", () => document.getElementById("help").close());
listenToKeys({ pages: PAGES, help: openHelp, theme: changeTheme, back: () => { if (shown.row === PROGRAM) location.hash = "#/programs"; } });
window.addEventListener("hashchange", route);
window.addEventListener("resize", schedule);

let poll;
route();
poll = new Poll(() => `/api/state?${shown.page.query ?? ""}`, answered, failed);
