// One payment: its timeline, its funding, its JSON, its requests, and what can be done to it.

import { key, request, sandboxName } from "./api.js";
import { announce, by, copyButton, h, show, table, td, tr } from "./dom.js";
import { badge, breakable, duration, isolated, short, time, tokens, visible, words } from "./format.js";
import { journal } from "./journal.js";
import { attempt, now, start, utc } from "./shell.js";
import { fundingBar, MAX_ENTRIES, readings, seenText, timeline } from "./timeline.js";

const id = location.pathname.split("/").at(-1);
const path = `/_mock/payments/${id}`;
let detail, drawn, entries = [], since = 0, announced = "", scrolledFor;

start({ load, tick, paymentId: id });
new ResizeObserver(() => detail && draw()).observe(by("picture"));

async function load(changed) {
  if (changed.has("payments") && !(await loadPayment())) return;
  if (detail && (changed.has("requests") || !by("requests").firstChild)) {
    entries = (await request("GET", `/_mock/requests?limit=${MAX_ENTRIES}&payment_id=${encodeURIComponent(id)}`)).data;
    const { order_id, receive, settlement, pay_with, refund_to, metadata } = detail.payment;
    const body = { order_id, receive, settlement, pay_with, ...(refund_to && { refund_to }), metadata };
    show(by("requests"), journal(entries, body, [`X-Mock-Scenario: ${detail.scenario}`]));
    timelineParts();
  }
}

/** Returns whether there is such a payment. */
async function loadPayment() {
  const found = await request("GET", path).catch((error) => {
    if (error.status !== 404) throw error;
    return null;
  });
  by("payment").hidden = !found;
  by("gone").hidden = Boolean(found);
  by("gone-sandbox").textContent = sandboxName(key());
  detail = found ?? undefined;
  if (!found) {
    document.title = "There is no such payment · paymock";
    return false;
  }
  since = now() - Date.parse(detail.now) + Date.parse(detail.payment.created_at);
  render();
  return true;
}

const age = () => {
  const seconds = (now() - since) / 1000;
  const next = detail.timeline.find((entry) => !entry.reached);
  return next ? Math.min(seconds, next.offset_seconds) : seconds; // the server says when it has come
};

function tick() {
  if (!detail) return;
  drawn?.move(age());
  by("own-now").textContent = utc(Date.parse(detail.payment.created_at) + age() * 1000);
}

function render() {
  const { payment, ahead_seconds: ahead } = detail;
  document.title = `${visible(payment.order_id)}: ${words(payment.status)} · paymock`;
  summary();
  if (announced && announced !== payment.status) announce(`Now ${words(payment.status)}`);
  announced = payment.status;
  by("ahead").textContent = ahead > 0 ? `${duration(ahead)} ahead of the sandbox` : "";
  controls();
  timelineParts();
  funding();
  json();
  tick();
}

function summary() {
  const { payment, scenario } = detail, [{ instructions }] = payment.attempts;
  const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const due = instructions.amounts.due, address = instructions.invoice_address;
  show(by("head"),
    h("div", { class: "row apart" }, h("h1", { class: "clamp", title: visible(payment.order_id) }, isolated(payment.order_id)), badge(payment.status),
      h("a", { href: `/checkout/${payment.id}`, "data-focus": "checkout", class: "end" }, "Open its checkout")),
    h("dl", { class: "facts" },
      fact("Due", h("strong", {}, tokens(due, instructions) ?? `${due} raw`), " ", copyButton("Copy", () => due, "due", "the amount due in raw units")),
      fact("Address", h("code", { title: address }, short(address)), " ", copyButton("Copy", () => address, "address", "the address")),
      fact("Scenario", breakable(scenario)),
      fact("Created", h("span", { class: "whole" }, time(payment.created_at))),
      fact("Payment id", h("code", { title: payment.id }, short(payment.id)), " ", copyButton("Copy id", () => payment.id, "id"))));
}

function timelineParts() {
  draw();
  const seen = readings(detail, entries);
  show(by("table"), table(["After", "What happens", "Status", "The application", "When"], detail.timeline.map((entry, number) => tr({ class: entry.reached ? "" : "dim" },
    [`${entry.offset_seconds} s`, words(entry.event), words(entry.status), seen[number].reads + seen[number].failures ? seenText(seen[number]) : "-", entry.reached ? "past" : "to come"].map((text) => td({}, text))))));
}

