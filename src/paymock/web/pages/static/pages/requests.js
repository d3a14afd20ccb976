// The journal as a table, on its own page and on that of a payment.

import { request } from "./api.js";
import { by, copyButton, h, show, table } from "./dom.js";
import { time } from "./format.js";
import { attempt, start } from "./shell.js";

/** The command that repeats a request; `body` and `headers` are not in the journal. */
function curl(entry, body, headers = []) {
  const lines = [`curl -sS -X ${entry.method} '${location.origin}${entry.path.replaceAll("'", "%27")}'`, `-H "Authorization: Bearer $PAYMOCK_API_KEY"`];
  if (entry.method === "POST") {
    lines.push("-H 'Content-Type: application/json'", `-H "Idempotency-Key: again-$(date +%s)"`, ...headers.map((line) => `-H '${line}'`));
    lines.push(`-d '${body ? JSON.stringify(body).replaceAll("'", "'\\''") : "{}"}'`);
  }
  return lines.join(" \\\n  ");
}

const refused = (entry) => entry.error || !entry.status;

export function journal(entries, body, headers) {
  if (!entries.length) return h("p", { class: "hint" }, "No requests below /v1 to show.");
  return h("div", { class: "list" }, table(["Time", "Request", "Reply", "Took", "Command"], entries.map((entry) => h("tr", {},
    h("td", { "data-label": "Time", class: "whole" }, time(entry.at)),
    h("td", {}, h("span", { class: "mono" }, `${entry.method} ${entry.path}`), h("small", {}, entry.request_id)),
    h("td", {}, h("strong", { class: refused(entry) ? "bad" : "good" }, entry.status || "connection dropped", entry.error && ` ${entry.error}`, entry.idempotency && ` (${entry.idempotency})`),
      entry.message && h("div", {}, entry.message),
      entry.details.map(({ field, message }) => h("small", {}, `${field}: ${message}`))),
    h("td", { "data-label": "Took", class: "whole" }, `${entry.duration_ms} ms`),
    h("td", { class: "whole" }, copyButton("Copy as curl", () => curl(entry, entry.payment_id && body, headers), entry.request_id))))));
}

if (by("refused")) {
  let previous = "";
  const load = async () => {
    const { data } = await request("GET", "/_mock/requests?limit=200");
    const entries = by("refused").checked ? data.filter(refused) : data;
    if (JSON.stringify(entries) !== previous) show(by("requests"), journal(entries));
    previous = JSON.stringify(entries);
  };
  by("refused").addEventListener("change", () => attempt(load));
  by("clear").addEventListener("click", () => attempt(() => request("DELETE", "/_mock/requests")));
  start({ load: (changed) => changed.has("requests") && load() });
}
