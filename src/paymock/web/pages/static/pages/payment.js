// One payment: what the server draws of it, its clock, and what can be done to it.

import { key, sandboxName } from "./api.js";
import { announce, by } from "./dom.js";
import { fragment, onCall, showParts } from "./fragment.js";
import { attempt, now, start, utc } from "./shell.js";
import { move } from "./timeline.js";

const RESIZING_MS = 100, MIN_WIDTH = 240, MAX_WIDTH = 4000;
const id = location.pathname.split("/").at(-1);
let drawn, since = 0, announced, scrolledFor, width, resizing, latest;

start({ load, tick, paymentId: id });
new ResizeObserver(([{ contentRect }]) => {
  clearTimeout(resizing);
  if (!drawn || !contentRect.width || by("content").inert) return; // it cannot be seen, or not be drawn
  if (room() !== width) resizing = setTimeout(() => attempt(load), RESIZING_MS);
}).observe(by("picture"));
onCall(by("controls"), (call) => attempt(async () => {
  await call();
  await load();
}));

const room = () => Math.max(MIN_WIDTH, Math.min(by("picture").clientWidth, MAX_WIDTH));

/** Reads the payment and shows it. Of several calls, the last one counts. */
async function load() {
  const wanted = (latest = {});
  const asked = room();
  const found = await fragment(`payments/${id}?width=${asked}`).catch((error) => {
    if (error.status !== 404) throw error;
  });
  if (latest !== wanted) return;
  by("payment").hidden = !found;
  by("gone").hidden = Boolean(found);
  by("gone-sandbox").textContent = sandboxName(key());
  if (found) {
    showParts(found);
    width = asked;
    by("payment").ariaBusy = "false";
    drawn = by("picture").firstElementChild;
    since = now() - drawn.dataset.age * 1000;
    shown(by("head").dataset);
  } else {
    drawn = undefined;
    document.title = "There is no such payment · paymock";
  }
}

function shown({ title, status }) {
  document.title = title;
  if (announced && announced !== status) announce(`Now ${status}`);
  announced = status;
  const changed = by("json").querySelector(".new"), { updated } = by("json").dataset;
  if (changed && updated !== scrolledFor) by("json").scrollTop = changed.offsetTop - by("json").offsetTop - 60;
  scrolledFor = updated;
  tick();
}

function tick() {
  if (!drawn) return;
  const age = Math.min((now() - since) / 1000, drawn.dataset.next ?? Infinity); // the server says when the next change has come
  by("own-now").textContent = utc(Date.parse(by("picture").dataset.created) + age * 1000);
  move(drawn, age);
}
