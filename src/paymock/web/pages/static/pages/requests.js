// The page of the requests.

import { request } from "./api.js";
import { by } from "./dom.js";
import { showFragment } from "./fragment.js";
import { attempt, start } from "./shell.js";

by("failed").addEventListener("change", () => attempt(requests));
by("clear").addEventListener("click", () => attempt(() => request("DELETE", "/_mock/requests")));
const requests = () => showFragment(`requests${by("failed").checked ? "?failed=true" : ""}`);
start({ load: requests });
