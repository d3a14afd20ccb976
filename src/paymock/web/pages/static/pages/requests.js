// The page of the requests: the fault rules, and the journal.

import { request } from "./api.js";
import { by, show } from "./dom.js";
import { faults } from "./faults.js";
import { failed, journal } from "./journal.js";
import { attempt, start } from "./shell.js";

let previous = "";

by("failed").addEventListener("change", () => attempt(requests));
by("clear").addEventListener("click", () => attempt(() => request("DELETE", "/_mock/requests")));
start({
  async load(changed) {
    if (changed.has("payments")) await faults(); // the rules are part of what "payments" stands for
    if (changed.has("requests")) await requests();
  },
});

async function requests() {
  const { data } = await request("GET", "/_mock/requests?limit=200");
  const entries = by("failed").checked ? data.filter(failed) : data;
  if (JSON.stringify(entries) !== previous) show(by("requests"), journal(entries));
  previous = JSON.stringify(entries);
}
