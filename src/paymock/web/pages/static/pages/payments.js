// The list of payments: newest first, filtered as one types, live. Older ones come in batches as one scrolls.

import { keyInCommand, request } from "./api.js";
import { by, copy, h, show, table, td, tr } from "./dom.js";
import { faults } from "./faults.js";
import { amount, badge, breakable, count, duration, isolated, short, visible } from "./format.js";
import { pending } from "./overrides.js";
import { attempt, now, start } from "./shell.js";

const BATCH = 100, TYPING_MS = 150, AT_TOP = 200;
const FILTERS = ["search", "status", "scenario"];
let filters = read(), batches = [], total = 0, newest, loading, typing;

by("origin").textContent = location.origin;
by("command-key").textContent = keyInCommand();
by("key-note").hidden = !keyInCommand().startsWith("$");
by("copy").addEventListener("click", () => copy(by("command").textContent, by("copy")));
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
fill();

start({
  async load(changed) {
    if (!changed.has("payments")) return;
    const [, rules, overrides] = await Promise.all([refresh(), faults(), pending()]); // all are part of what "payments" stands for
    summarize([...overrides, ...(rules ? [count(rules, "fault rule")] : [])]);
  },
  tick,
});

function read() {
  const params = new URLSearchParams(location.search);
  return Object.fromEntries(FILTERS.map((name) => [name, params.get(name)]).filter(([, value]) => value));
}

function fill() {
  for (const name of FILTERS) by(name).value = filters[name] ?? "";
}

/** Applies what the form says, and keeps it in the address. */
function filtered() {
  const entered = Object.fromEntries([...new FormData(by("filter"))].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
  if (JSON.stringify(entered) === JSON.stringify(filters)) return;
  filters = entered;
  history.replaceState(null, "", `/${Object.keys(filters).length ? `?${new URLSearchParams(filters)}` : ""}`);
  return first();
}

const page = (cursor) => request("GET", `/_mock/payments?${new URLSearchParams({ ...filters, limit: BATCH, ...(cursor && { cursor }) })}`);

/** Begins the list anew. Of several calls, the last one counts. */
async function first() {
  const wanted = (loading = Symbol("first"));
  try {
    const { data, next_cursor: next, total: all } = await page();
    if (loading !== wanted) return;
    [total, newest] = [all, data[0]?.id];
    const shown = batches.length === 1 && by("list").firstChild && data.length > 0;
    batches = [batch(data, undefined, next, shown ? batches[0] : {})];
    if (!shown) show(by("list"), data.length > 0 && list(batches[0]));
    summary();
  } finally {
    if (loading === wanted) loading = undefined;
  }
}

/** Renews what can be seen. New payments come in at the top; when one looks further down, a button leads there. */
async function refresh() {
  if (batches.length < 2 || scrollY < AT_TOP) return first();
  const { data, total: all } = await request("GET", `/_mock/payments?${new URLSearchParams({ ...filters, limit: 1 })}`);
  by("newer").hidden = data[0]?.id === newest && !filters.status; // a status leaves a part of the list for another
  by("show-newer").textContent = all > total ? `Show ${count(all - total, "new payment")}` : "Show the newest";
  if (filters.status) return;
  for (const one of batches.filter(inView)) renew(one, (await page(one.from)).data);
  tick();
}

async function older() {
  const last = batches.at(-1);
  if (loading || !last?.next || by("paging").hidden) return;
  const wanted = (loading = Symbol("older"));
  try {
    const { data, next_cursor: cursor } = await page(last.next);
    if (loading !== wanted) return;
    const added = batch(data, last.next, cursor, {});
    batches.push(added);
    by("list").querySelector("table").append(added.body);
    summary();
  } finally {
    if (loading === wanted) loading = undefined;
  }
}

/** A part of the list, in an element of its own; `same`: the one that it renews. */
function batch(payments, start, next, same) {
  const made = { shown: "", body: h("tbody", { role: "rowgroup" }), ...same, from: start, next };
  renew(made, payments);
  return made;
}

function renew(one, data) {
  const shown = JSON.stringify(data.map(({ age_seconds, ...rest }) => rest));
  if (shown !== one.shown) show(one.body, data.map(row));
  one.shown = shown;
  one.payments = data;
  data.forEach((payment, number) => { one.body.children[number].since = now() - payment.age_seconds * 1000; });
}

const list = ({ body }) => {
  const made = table(["Payment", "Scenario", "Status", "Due", "Created", "Age"], []);
  made.lastChild.replaceWith(body);
  return h("div", { class: "list" }, made);
};

function row(payment) {
  const { instructions } = payment.attempts[0];
  return tr({},
    td({}, h("a", { href: `/payments/${payment.id}`, "data-focus": payment.id, class: "clamp", title: visible(payment.order_id) }, isolated(payment.order_id)), h("small", { class: "mono", title: payment.id }, short(payment.id))),
    td({}, breakable(payment.scenario)),
    td({}, badge(payment.status)),
    td({}, amount(instructions.amounts.due, instructions)),
    td({ class: "whole" }, payment.created_at.slice(11, 19), " ", h("small", {}, payment.created_at.slice(0, 10))),
    td({ class: "whole" }, h("span", { class: "age" }), payment.ahead_seconds > 0 && h("small", { class: "ahead", title: "Its clock is ahead of the clock of the sandbox." }, `${duration(payment.ahead_seconds)} ahead`)));
}

const inView = ({ body }) => {
  const { top, bottom } = body.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
};

function tick() {
  for (const { body } of batches.filter(inView)) {
    for (const one of body.children) one.lastChild.firstChild.textContent = duration(Math.max(0, now() - one.since) / 1000);
  }
}

/** Shows how many payments there are, and which of the notes around the list apply. */
function summary() {
  tick();
  const shown = batches.reduce((sum, one) => sum + one.payments.length, 0), more = batches.at(-1).next;
  const isFiltered = Object.keys(filters).length > 0;
  by("count").textContent = isFiltered ? `${shown.toLocaleString("en-US")}${more ? " or more" : ""} of ${count(total, "payment")}` : count(total, "payment");
  by("show-all").hidden = !isFiltered;
  by("none").hidden = shown > 0 || !isFiltered;
  by("empty").hidden = shown > 0 || isFiltered;
  by("paging").hidden = !more;
  by("newer").hidden = true;
}

const summarize = (texts) => show(by("next-summary"), texts.length
  ? h("span", { class: "fault" }, texts.join(" · ")) : h("span", { class: "hint" }, "nothing is pending, no fault rules"));
