// The list of payments: newest first, filtered as one types, live. Older ones come in batches as one scrolls.

import { keyInCommand, request, root } from "./api.js";
import { by, show } from "./dom.js";
import { count, duration } from "./format.js";
import { fragment, update } from "./fragment.js";
import { attempt, now, start } from "./shell.js";

const BATCH = 100, TYPING_MS = 150, AT_TOP = 200;
const FILTERS = ["search", "status", "scenario"];
let filters = read(), batches = [], total = 0, newest, loading, typing;

by("origin").textContent = root;
by("command-key").textContent = keyInCommand();
by("key-note").hidden = !keyInCommand().startsWith("$");
by("filter").addEventListener("submit", (event) => event.preventDefault());
by("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => attempt(filtered), TYPING_MS);
});
by("show-all").addEventListener("click", () => {
  by("filter").reset();
  attempt(filtered);
  by("search").focus();
});
by("more").addEventListener("click", () => attempt(older));
by("show-newer").addEventListener("click", () => {
  scrollTo({ top: 0 });
  attempt(first);
  by("main").focus();
});
new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && attempt(older), { rootMargin: "600px" }).observe(by("paging"));
for (const name of FILTERS) by(name).value = filters[name] ?? "";

start({
  async load(changed) {
    if (changed.has("payments")) await refresh();
  },
  tick,
});

function read() {
  const params = new URLSearchParams(location.search);
  return Object.fromEntries(FILTERS.map((name) => [name, params.get(name)]).filter(([, value]) => value));
}

/** Applies what the form says, and keeps it in the address. */
function filtered() {
  const entered = Object.fromEntries([...new FormData(by("filter"))].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
  if (JSON.stringify(entered) === JSON.stringify(filters)) return;
  filters = entered;
  history.replaceState(null, "", `${location.pathname}${Object.keys(filters).length ? `?${new URLSearchParams(filters)}` : ""}`);
  return first();
}

const query = (page) => new URLSearchParams({ ...filters, ...page });

/** Returns a batch: a part of the list, in an element of its own, from a cursor on. */
async function batch(from) {
  const found = await fragment(`payments?${query({ limit: BATCH, ...(from && { cursor: from }) })}`);
  return { list: found.body.firstElementChild, rows: found.querySelector("tbody"), from };
}

/** Begins the list anew. Of several calls, the last one counts. */
async function first() {
  const wanted = (loading = Symbol("first"));
  try {
    const { list, rows } = await batch();
    if (loading !== wanted) return;
    total = Number(rows.dataset.total);
    newest = rows.querySelector("a")?.dataset.focus;
    if (batches.length === 1 && by("list").contains(batches[0].rows) && rows.children.length > 0) {
      delete batches[0].rows.dataset.next;
      update(batches[0].rows, rows);
    } else {
      rows.shown = rows.innerHTML;
      batches = [{ rows }];
      show(by("list"), rows.children.length > 0 && list.firstElementChild);
    }
    summary();
  } finally {
    if (loading === wanted) loading = undefined;
  }
}

/** Renews what can be seen. New payments come in at the top; when one looks further down, a button leads there. */
async function refresh() {
  if (batches.length < 2 || scrollY < AT_TOP) return first();
  const { data, total: all } = await request("GET", `/_mock/payments?${query({ limit: 1 })}`);
  by("newer").hidden = data[0]?.id === newest && !filters.status; // a status leaves a part of the list for another
  by("show-newer").textContent = all > total ? `Show ${count(all - total, "new payment")}` : "Show the newest";
  if (filters.status) return;
  for (const one of batches.filter(inView)) update(one.rows, (await batch(one.from)).rows);
  tick();
}

async function older() {
  const last = batches.at(-1)?.rows;
  if (loading || !last?.dataset.next || by("paging").hidden) return;
  const wanted = (loading = Symbol("older"));
  try {
    const added = await batch(last.dataset.next);
    if (loading !== wanted) return;
    added.rows.shown = added.rows.innerHTML;
    last.after(added.rows);
    batches.push(added);
    summary();
  } finally {
    if (loading === wanted) loading = undefined;
  }
}

const inView = ({ rows }) => {
  const { top, bottom } = rows.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
};

function tick() {
  for (const { rows } of batches.filter(inView)) {
    for (const row of rows.children) {
      const age = (now() - Date.parse(row.dataset.created)) / 1000 + Number(row.dataset.ahead);
      row.querySelector(".age").textContent = duration(Math.max(0, age));
    }
  }
}

/** Shows how many payments there are, and which of the notes around the list apply. */
function summary() {
  tick();
  const shown = batches.reduce((sum, { rows }) => sum + rows.children.length, 0), more = batches.at(-1).rows.dataset.next;
  const isFiltered = Object.keys(filters).length > 0;
  by("count").textContent = isFiltered ? `${shown.toLocaleString("en-US")}${more ? " or more" : ""} of ${count(total, "payment")}` : count(total, "payment");
  by("show-all").hidden = !isFiltered;
  by("none").hidden = shown > 0 || !isFiltered;
  by("empty").hidden = shown > 0 || isFiltered;
  by("paging").hidden = !more;
  by("newer").hidden = true;
}
