// What the next creations take: the queue, and the form that adds to it.

import { request } from "./api.js";
import { announce, by, h, show } from "./dom.js";
import { showProblems } from "./forms.js";
import { attempt } from "./shell.js";

const PATH = "/_mock/next";
const form = by("next-form");
const { scenario, fault, times } = form.elements;
let previous = "";

const described = (override) => [override.scenario, override.fault && `fault ${override.fault}`].filter(Boolean).join(", ");
const often = (left) => (left ? `×${left}` : "until cleared");

/** Reads what is pending, shows it if it has changed, and returns it in words. */
export async function pending() {
  const { data } = await request("GET", PATH);
  const texts = data.map((override) => `${described(override)} ${often(override.times)}`);
  if (JSON.stringify(data) === previous) return texts;
  previous = JSON.stringify(data);
  by("no-pending").hidden = data.length > 0;
  by("clear-next").hidden = !data.length;
  show(by("pending"), data.map((override) => h("li", {}, h("span", { class: "fault" }, described(override)), ` ${often(override.times)}`)));
  return texts;
}

by("clear-next").addEventListener("click", () => attempt(async () => {
  await request("DELETE", PATH);
  scenario.focus(); // the button goes away
  announce("Cleared");
}));
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = { scenario: scenario.value || undefined, fault: fault.value.trim() || undefined, times: Number(times.value) };
  try {
    if (!body.scenario && !body.fault) throw Object.assign(new Error(), { details: [{ field: "scenario", message: "choose a scenario, or enter a fault" }] });
    await request("POST", PATH, body);
    showProblems(form, by("next-problem"));
    announce("Added to the queue");
  } catch (error) {
    showProblems(form, by("next-problem"), error);
  }
});
