// The journal as a table, on its own page and on that of a payment.

import { keyInCommand } from "./api.js";
import { copyButton, h, table, td, tr } from "./dom.js";
import { badge, isolated } from "./format.js";

/** The command that repeats a request. The journal keeps no bodies and headers: without a `body`, it takes one from a file. */
function curl(entry, body, headers = []) {
  const lines = [`curl -sS -X ${entry.method} '${location.origin}${entry.path.replaceAll("'", "%27")}'`, `-H "Authorization: Bearer ${keyInCommand()}"`];
  if (entry.method === "POST") {
    lines.push("-H 'Content-Type: application/json'", `-H "Idempotency-Key: again-$(date +%s)"`, ...headers.map((line) => `-H '${line}'`));
    lines.push(body ? `-d '${JSON.stringify(body).replaceAll("'", "'\\''")}'` : "-d @body.json");
  }
  return lines.join(" \\\n  ");
}

export const failed = (entry) => entry.error || entry.fault;

export function journal(entries, body, headers) {
  if (!entries.length) return h("p", { class: "hint" }, "No requests below /v1 to show.");
  return h("div", { class: "list" }, table(["Time", "Request", "Reply", "Command"], entries.map((entry) => tr({},
    td({ class: "whole" }, entry.at.slice(11, 19), h("small", {}, entry.at.slice(0, 10)), h("small", {}, `took ${entry.duration_ms} ms`)),
    td({ class: "path" }, h("span", { class: "mono" }, `${entry.method} ${entry.path}`), h("small", {}, entry.order_id && ["Order ", isolated(entry.order_id), " · "], h("code", {}, entry.request_id))),
    td({}, h("strong", { class: entry.error || !entry.status ? "bad" : "good" }, entry.status || "no reply", entry.error && ` ${entry.error}`, entry.idempotency && ` (${entry.idempotency})`),
      entry.fault && [" ", h("span", { class: "fault" }, `fault: ${entry.fault}`)],
      entry.shown && h("div", {}, badge(entry.shown)),
      entry.message && h("div", {}, entry.message),
      entry.details.map(({ field, message }) => h("small", {}, `${field}: ${message}`))),
    td({ class: "whole" }, copyButton("Copy as curl", () => curl(entry, entry.payment_id && body, headers), entry.request_id),
      entry.method === "POST" && !(entry.payment_id && body) && h("small", {}, "its body: body.json"))))));
}
