// The list of payments: newest first, filtered as one types, live. Older ones come in batches as one scrolls.

import { keyInCommand, request, root } from "./api.js";
import { by, show } from "./dom.js";
import { chosen, keepInAddress } from "./forms.js";
import { duration } from "./format.js";
import { fragment, update } from "./fragment.js";
import { attempt, now, playUntil, start } from "./shell.js";
import { move } from "./timeline.js";

const BATCH = 100, TYPING_MS = 150, AT_TOP = 200;
let filters = chosen(new URLSearchParams(location.search)), batches = [], newest, loading, typing;
let left = history.state; // what one left, before Back
history.scrollRestoration = "manual";

by("filter").addEventListener("submit", (event) => event.preventDefault());
by("filter").addEventListener("input", ({ target }) => {
  clearTimeout(typing);
  if (target === by("search")) typing = setTimeout(() => attempt(filtered), TYPING_MS);
  else attempt(filtered);
});
by("play").addEventListener("click", () => attempt(play));
by("more").addEventListener("click", () => attempt(older));
by("show-newer").addEventListener("click", () => {
  scrollTo(0, 0);
  attempt(first);
  by("main").focus();
});
const heights = new ResizeObserver((seen) => seen.forEach(({ target: { id, offsetHeight } }) => document.documentElement.style.setProperty(`--${id}`, `${offsetHeight}px`)));
for (const id of ["clock", "filter"]) heights.observe(by(id)); // they stay in view, above what scrolls
new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && attempt(older), { rootMargin: "600px" }).observe(by("paging"));
for (const name of ["search", "scenario"]) by(name).value = filters[name] ?? "";

addEventListener("pagehide", () => {
  history.replaceState({ batches: batches.length, top: scrollY, row: document.activeElement.dataset.focus }, "");
});
start({
  load: () => (left ? comeBack() : refresh()),
  tick,
});
by("origin").textContent = root;
by("command-key").textContent = keyInCommand();

/** Applies what the form says, and keeps it in the address. */
function filtered() {
  filters = chosen(new FormData(by("filter")));
  keepInAddress(filters);
  return first();
}

/** Returns a batch: a part of the list, in an element of its own, from a cursor on. The first has the filter by status. */
async function batch(from, limit = BATCH) {
  const found = await fragment(`payments?${new URLSearchParams({ ...filters, limit, ...(from && { cursor: from }) })}`);
  const [list, rows, statuses] = [".list", "tbody", "#statuses"].map((part) => found.querySelector(part));
  return { list, rows, statuses, from };
}

/** Returns a batch; false if another one has been asked for meanwhile. */
async function latest(from) {
  const wanted = (loading = {});
  try {
    const found = await batch(from);
    return loading === wanted && found;
  } finally {
    if (loading === wanted) loading = undefined;
  }
}

/** Begins the list anew. */
async function first() {
  const { list, rows, statuses } = await latest();
  if (!list) return;
  update(by("statuses"), statuses);
  newest = rows.querySelector("a")?.dataset.focus;
  if (batches.length === 1 && by("list").contains(batches[0].rows) && rows.children.length > 0) {
    delete batches[0].rows.dataset.next;
    update(batches[0].rows, rows);
  } else {
    rows.shown = rows.innerHTML;
    batches = [{ rows }];
    show(by("list"), rows.children.length > 0 && list);
  }
  summary();
}

/** Renews what can be seen. New payments come in at the top; when one looks further down, a button leads there. */
async function refresh() {
  if (batches.length < 2 || scrollY < AT_TOP) return first();
  const asked = filters, { rows: top, statuses } = await batch(undefined, 1);
  if (filters !== asked) return;
  update(by("statuses"), statuses);
  by("newer").hidden = top.querySelector("a")?.dataset.focus === newest && !filters.status; // whose payments leave the list
  if (filters.status) return;
  for (const one of batches.filter(inView)) update(one.rows, (await batch(one.from)).rows);
  tick();
}

/** Shows the rows that were shown, at the same place, with the focus on the same one. */
async function comeBack() {
  await first();
  while (batches.length < left.batches && (await older()));
  scrollTo(0, left.top);
  document.querySelector(`#list [data-focus="${CSS.escape(left.row)}"]`)?.focus();
  left = undefined;
}

/** Adds a batch. Returns whether there was one. */
async function older() {
  const last = batches.at(-1)?.rows;
  if (loading || !last?.dataset.next) return false;
  const added = await latest(last.dataset.next);
  if (!added) return false;
  added.rows.shown = added.rows.innerHTML;
  last.after(added.rows);
  batches.push(added);
  summary();
  return true;
}

const inView = ({ rows }) => {
  const { top, bottom } = rows.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
};

function tick() {
  for (const { rows } of batches.filter(inView)) {
    for (const left of rows.querySelectorAll(".left")) {
      const row = left.closest("tr"), drawn = row.querySelector("svg");
      const age = (now() - Date.parse(row.dataset.created)) / 1000 + Number(row.dataset.ahead);
      left.textContent = duration(Math.max(0, drawn.dataset.end - age));
      move(drawn, age);
    }
  }
}

/** Creates a payment for each scenario, the last one first: the list then has their order. */
async function play() {
  const example = JSON.parse(by("example").textContent), scenarios = [...by("new-form").elements.scenario];
  let created, lasts = 0;
  for (let number = scenarios.length; number--;) {
    const { value } = scenarios[number];
    const payment = await request("POST", "/v1/payments", { ...example, order_id: `order-${1001 + number}` }, { "Idempotency-Key": `play-${value}`, "X-Mock-Scenario": value });
    created = Date.parse(payment.created_at);
  }
  for (const { timeline } of (await request("GET", "/_mock/scenarios")).data) lasts = Math.max(lasts, timeline.at(-1).offset_seconds);
  await playUntil(created + 1000 * lasts);
  by("main").focus();
}

/** Shows which of the notes around the list apply. */
function summary() {
  tick();
  const isEmpty = !batches[0].rows.children.length, isFiltered = Object.keys(filters).length > 0;
  by("none").hidden = !isEmpty || !isFiltered;
  by("filter").hidden = isEmpty && !isFiltered;
  by("empty").hidden = !by("filter").hidden;
  by("paging").hidden = !batches.at(-1).rows.dataset.next;
  by("newer").hidden = true;
}
