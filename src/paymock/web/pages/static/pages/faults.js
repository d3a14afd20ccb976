// The fault rules of the sandbox: the list, and the dialog that adds one.

import { request } from "./api.js";
import { announce, by, h, show, table, td, tr } from "./dom.js";
import { showProblems } from "./forms.js";
import { isolated, short } from "./format.js";
import { attempt } from "./shell.js";

const PATH = "/_mock/faults";
const dialog = by("rule-dialog"), form = by("rule-form");
const { kind, fault, operation, order_id, payment_id, skip, times, always } = form.elements;
let previous = "";

/** Reads the rules, shows them if they have changed, and returns how many there are. */
export async function faults() {
  const { data } = await request("GET", PATH);
  if (JSON.stringify(data) === previous) return data.length;
  previous = JSON.stringify(data);
  by("no-rules").hidden = data.length > 0;
  by("delete-rules").hidden = !data.length;
  show(by("rules"), data.length > 0 && h("div", { class: "list" }, table(["Fault", "Requests", "Skips", "Seen", "Applied", "Action"], data.map(row))));
  return data.length;
}

function row(rule, number) {
  const button = h("button", { type: "button", "data-focus": rule.id, "aria-label": `Delete rule ${number + 1}, ${rule.fault}` }, "Delete");
  button.addEventListener("click", () => remove(`${PATH}/${rule.id}`, number));
  const over = rule.applied === rule.times;
  return tr({ class: over ? "dim" : "" },
    td({}, h("span", { class: over ? "mono" : "fault" }, rule.fault)),
    td({}, rule.operation ?? "every operation", rule.order_id && h("small", {}, "Order ", isolated(rule.order_id)),
      rule.payment_id && h("small", { class: "mono", title: rule.payment_id }, short(rule.payment_id))),
    td({ "data-label": "Skips" }, rule.skip),
    td({ "data-label": "Seen" }, rule.seen),
    td({ "data-label": "Applied" }, rule.times ? `${rule.applied} of ${rule.times}` : `${rule.applied}, until deleted`, over && " (used up)"),
    td({ class: "whole" }, button));
}

/** Deletes one rule or all. The focus goes to the rule that takes the place of `number`. */
const remove = (path, number) => attempt(async () => {
  await request("DELETE", path);
  await faults();
  const buttons = by("rules").querySelectorAll("button");
  (buttons[Math.min(number, buttons.length - 1)] ?? by("add-rule")).focus();
  announce("Deleted");
});

const refuse = (error) => showProblems(form, by("rule-problem"), error);

by("delete-rules").addEventListener("click", () => remove(PATH, 0));
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
    await request("POST", PATH, rule);
    dialog.close();
    announce("Fault rule added");
  } catch (error) {
    refuse(error);
  }
});
