// The form that opens a sandbox by its API key: those used before, and others; and the links that open one.

import { OPEN_KEY, bearer, choose, forget, keep, key, keys, ownerOf, request, root, sandboxName } from "./api.js";
import { by, h, show } from "./dom.js";

let opened, wanted, linked, hidePage;
const isOpen = by("key").type === "text"; // open mode

/** Shows the form in place of the page; with a refused key, why. */
export function openSandbox(refused) {
  hidePage(true);
  by("sandboxes").hidden = false;
  by("sandbox").ariaExpanded = "true";
  by("key-cancel").hidden = !opened;
  by("wanted").hidden = !wanted;
  by("wanted-name").textContent = wanted;
  show(by("used"), keys().length > 0 && h("ul", { class: "used", "aria-label": "Used before" }, keys().map(used)));
  refuse(refused && ownerOf(refused));
}

function closeSandboxes() {
  hidePage(false);
  by("sandboxes").hidden = true;
  by("sandbox").ariaExpanded = "false";
  by("sandbox").focus();
}

function refuse(refused, why = refused && "The server does not accept this API key.") {
  if (refused) by("key").value = refused;
  by("key").ariaInvalid = String(Boolean(why));
  by("key-problem").textContent = why || "";
  by("key").focus();
  by("key").select();
}

function opener(value) {
  const button = h("button", { type: "button", "aria-current": value === opened && "true" }, h("bdi", {}, sandboxName(value)));
  button.addEventListener("click", () => enter(value));
  return button;
}

function used(value) {
  const owner = ownerOf(value), open = opener(owner);
  const isOpen = opened && ownerOf(opened) === owner;
  const remove = h("button", { type: "button", class: "copy", "aria-label": `Forget ${sandboxName(owner)}` }, "Forget");
  remove.addEventListener("click", () => {
    forget(value);
    if (isOpen) location.assign(`${root}/`);
    else openSandbox();
  });
  return h("li", {}, open, remove);
}

/** Opens a sandbox if the server accepts its key. Pages of payments are of one sandbox: another one shows its list. */
async function enter(value) {
  by("key-problem").textContent = "";
  try {
    await request("GET", "/_mock/clock", undefined, bearer(value));
  } catch ({ status, message }) {
    if (status === 401) return refuse(ownerOf(value));
    if (!status) return refuse(value, message);
  }
  const owner = keys().map(ownerOf).find((one) => value.startsWith(`${one}.`)); // typed with the name
  keep(owner ? `${owner} ${value.slice(owner.length + 1)}` : value);
  if (opened) location.assign(`${root}/`);
  else location.reload();
}

/** The link names no key of open mode. Where keys are configured, which are secrets, no link holds one. */
function openLinked() {
  openSandbox();
  if (!isOpen) return refuse("", "Links cannot contain a key of this server: enter yours.");
  const meant = `mk_test_${linked}`, isKey = OPEN_KEY.test(meant);
  refuse(isKey ? meant : linked, `"${linked}" is not a valid test key${isKey ? `: open ${meant}?` : "."}`);
  by("key").ariaInvalid = String(!isKey);
}

/** Follows a link to a sandbox: `#key=` of open mode, or `#sandbox=`, the name of one of a key that this browser has. */
function followLink() {
  const [, kind, value] = /^#(key|sandbox)=(.+)$/.exec(location.hash) ?? [];
  if (!kind) return false;
  history.replaceState(null, "", location.pathname + location.search);
  linked = kind === "key" && !(isOpen && OPEN_KEY.test(value)) && value;
  if (kind === "key" && !linked) choose(value);
  if (kind === "sandbox" && OPEN_KEY.test(`mk_test_${value}`)) {
    wanted = value;
    const owner = [key(), ...keys()].filter(Boolean).map(ownerOf).find((one) => !OPEN_KEY.test(one));
    if (owner) choose(`${owner} ${wanted}`);
  }
  return true;
}

/** Prepares the form; `hide` hides the rest of the page, or shows it again. Returns whether there is a key to begin with. */
export function sandboxForm(hide) {
  hidePage = hide;
  followLink();
  addEventListener("hashchange", () => followLink() && (linked ? openLinked() : location.reload()));
  by("sandbox").addEventListener("click", () => (by("sandboxes").hidden ? openSandbox() : closeSandboxes()));
  by("key-cancel").addEventListener("click", closeSandboxes);
  by("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const value = by("key").value.trim();
    if (value) enter(wanted ? `${value} ${wanted}` : value);
    else refuse();
  });
  if (isOpen && !key() && !wanted && !linked && !/\/payments\/./.test(location.pathname)) choose(by("key").value); // of open mode
  if (linked) openLinked();
  else if (!key()) openSandbox();
  return Boolean(key() && !linked);
}

/** The server has accepted the key of this tab: new tabs begin with it, also a link of this tab in a new one. */
export function accepted() {
  if (!opened) addEventListener("focus", () => keep(opened));
  opened = key();
  wanted = undefined;
  keep(opened);
}
