// Keeps the checkout up to date: the server draws every view.

import { bearer, key, keys } from "./api.js";
import { announce, by, h } from "./dom.js";
import { onCall, showFragment } from "./fragment.js";
import { get, poll } from "./polling.js";

let candidates = []; // keys that may open the payment
let left, told, posted, played, focused;

try {
  candidates = [...new Set([key(), ...keys()])].filter(Boolean);
} catch { /* no storage */ }
poll(`${location.pathname}.json`, {}, async (checkout) => {
  left = { seconds: checkout.seconds_left, speed: checkout.speed, at: performance.now() };
  told = checkout;
  post();
  const { now, seconds_left, ...rest } = checkout, found = JSON.stringify(rest);
  await update(checkout);
  if (played !== found) await play();
  played = found;
  return !checkout.final;
}, (state) => {
  if (state === "live") return thaw();
  freeze(state === 404 ? "There is no such payment." : "Connection lost. Trying again…");
  if (state === 404) refresh().then(() => say("")).then(play).catch(() => {}); // what is said stays
});
onCall(by("customer"), (call) => call().then(() => "", ({ message }) => message).then((text) => { by("refused").textContent = text; }), () => bearer(candidates[0]));
setInterval(count, 500);
new ResizeObserver(post).observe(document.documentElement);
const wide = matchMedia("(min-width: 44rem)");
wide.onchange = placeTools;
placeTools();
by("customer").open = wide.matches;
ready();

/** Shows the payment as it is now. */
async function update({ headline, confirmations, deposits, speed }) {
  const { shown, speed: at } = by("payment").dataset;
  if (`${headline} ${confirmations} ${deposits.length}` !== shown || speed !== Number(at)) await refresh();
  count();
}

/** After a lost connection, what is shown may be used again. */
function thaw() {
  if (!by("customer").inert) return;
  by("payment").inert = by("customer").inert = false;
  (by(focused.id) ?? focused).focus();
  say("");
  announce("Connected again");
}

/** Nothing is known about the payment: what is shown may no longer be true, so that nobody should act on it. */
function freeze(text) {
  left = undefined;
  if (!by("customer").inert) focused = document.activeElement;
  by("payment").inert = by("customer").inert = true;
  say(text);
}

/** Says it in the headline and the title, in place of those of the payment. */
function say(text) {
  document.title = `${text || by("headline").textContent} · paymock`;
  if (by("connection").textContent !== text) by("connection").replaceChildren(...(text ? [h("h1", {}, text)] : []));
}

/** Draws the page anew; a payment that is gone has a page, too. */
async function refresh() {
  const reply = await get(location.pathname);
  if (!reply.ok && reply.status !== 404) throw new Error(reply.statusText);
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const headline = by("headline").textContent, active = document.activeElement.id, open = by("details")?.open;
  by("payment").replaceWith(page.getElementById("payment"));
  by("payment").inert = by("customer").inert && reply.ok;
  document.title = page.title;
  if (open && by("details")) by("details").open = true;
  ready();
  count();
  if (active) by(active)?.focus();
  if (by("headline").textContent !== headline) announce(by("headline").textContent);
}

/** Lets whoever holds the key play the customer. */
async function play() {
  for (; candidates.length; candidates.shift()) {
    try {
      return await showFragment(`checkout/${location.pathname.split("/").at(-1)}`, bearer(candidates[0]));
    } catch (error) {
      if (error.status !== 401 && error.status !== 404) throw error;
    }
  }
  by("customer").replaceChildren();
}

/** In a narrow window, the page of the customer comes first. */
function placeTools() {
  document.querySelector("main")[wide.matches ? "before" : "after"](by("tools"));
}

/** The buttons work with JavaScript only, so they are shown here. */
function ready() {
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
}

function count() {
  if (!by("left") || !left) return;
  const seconds = Math.max(0, left.seconds - ((performance.now() - left.at) / 1000) * left.speed);
  by("left").textContent = `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
  by("window").value = seconds;
}

/** Tells the page that embeds this one, of any origin: `frame-ancestors` decides which may. */
function post() {
  if (parent === window || !told) return;
  const { payment_id, order_id, status, view, final } = told, height = document.documentElement.offsetHeight;
  const changing = `${status} ${view} ${height}`;
  if (changing === posted) return;
  posted = changing;
  parent.postMessage({ source: "paymock", type: "payment.status", payment_id, order_id, status, view, final, height }, "*");
}
