// The page of the journal.

import { request } from "./api.js";
import { by, show } from "./dom.js";
import { failed, journal } from "./journal.js";
import { attempt, start } from "./shell.js";

let previous = "";

by("failed").addEventListener("change", () => attempt(requests));
by("clear").addEventListener("click", () => attempt(() => request("DELETE", "/_mock/requests")));
start({ load: (changed) => changed.has("requests") && requests() });

async function requests() {
  const { data } = await request("GET", "/_mock/requests?limit=200");
  const entries = by("failed").checked ? data.filter(failed) : data;
  if (JSON.stringify(entries) !== previous) show(by("requests"), journal(entries));
  previous = JSON.stringify(entries);
}
