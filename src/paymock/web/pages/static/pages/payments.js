// The list of payments: newest first, filtered, live.

import { request } from "./api.js";
import { by, copy, h, show, table } from "./dom.js";
import { amount, badge, duration, short } from "./format.js";
import { now, start } from "./shell.js";

const params = new URLSearchParams(location.search);
const filters = ["status", "scenario", "order_id"].filter((name) => params.get(name));
let previous = "";

for (const name of filters) by(name).value = params.get(name);
by("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  const entered = [...new FormData(event.target)].filter(([, value]) => value);
  location.assign(`/?${new URLSearchParams(entered)}`);
});

by("origin").textContent = location.origin;
by("copy").addEventListener("click", () => copy(by("command").textContent, by("copy")));

start({ load: (changed) => changed.has("payments") && load(), tick });

async function load() {
  const { data, next_cursor: cursor } = await request("GET", `/_mock/payments?${query({ limit: 25, cursor: params.get("cursor") })}`);
  const current = JSON.stringify([cursor, data.map(({ age_seconds, ...rest }) => rest)]);
  if (current === previous) return ages(data);
  previous = current;
  show(by("list"), data.length > 0 && list(data));
  const filtered = filters.length > 0 || params.has("cursor");
  by("none").hidden = data.length > 0 || !filtered;
  by("empty").hidden = data.length > 0 || filtered;
  show(by("paging"), params.get("cursor") && h("a", { href: `/?${query({})}`, "data-focus": "newest" }, "Newest"), cursor && h("a", { href: `/?${query({ cursor })}`, "data-focus": "older" }, "Older"));
  ages(data);
}

const list = (payments) => h("div", { class: "list" }, table(["Payment", "Scenario", "Status", "Due", "Age"], payments.map((payment) => {
  const { instructions } = payment.attempts[0];
  return h("tr", { "data-id": payment.id },
    h("td", {}, h("a", { href: `/payments/${payment.id}`, "data-focus": payment.id }, payment.order_id), h("small", { class: "mono", title: payment.id }, short(payment.id))),
    h("td", { "data-label": "Scenario" }, payment.scenario),
    h("td", {}, badge(payment.status)),
    h("td", { "data-label": "Due" }, amount(instructions.amounts.due, instructions)),
    h("td", { "data-label": "Age", class: "age" }));
})));

function ages(payments) {
  for (const payment of payments) {
    const cell = document.querySelector(`[data-id="${payment.id}"] .age`);
    if (cell) cell.since = now() - payment.age_seconds * 1000;
  }
  tick();
}

function tick() {
  for (const cell of document.querySelectorAll(".age")) cell.textContent = duration((now() - cell.since) / 1000);
}

function query(more) {
  const parts = [...filters.map((name) => [name, params.get(name)]), ...Object.entries(more).filter(([, value]) => value)];
  return new URLSearchParams(parts);
}
