// The form that opens a sandbox by its API key: those used before, and others.

import { bearer, forget, keep, key, keys, root, sandboxName } from "./api.js";
import { by, h, show } from "./dom.js";

let opened, hidePage;

/** Shows the form in place of the page; with a refused key, why. */
export function openSandbox(refused) {
  hidePage(true);
  by("sandboxes").hidden = false;
  by("sandbox").ariaExpanded = "true";
  by("key-cancel").hidden = !opened;
  show(by("used"), keys().length > 0 && h("ul", { class: "used", "aria-label": "Used before" }, keys().map(used)));
  refuse(refused);
}

function closeSandboxes() {
  hidePage(false);
  by("sandboxes").hidden = true;
  by("sandbox").ariaExpanded = "false";
  by("sandbox").focus();
}

function refuse(refused, why = "The server does not accept this API key.") {
  if (refused) by("key").value = refused;
  by("key").ariaInvalid = String(Boolean(refused));
  by("key-problem").textContent = refused ? why : "";
  by("key").focus();
}

function used(value) {
  const name = sandboxName(value);
  const open = h("button", { type: "button", "aria-current": value === opened && "true" }, h("bdi", {}, name));
  const remove = h("button", { type: "button", class: "copy", "aria-label": `Forget ${name}` }, "Forget");
  open.addEventListener("click", () => enter(value));
  remove.addEventListener("click", () => {
    forget(value);
    if (value === opened) location.assign(`${root}/`);
    else openSandbox();
  });
  return h("li", {}, open, remove);
}

/** Opens a sandbox if the server accepts its key. Pages of payments are of one sandbox: another one shows its list. */
async function enter(value) {
  const reply = await fetch(`${root}/_mock/clock`, { headers: bearer(value), cache: "no-store" }).catch(() => null);
  if (!reply) return refuse(value, "The server cannot be reached.");
  if (reply.status === 401) return refuse(value);
  keep(value);
  if (opened) location.assign(`${root}/`);
  else location.reload();
}

/** Prepares the form; `hide` hides the rest of the page, or shows it again. Returns whether there is a key to begin with. */
export function sandboxForm(hide) {
  hidePage = hide;
  by("sandbox").addEventListener("click", () => (by("sandboxes").hidden ? openSandbox() : closeSandboxes()));
  by("key-cancel").addEventListener("click", closeSandboxes);
  by("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const value = by("key").value.trim();
    if (value) enter(value);
    else refuse();
  });
  by("open-key")?.addEventListener("click", (event) => enter(event.target.dataset.key));
  if (!key()) openSandbox();
  return Boolean(key());
}

/** The server has accepted the key of this tab: new tabs begin with it, also a link of this tab in a new one. */
export function accepted() {
  if (!opened) addEventListener("focus", () => keep(opened));
  opened = key();
  keep(opened);
}
