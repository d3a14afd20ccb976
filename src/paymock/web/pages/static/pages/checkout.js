// Keeps the checkout up to date: the server draws every view.

import { announce, by, copy } from "./dom.js";
import { follow } from "./stream.js";

const main = () => document.querySelector("main");
let left, refreshed = Promise.resolve();

follow(`${location.pathname}/events`, {}, ({ status, confirmations, received, speed, seconds_left }) => {
  left = { seconds: seconds_left, speed, at: performance.now() };
  if (`${status} ${confirmations} ${received.raw} ${!speed}` !== main().dataset.shown) refreshed = refreshed.then(refresh).catch(() => {});
  count();
}, (state) => {
  by("connection").textContent = { live: "", 404: "This payment is no longer there." }[state] ?? "Not connected; trying again.";
});
setInterval(count, 500);
ready();

async function refresh() {
  const reply = await fetch(location.pathname, { cache: "no-store" });
  if (!reply.ok) return;
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const headline = by("headline").textContent, focused = document.activeElement?.id;
  main().replaceWith(page.querySelector("main"));
  document.title = page.title;
  ready();
  count();
  if (focused) by(focused)?.focus();
  if (by("headline").textContent !== headline) announce(by("headline").textContent);
}

/** The button works with JavaScript only, so it is shown here. */
function ready() {
  const button = by("copy");
  if (!button) return;
  button.hidden = false;
  button.onclick = () => copy(by("address").textContent, button);
}

function count() {
  if (!by("left") || !left) return;
  const seconds = Math.max(0, left.seconds - ((performance.now() - left.at) / 1000) * left.speed);
  by("left").textContent = `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}
