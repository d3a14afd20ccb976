// The form that adds to what the next creations take.

import { request } from "./api.js";
import { announce, by } from "./dom.js";
import { problemAt, showProblems } from "./forms.js";

const form = by("next-form");
const { scenario, fault, times } = form.elements;

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = { scenario: scenario.value || undefined, fault: fault.value.trim() || undefined, times: Number(times.value) };
  try {
    if (!body.scenario && !body.fault) throw problemAt("scenario", "choose a scenario, or enter a fault");
    await request("POST", "/_mock/next", body);
    showProblems(form, by("next-problem"));
    announce("Added to the queue");
  } catch (error) {
    showProblems(form, by("next-problem"), error);
  }
});
