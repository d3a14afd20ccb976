// What all pages of the dashboard share.

import { bearer, keep, key, order, randomKey, request } from "./api.js";
import { by } from "./dom.js";
import { raw, time } from "./format.js";
import { follow, pause } from "./stream.js";

const clock = { now: 0, speed: 0, at: 0 };
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

/** The virtual time of the sandbox, in milliseconds. It ends with the year 9999. */
export const now = () => Math.min(clock.now + (performance.now() - clock.at) * clock.speed, Date.UTC(1e4, 0) - 1);

export function problem(error) {
  const place = by("problem");
  place.hidden = !error;
  place.textContent = error?.message ?? "";
}

/** Runs an action, and shows the problem if the server refuses it. */
export async function attempt(action) {
  try {
    problem(null);
    return await action();
  } catch (error) {
    if (error.status === 401) askForKey();
    problem(error);
  }
}

/**
 * Starts a page: `load` gets the set of what has changed ("payments", "requests"), at first and whenever it
 * does; `tick` runs a few times a second, for what only counts. `paymentId` is followed even when it is old.
 */
export function start({ load, tick = () => {}, paymentId }) {
  by("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    keep(by("key").value.trim());
    location.reload();
  });
  by("open-key")?.addEventListener("click", (event) => {
    keep(event.target.dataset.key);
    location.reload();
  });
  by("forget-key").addEventListener("click", () => {
    keep(null);
    location.assign("/");
  });
  if (!key()) return askForKey();
  for (const id of ["clock", "main", "forget-key"]) by(id).hidden = false;
  controls();
  resetDialog();
  newDialog();
  setInterval(() => {
    showTime();
    if (clock.at) tick();
  }, calm ? 1000 : 200);
  const url = `/_mock/events${paymentId ? `?payment_id=${encodeURIComponent(paymentId)}` : ""}`;
  const due = new Set();
  let busy, failed;
  const work = async () => {
    for (busy = true; due.size;) {
      const changed = new Set(due);
      due.clear();
      try {
        await load(changed);
        if (failed) problem(failed = null);
      } catch (error) {
        problem(failed = error);
        if (error.status && error.status < 500) continue;
        changed.forEach((name) => due.add(name));
        await pause(2000);
      }
    }
    busy = false;
  };
  follow(url, bearer(), (notice) => {
    setClock(notice.clock);
    notice.changed.forEach((name) => due.add(name));
    if (!busy) work();
  }, connection);
}

function connection(state) {
  if (state === 401) {
    problem(new Error("The server does not accept this API key."));
    askForKey();
  }
  if (state === "live") problem(null);
  by("live").classList.toggle("on", state === "live");
  by("live").textContent = { live: "Live", 401: "" }[state] ?? "Not connected";
}

function askForKey() {
  for (const id of ["clock", "main"]) by(id).hidden = true;
  by("key-form").hidden = false;
  by("key").focus();
}

function setClock({ now: at, speed }) {
  Object.assign(clock, { now: Date.parse(at), speed, at: performance.now() });
  by("speed").textContent = speed ? `running ×${speed}` : "frozen";
  for (const button of document.querySelectorAll("[data-speed]")) button.ariaPressed = String(Number(button.dataset.speed) === speed);
  showTime();
}

const showTime = () => {
  if (clock.at) by("now").textContent = `${time(new Date(now()).toISOString())} UTC`;
};

function controls() {
  for (const button of document.querySelectorAll("[data-speed]")) {
    button.addEventListener("click", () =>
      attempt(async () => setClock(await request("PUT", "/_mock/clock", { speed: Number(button.dataset.speed) }))));
  }
  by("advance").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async () => setClock(await request("POST", "/_mock/clock/advance", { seconds: Number(by("seconds").value) })));
  });
}

function resetDialog() {
  const dialog = by("reset-dialog");
  by("reset").addEventListener("click", () => {
    dialog.returnValue = "";
    dialog.showModal();
  });
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "reset") return;
    attempt(async () => {
      await request("POST", "/_mock/reset");
      location.assign("/");
    });
  });
}

function newDialog() {
  const dialog = by("new-dialog");
  const refuse = (text) => {
    by("new-problem").hidden = !text;
    by("new-problem").textContent = text;
  };
  let retry;
  by("new").addEventListener("click", () => {
    retry = randomKey(); // pressed twice, it makes one payment
    by("order").value = `order-${Math.floor(Math.random() * 9000) + 1000}`;
    refuse("");
    dialog.showModal();
  });
  by("new-cancel").addEventListener("click", () => dialog.close());
  by("new-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const [chain, asset] = form.get("asset").split(" ");
    const received = raw(form.get("amount"), Number(by("asset").selectedOptions[0].dataset.decimals));
    if (!received) return refuse("The amount must be a positive number, with no more decimals than the asset has.");
    try {
      const payment = await request("POST", "/v1/payments", order(form.get("order"), chain, asset, received, form.get("address")),
        { "Idempotency-Key": retry, "X-Mock-Scenario": form.get("scenario") });
      location.assign(`/payments/${payment.id}`);
    } catch (error) {
      if (error.status) retry = randomKey();
      refuse(error.message);
    }
  });
}
