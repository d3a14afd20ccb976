// One payment: what the server draws of it, its clock, and what can be done to it.

import { key, sandboxName } from "./api.js";
import { announce, by } from "./dom.js";
import { onCall, showFragment } from "./fragment.js";
import { attempt, now, start, utc } from "./shell.js";
import { move } from "./timeline.js";

const id = location.pathname.split("/").at(-1), place = by("picture");
let drawn, since = 0, announced, width, resizing;

start({ load, tick });
new ResizeObserver(() => {
  clearTimeout(resizing);
  if (!drawn || by("content").inert || !place.clientWidth) return; // it cannot be drawn, or not be seen
  if (place.clientWidth !== width) resizing = setTimeout(() => attempt(load), 100);
}).observe(place);
onCall(by("controls"), (call) => attempt(async () => {
  await call();
  await load();
}));

/** Reads the payment and shows it. */
async function load() {
  const asked = place.clientWidth;
  const found = await showFragment(`payments/${id}?width=${asked}`).catch((error) => {
    if (error.status !== 404) throw error;
  });
  if (found === false) return;
  by("payment").hidden = !found;
  by("gone").hidden = Boolean(found);
  by("gone-sandbox").textContent = sandboxName(key());
  drawn = undefined;
  if (!found) {
    document.title = "There is no such payment · paymock";
    return;
  }
  width = asked;
  by("payment").ariaBusy = "false";
  drawn = place.firstElementChild;
  since = now() - drawn.dataset.age * 1000;
  const { title, status } = by("head").dataset;
  document.title = title;
  if (announced && announced !== status) announce(`Now ${status}`);
  announced = status;
  tick();
}

function tick() {
  if (!drawn) return;
  const age = Math.min((now() - since) / 1000, drawn.dataset.next ?? Infinity); // the server says when the next change has come
  by("own-now").textContent = utc(Date.parse(place.dataset.created) + age * 1000);
  move(drawn, age);
}
