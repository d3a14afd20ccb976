// Fragments: parts of a page that the server renders with the data of the sandbox.

import { keyInCommand, request, root } from "./api.js";
import { announce, by, copy, show } from "./dom.js";
import { pause } from "./polling.js";

/** Returns a fragment, as a document, when no mouse button is down: on an element that is replaced, a click is lost. */
export async function fragment(path, headers) {
  const found = await request("GET", `/fragments/${path}`, undefined, headers);
  for (let waits = 0; waits < 20 && document.querySelector(":active"); waits++) await pause(50);
  return found;
}

let requested = 0, newest = 0;

/** Shows each part of a fragment in the element of its id, if there is one. Returns false if a newer one is shown already. */
export async function showFragment(path, headers) {
  const number = ++requested, found = await fragment(path, headers);
  if (number < newest) return false;
  newest = number;
  for (const part of [...found.body.children]) {
    if (by(part.id)) update(by(part.id), part);
  }
  return true;
}

/** Gives an element the content and the data of `part`. What has not changed is left alone. */
export function update(place, part) {
  const html = part.innerHTML;
  Object.assign(place.dataset, part.dataset);
  if (place.shown !== html) show(place, ...part.childNodes);
  place.shown = html;
}

/** Runs `action` with what a pressed button calls: the control API, or the reason why it cannot. */
export function onCall(place, action, headers = () => ({})) {
  place.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-call]");
    if (!button) return;
    const { call, body, whyNot } = button.dataset;
    if (whyNot) announce(whyNot);
    else action(() => request(...call.split(" "), body && JSON.parse(body), headers()), button);
  });
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-command]");
  if (button) copy(button.dataset.command.replace("{origin}", root).replace("Bearer {key}", () => `Bearer ${keyInCommand()}`), button);
});
