// What all pages of the dashboard share: the clock, the connection, and what the other parts of their frame do.

import { bearer, key, linkHere, request, root, sandboxName } from "./api.js";
import { creationDialog } from "./creation.js";
import { announce, by, copy, h } from "./dom.js";
import { showProblems } from "./forms.js";
import { onCall } from "./fragment.js";
import { poll } from "./polling.js";
import { accepted, openSandbox, sandboxForm } from "./sandboxes.js";

const clock = { now: 0, speed: 0, at: 0 };
const PLAYED = 10; // the speed at which all scenarios are played
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
let lostAt = null, focused;

/** The shortcuts; j and k go through the list. */
addEventListener("keydown", (event) => {
  const { key: pressed, target } = event, rows = [...document.querySelectorAll("#list a")], at = rows.indexOf(target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input:not(.unseen), select")) return;
  const found = { j: rows[at + 1], k: rows[at - 1], n: by("new"), "/": by("search"), "?": by("help") }[pressed];
  found?.focus();
  if (found !== document.activeElement) return;
  event.preventDefault();
  if (found.type === "button") found.click();
});

by("help").addEventListener("click", () => by("help-dialog").showModal());

/** The virtual time of the sandbox, in milliseconds. It stands while the server is away, and ends with the year 9999. */
export const now = () => Math.min(clock.now + ((lostAt ?? performance.now()) - clock.at) * clock.speed, Date.UTC(1e4, 0) - 1);
export const utc = (ms) => `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;

function problem(error) {
  const about = (error?.details ?? []).map(({ field, message }) => `${field} ${message}.`);
  by("problem").hidden = !error;
  by("problem").textContent = [error?.message, ...about].filter(Boolean).join(" ");
}

/** Runs an action, and shows the problem if the server refuses it. */
export async function attempt(action) {
  try {
    problem(null);
    return await action();
  } catch (error) {
    if (error.status === 401) openSandbox(key());
    else problem(error);
  }
}

/** Starts a page: `load` draws it, at first and when it may have changed; `tick` runs a few times a second, for what only counts. */
export function start({ load, tick = () => {} }) {
  const hide = (hidden) => ["clock", "main", "link", "sandbox"].forEach((id) => { by(id).hidden = hidden && (id !== "sandbox" || !clock.at); });
  if (!sandboxForm(hide)) return;
  hide(false);
  if (location.hash) by("main").focus(); // of a new payment
  by("sandbox-name").textContent = by("reset-name").textContent = sandboxName(key());
  clockControls();
  resetDialog();
  creationDialog();
  by("link").addEventListener("click", () => copy(linkHere(), by("link")));
  setInterval(() => {
    showTime();
    if (!clock.at || lostAt !== null) return;
    tick();
    if (now() >= (played()?.end ?? Infinity)) attempt(putSpeedBack);
  }, calm ? 1000 : 200);
  let drawn, failed, server;
  poll(`${root}/_mock/clock`, bearer(), async (found, reply) => {
    if (!clock.at) accepted();
    setClock(found);
    const [, answering] = reply.headers.get("X-Request-Id").split("_"); // of one process
    if (server && server !== answering && by("restarted")) by("restarted").hidden = false;
    server = answering;
    if (drawn?.revision === found.revision && !(drawn.next_change_at <= found.now)) return;
    try {
      await load();
      if (failed) problem(failed = null);
    } catch (error) {
      if (error.status === 0 || error.status >= 500) throw error;
      problem(failed = error);
    }
    drawn = found;
  }, connection);
}

/** While the server is away, the page is frozen, and dimmed by the style. */
function connection(state) {
  const live = state === "live", lost = !live && state !== 401;
  if (state === 401) openSandbox(key());
  if (live && lostAt !== null) announce("Connected again");
  if (lost && lostAt === null) {
    lostAt = performance.now();
    focused = document.activeElement;
    const shown = clock.at ? `This is the state at ${utc(now())}` : "Nothing is shown yet";
    by("connection").replaceChildren(h("h1", {}, `Connection lost. ${shown}; trying again…`)); // the page's own one is inert
  }
  if (!lost) by("connection").replaceChildren();
  by("connection").hidden = !lost;
  by("live").textContent = live ? "Live" : "";
  for (const id of ["clock", "content"]) by(id).inert = lost;
  if (lost) return;
  lostAt = null;
  focused?.focus();
  focused = null;
}

function setClock({ now: at, speed }) {
  Object.assign(clock, { now: Date.parse(at), speed, at: performance.now() });
  by("speed").textContent = speed ? `running ×${speed}` : "frozen";
  for (const button of document.querySelectorAll("[data-speed]")) button.ariaPressed = String(Number(button.dataset.speed) === speed);
  showTime();
}

const playedItem = () => `paymock.played ${sandboxName(key())}`;
const played = () => key() && JSON.parse(sessionStorage.getItem(playedItem())); // the key may have been forgotten

/** Lets the sandbox run at ×10 until `end`, in virtual milliseconds; the page of this tab then puts its speed back. */
export async function playUntil(end) {
  const speed = played()?.speed ?? clock.speed;
  setClock(await request("PUT", "/_mock/clock", { speed: PLAYED }));
  sessionStorage.setItem(playedItem(), JSON.stringify({ speed, end }));
}

async function putSpeedBack() {
  const { speed } = played();
  sessionStorage.removeItem(playedItem());
  if (clock.speed === PLAYED) setClock(await request("PUT", "/_mock/clock", { speed })); // nobody has changed it since
}

const showTime = () => {
  if (clock.at) by("now").textContent = utc(now());
};

function clockControls() {
  by("clock-more").addEventListener("click", () => {
    by("clock-more").ariaExpanded = String(by("clock").classList.toggle("open"));
  });
  onCall(by("clock"), (call) => attempt(async () => setClock(await call())));
  by("advance").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async () => {
      const advanced = request("POST", "/_mock/clock/advance", { seconds: Number(by("seconds").value) });
      const refused = await advanced.then(setClock, (error) => {
        if (!error.details?.length) throw error;
        return error;
      });
      showProblems(by("advance"), by("problem"), refused);
    });
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
      location.assign(`${root}/`);
    });
  });
}