function draw() {
  drawn = timeline(detail, entries, age(), Math.max(240, by("picture").clientWidth));
  show(by("picture"), drawn.picture);
}

function sums() {
  const [{ instructions, funding = {} }] = detail.payment.attempts;
  const due = BigInt(instructions.amounts.due);
  const pending = BigInt(funding.amount_received_pending ?? 0), finalized = BigInt(funding.amount_received_finalized ?? 0);
  const missing = due > pending + finalized ? due - pending - finalized : 0n;
  return { due, pending, finalized, missing, excess: BigInt(funding.overpaid_amount ?? 0) };
}

/** By the id of a button: the path and body of its request, and why it is impossible now. */
function actions() {
  const { due, missing } = sums();
  const { instructions: { chain, asset: own }, deposits = [] } = detail.payment.attempts[0];
  const asset = document.querySelector(`#asset [value^="${chain} "]:not([value="${chain} ${own}"])`)?.value.split(" ")[1];
  const over = detail.timeline.every((entry) => entry.reached) && "no changes remain";
  const full = deposits.length >= 100 && "a payment takes a hundred deposits";
  return {
    next: ["advance", { to: "next" }, over],
    end: ["advance", { to: "end" }, over],
    later: ["advance", { seconds: 5 }],
    exact: ["deposits", { amount: `${missing}` }, full || (missing === 0n && "nothing is missing")],
    half: ["deposits", { amount: `${due / 2n}` }, full || (due < 2n && "one raw unit cannot be halved")],
    over: ["deposits", { amount: `${missing + (due / 10n || 1n)}` }, full],
    other: ["deposits", { amount: `${due}`, asset }, full || (!asset && "the catalog has no other asset on this chain")],
  };
}

for (const name of ["next", "end", "later", "exact", "half", "over", "other"]) {
  by(name).addEventListener("click", () => attempt(async () => {
    const [call, body, whyNot] = actions()[name];
    if (whyNot) return announce(whyNot);
    await request("POST", `${path}/${call}`, body);
    await load(new Set(["payments"]));
  }));
}

function controls() {
  const impossible = Object.entries(actions()).map(([name, [, , whyNot]]) => {
    by(name).ariaDisabled = String(Boolean(whyNot)); // it keeps the focus
    return whyNot && h("li", {}, `${by(name).textContent}: ${whyNot}.`);
  });
  show(by("reasons"), impossible);
}

function funding() {
  const { instructions } = detail.payment.attempts[0];
  const { due, pending, finalized, missing, excess } = sums();
  const rows = [["Due", due], ["Pending", pending], ["Finalized", finalized], ["Missing", missing], ["Excess", excess]];
  show(by("funding"), fundingBar(due, pending, finalized),
    h("dl", {}, rows.map(([name, raw]) => [h("dt", {}, name), h("dd", {}, tokens(`${raw}`, instructions) ?? "", " ", h("span", { class: "raw" }, `${raw} raw units`))])));
}

function json() {
  const { payment, before } = detail;
  show(by("json-copy"), copyButton("Copy JSON", () => JSON.stringify(payment, null, 2), "json"));
  by("json-note").textContent = before ? "Marked: the lines that the last step changed." : "Nothing has changed since it was created.";
  show(by("json"), lines(payment, before ?? payment).map(([line, differs]) => h("span", { class: differs ? "new" : "" }, line)));
  const first = by("json").querySelector(".new");
  if (first && payment.updated_at !== scrolledFor) by("json").scrollTop = first.offsetTop - by("json").offsetTop - 60;
  scrolledFor = payment.updated_at;
}

/** The lines of a value as JSON, each with whether it differs from what was there before. */
function lines(value, before, margin = "", name = "", comma = "") {
  const text = JSON.stringify(value), isNew = before === undefined;
  const members = typeof value === "object" ? Object.entries(value ?? {}) : [];
  if (!members.length) return [[margin + name + text + comma, text !== JSON.stringify(before)]];
  const inner = members.flatMap(([key, member], number) =>
    lines(member, before?.[key], `${margin}  `, Array.isArray(value) ? "" : `${JSON.stringify(key)}: `, members[number + 1] ? "," : ""));
  return [[margin + name + text[0], isNew], ...inner, [margin + text.at(-1) + comma, isNew]];
}
