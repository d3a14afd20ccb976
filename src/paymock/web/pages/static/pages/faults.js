// The fault rules, the scenarios of the next payments, and the form that adds to both.

import { request } from "./api.js";
import { announce, by } from "./dom.js";
import { showProblems } from "./forms.js";
import { onCall, showFragment } from "./fragment.js";
import { attempt, start } from "./shell.js";

const form = by("form"), { path, preset, fault, times } = form.elements;
const after = by("after"), always = by("always");

const load = () => showFragment("faults");
const isAfter = (text) => /^(status|delay).*;\s*after|^(drop|reset|hang|hold|extra|truncate)(?!.*;\s*before)/.test(text);

/** The part of a fault that tells the presets apart. */
const kind = (text) => text.replace(/\s|;\s*(after|before|times=\d*)|(?<=^delay|^truncate)=\d*/g, "") + (/^drop/.test(text) && isAfter(text));

function sync() {
  fault.value = fault.value.replace(/^[45]\d\d$/, "status=$&").replace(/^200$/, "status=200; html");
  for (const part of form.querySelectorAll("[data-path]")) part.hidden = part.disabled = part.dataset.path !== path.value;
  for (const card of preset) card.checked = kind(card.value) === kind(fault.value);
  after.checked = isAfter(fault.value);
  after.disabled = !/^(status|delay|drop|reset|hang|hold)/.test(fault.value); // the others have one phase
  times.disabled = always.checked;
}

form.addEventListener("input", ({ target }) => {
  if (target.name === "path" || target.name === "preset") showProblems(form, by("form-problem")); // none
  if (target.name === "preset") fault.value = target.value;
  if (target === after) {
    const usual = fault.value.replace(/\s*;\s*(after|before)/, "");
    fault.value = isAfter(usual) !== after.checked ? usual.replace(/;|$/, `; ${after.checked ? "after" : "before"}$&`) : usual;
  }
  sync();
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const entered = [...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value);
  const { path: to, preset: _, skip, ...body } = Object.fromEntries(entered);
  try {
    await request("POST", to, { ...body, skip: skip && Number(skip), times: always.checked ? null : Number(times.value) });
    showProblems(form, by("form-problem"));
    announce("Added");
  } catch (error) {
    showProblems(form, by("form-problem"), error);
  }
});
/** The focus goes to the button that takes the place of the pressed one, or to the one that adds another. */
onCall(by("content"), (call, button) => attempt(async () => {
  const list = button.closest("[id]"), number = [...list.querySelectorAll("button")].indexOf(button);
  await call();
  await load();
  const left = list.querySelectorAll("td button");
  (left[Math.min(number, left.length - 1)] ?? by("add")).focus();
  announce("Deleted");
}));
sync();
start({ load });
