// The journal as a table, on its own page and on that of a payment.

import { copyButton, h, table } from "./dom.js";
import { badge } from "./format.js";

/** The command that repeats a request; `body` and `headers` are not in the journal. */
function curl(entry, body, headers = []) {
  const lines = [`curl -sS -X ${entry.method} '${location.origin}${entry.path.replaceAll("'", "%27")}'`, `-H "Authorization: Bearer $PAYMOCK_API_KEY"`];
  if (entry.method === "POST") {
    lines.push("-H 'Content-Type: application/json'", `-H "Idempotency-Key: again-$(date +%s)"`, ...headers.map((line) => `-H '${line}'`));
    lines.push(`-d '${body ? JSON.stringify(body).replaceAll("'", "'\\''") : "{}"}'`);
  }
  return lines.join(" \\\n  ");
}

export const failed = (entry) => entry.error || entry.fault;

export function journal(entries, body, headers) {
  if (!entries.length) return h("p", { class: "hint" }, "No requests below /v1 to show.");
  return h("div", { class: "list" }, table(["Time", "Request", "Reply", "Command"], entries.map((entry) => h("tr", {},
    h("td", { "data-label": "Time", class: "whole" }, entry.at.slice(11, 19), h("small", {}, entry.at.slice(0, 10)), h("small", {}, `took ${entry.duration_ms} ms`)),
    h("td", { class: "path" }, h("span", { class: "mono" }, `${entry.method} ${entry.path}`), entry.order_id && h("small", {}, `Order ${entry.order_id}`), h("small", {}, entry.request_id)),
    h("td", {}, h("strong", { class: entry.error || !entry.status ? "bad" : "good" }, entry.status || "no reply", entry.error && ` ${entry.error}`, entry.idempotency && ` (${entry.idempotency})`),
      entry.fault && [" ", h("span", { class: "fault" }, `fault: ${entry.fault}`)],
      entry.shown && h("div", {}, badge(entry.shown)),
      entry.message && h("div", {}, entry.message),
      entry.details.map(({ field, message }) => h("small", {}, `${field}: ${message}`))),
    h("td", { class: "whole" }, copyButton("Copy as curl", () => curl(entry, entry.payment_id && body, headers), entry.request_id))))));
}
