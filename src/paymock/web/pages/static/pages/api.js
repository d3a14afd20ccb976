// Requests with the API key of the open sandbox.

import { get, pollNow } from "./polling.js";

const KEY = "paymock.key", KEYS = "paymock.keys", MOST_KEYS = 10;
export const OPEN_KEY = /^mk_test_([\w-]{1,64})$/;

/** The URL of the server, with the path prefix of a proxy. */
export const root = import.meta.url.slice(0, import.meta.url.lastIndexOf("/assets/"));

/** The keys used before in this browser, the last used first. "K NAME" stands for K.NAME, a sandbox of the configured key K. */
export const keys = () => JSON.parse(localStorage.getItem(KEYS) ?? "[]");

/** The key of this tab; a new tab begins with the last used. */
export const key = () => sessionStorage.getItem(KEY) ?? keys()[0];

/** Makes `value` the key of this tab. */
export const choose = (value) => sessionStorage.setItem(KEY, value);

/** Makes `value` the key of this tab, and the one that new tabs begin with. */
export function keep(value) {
  choose(value);
  localStorage.setItem(KEYS, JSON.stringify([value, ...others(value)].slice(0, MOST_KEYS)));
}

export function forget(value) {
  sessionStorage.removeItem(KEY);
  localStorage.setItem(KEYS, JSON.stringify(others(value)));
}

/** The key whose sandbox it is: K of "K NAME". */
export const ownerOf = (value) => value.split(" ")[0];
const others = (value) => keys().filter((other) => ownerOf(other) !== ownerOf(value));

/** The key as the server takes it. */
export const apiKey = (value = key()) => value?.replace(" ", ".");

/** How a sandbox is called: by its key in open mode. Another key is a secret: only its ends are shown. */
export const sandboxName = (value) => value.split(" ")[1] ?? OPEN_KEY.exec(value)?.[0] ?? (value.length > 16 ? `${value.slice(0, 4)}…${value.slice(-4)}` : `${value.slice(0, 3)}…`);

/** The key as a command takes it: of open mode as it is, a secret by a variable of the shell, K.NAME with its name. */
export const keyInCommand = () => (OPEN_KEY.test(key()) ? key() : ["$PAYMOCK_API_KEY", key()?.split(" ")[1]].filter(Boolean).join("."));

/** The address of this page, with the key or the name that opens its sandbox, but for a secret. */
export const linkHere = () => {
  const [, name] = key().split(" "), opens = OPEN_KEY.test(key()) ? `#key=${key()}` : name ? `#sandbox=${name}` : "";
  return location.origin + location.pathname + location.search + opens;
};

export const bearer = (value = key()) => ({ Authorization: `Bearer ${encodeURI(apiKey(value))}` });

const decoded = async (reply) => (reply.headers.get("Content-Type").startsWith("text/html")
  ? new DOMParser().parseFromString(await reply.text(), "text/html") : reply.json());

/** Returns the decoded reply: of JSON its value, of HTML its document. Throws an Error with the message of a refusal, its `status` and `details`. */
export async function request(method, path, body, headers = {}) {
  const options = { method, headers: { ...bearer(), ...headers } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let reply;
  try {
    reply = await get(root + path, options);
  } catch {
    throw Object.assign(new Error("The server cannot be reached."), { status: 0 });
  }
  const data = reply.status === 204 ? null : await decoded(reply).catch(() => null);
  if (reply.ok && method !== "GET") pollNow();
  if (reply.ok) return data;
  const { message = `The server answered ${reply.status}.`, details = [] } = data?.error ?? {};
  throw Object.assign(new Error(message), { status: reply.status, details });
}

/** The body of a create request. */
export const order = (order_id, chain, asset, amount, address) => ({
  order_id, receive: { chain, asset, amount, address }, settlement: { mode: "same_chain_merchant_payout" }, pay_with: [{ chain, asset }],
});

/** 128 random bits; unlike randomUUID, also available on a page without TLS. */
export const randomKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");
