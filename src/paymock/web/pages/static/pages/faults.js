// The fault rules of the sandbox and what is pending, with the dialog that adds a rule.

import { request } from "./api.js";
import { announce, by } from "./dom.js";
import { showProblems } from "./forms.js";
import { fragment, showParts } from "./fragment.js";
import { attempt } from "./shell.js";

const dialog = by("rule-dialog"), form = by("rule-form");
const { kind, fault, operation, order_id, payment_id, skip, times, always } = form.elements;

/** Reads the fault rules and what is pending, and shows them. */
export const showFaults = async () => showParts(await fragment("next-payment"));

const refuse = (error) => showProblems(form, by("rule-problem"), error);

/** Deletes. The focus goes to the button that takes the place of the pressed one, or to what adds another. */
document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-delete]");
  if (!button) return;
  const list = button.closest("[id]"), number = [...list.querySelectorAll("button")].indexOf(button);
  attempt(async () => {
    await request("DELETE", button.dataset.delete);
    await showFaults();
    const left = list.querySelectorAll("td button");
    (left[Math.min(number, left.length - 1)] ?? by(list.id === "rules" ? "add-rule" : "next-scenario")).focus();
    announce("Deleted");
  });
});
by("add-rule").addEventListener("click", () => {
  refuse();
  dialog.showModal();
});
by("rule-cancel").addEventListener("click", () => dialog.close());
always.addEventListener("change", () => { times.disabled = always.checked; });
for (const choice of kind) choice.addEventListener("change", () => { fault.value = choice.value; });
fault.addEventListener("input", () => {
  for (const choice of kind) choice.checked = fault.value.startsWith(choice.value.split("=")[0]);
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const rule = {
    fault: fault.value.trim(), operation: operation.value || undefined, order_id: order_id.value || undefined, payment_id: payment_id.value.trim() || undefined,
    skip: Number(skip.value), times: always.checked ? null : Number(times.value),
  };
  try {
    await request("POST", "/_mock/faults", rule);
    dialog.close();
    announce("Fault rule added");
  } catch (error) {
    refuse(error);
  }
});
