// The page of the requests, filtered as one types.

import { request } from "./api.js";
import { by } from "./dom.js";
import { chosen, keepInAddress } from "./forms.js";
import { showFragment } from "./fragment.js";
import { attempt, start } from "./shell.js";

const form = by("select"), filters = () => chosen(new FormData(form));
for (const [name, value] of new URLSearchParams(location.search)) {
  const field = form.elements[name];
  if (field?.type === "checkbox") field.checked = true;
  else if (field) field.value = value;
}
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", () => {
  keepInAddress(filters());
  attempt(requests);
});
by("clear").addEventListener("click", () => attempt(() => request("DELETE", "/_mock/requests")));
const requests = () => showFragment(`requests?${new URLSearchParams(filters())}`);
start({ load: requests });
