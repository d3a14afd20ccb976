// One payment: what the server draws of it, its clock, and what can be done to it.

import { key, sandboxName } from "./api.js";
import { announce, by } from "./dom.js";
import { duration } from "./format.js";
import { onCall, showFragment } from "./fragment.js";
import { attempt, now, start, utc } from "./shell.js";
import { move } from "./timeline.js";

const id = location.pathname.split("/").at(-1), place = by("picture");
let drawn, since = 0, announced, width, resizing, moment, reading; // moment: the seconds at which it is read, or now

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

by("moment").addEventListener("input", () => attempt(() => readAt(by("moment").value)));
by("moment-now").addEventListener("click", () => {
  by("moment").focus();
  attempt(readAt);
});

/** Shows the payment as it is read at that moment, or now; no clock moves. What is asked meanwhile is read next. */
async function readAt(seconds) {
  moment = seconds;
  by("moment-now").hidden = moment === undefined;
  tick();
  if (reading) return;
  reading = true;
  try {
    for (let read = {}; read !== moment;) {
      read = moment;
      await load();
    }
    announce(by("moment").ariaValueText);
  } finally {
    reading = false;
  }
}

/** Reads the payment and shows it. */
async function load() {
  const asked = place.clientWidth, at = moment === undefined ? "" : `&at=${moment}`;
  const found = await showFragment(`payments/${id}?width=${asked}${at}`).catch((error) => {
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
  slider();
  tick();
}

/** The slider is as long as the timeline below it. */
function slider() {
  const { last } = place.dataset, { pixels } = drawn.dataset;
  by("moment").max = Math.ceil(last);
  by("moment").style.width = `${by("moment").max * pixels + 16}px`; // of the thumb
  by("moment").ariaValueText = `${moment === undefined ? "now" : `${moment} s`}: ${by("moment-status").dataset.status}`;
}

function tick() {
  if (!drawn) return;
  const age = Math.min((now() - since) / 1000, drawn.dataset.next ?? Infinity); // the server says when the next change has come
  by("own-now").textContent = utc(Date.parse(place.dataset.created) + age * 1000);
  move(drawn, age);
  if (moment === undefined) by("moment").value = age;
  by("moment-at").textContent = moment === undefined ? "now" : duration(moment);
}
