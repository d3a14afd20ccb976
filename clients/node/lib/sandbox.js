// A sandbox of a server: everything that belongs to one API key.
"use strict";
const { randomUUID } = require("node:crypto");
const { request, server } = require("./server.js");

const OPEN_KEY = /^mk_test_[\w-]{1,64}$/;

/** The server refused a request. */
class PaymockError extends Error {
  constructor(call, status, { code, message, details = [] }) {
    const hint = status === 401 ? " Set PAYMOCK_API_KEY." : "";
    super(`${call}: ${status} ${code}: ${message}${hint}${details.map((one) => `\n  ${one.field}: ${one.message}`).join("")}`);
    Object.assign(this, { status, code, details });
  }

  get name() { return "PaymockError"; }
}

/** A wait ended without what was awaited. */
class NotReached extends Error {
  get name() { return "NotReached"; }
}

/** The reply to a call that waited. Throws NotReached if it ended without result. */
function reached(reply) {
  if (!(reply.reached ?? reply.observed ?? true)) throw new NotReached(reply.message ?? "the wait ended without result");
  return reply;
}

class Sandbox {
  #signal = new AbortController().signal; // until which its requests may last

  constructor(url, apiKey, name) {
    this.url = (/^https?:/.test(url) ? url : `http://${url}`).replace(/\/+$/, "");
    this.apiKey = name ? `${apiKey}.${name}` : apiKey;
    const fragment = OPEN_KEY.test(this.apiKey) ? `#key=${this.apiKey}` : name && `#sandbox=${name}`;
    this.dashboardUrl = `${this.url}/${fragment ?? ""}`;
  }

  static async open(signal = new AbortController().signal) {
    const { url, key } = await server(signal);
    const name = process.env.PAYMOCK_SANDBOX || `test-${randomUUID()}`;
    const isOpen = !key || OPEN_KEY.test(key);
    const sandbox = isOpen ? new Sandbox(url, key || `mk_test_${name}`) : new Sandbox(url, key, name);
    sandbox.#signal = signal;
    await sandbox.#post("reset"); // one that was chosen may have been used before
    await sandbox.freeze();
    return sandbox;
  }

  now = async () => new Date((await this.#get("clock")).now);
  advance = async (seconds) => new Date((await this.#post("clock/advance", { seconds })).now);
  speed = async (factor) => void (await this.#send("PUT", "clock", { speed: factor }));
  fault = (fault, { orderId, orderIdPrefix, ...rule } = {}) =>
    this.#post("faults", { fault, order_id: orderId, order_id_prefix: orderIdPrefix, ...rule });
  faults = async () => (await this.#get("faults")).data;
  payment = async (orderOrId, { at } = {}) =>
    (await this.#get(`payments/${encodeURIComponent(orderOrId)}`, { at: at?.toFixed(3) })).payment;
  requests = async () => (await this.#get("requests", { limit: 1000 })).data;
  [Symbol.asyncDispose] = () => this.reset();
  describe = () => this.#get("story");

  async freeze(options) {
    if (typeof options === "string" || options instanceof Date) throw new TypeError("give the time as { at }");
    await this.#send("PUT", "clock", { speed: 0, now: options?.at });
  }

  async advanceTo(orderOrId, to, { untilObserved, timeout = 30 } = {}) {
    const path = `payments/${encodeURIComponent(orderOrId)}/advance`;
    if (!untilObserved) return this.#post(path, { to });
    return reached(await this.#post(path, { to, until_observed: true, timeout }, timeout)).payment;
  }

  async next(scenarioOrCourse, { orderId, orderIdPrefix, ...override } = {}) {
    const kind = typeof scenarioOrCourse === "string" ? "scenario" : "course";
    const conditions = { order_id: orderId, order_id_prefix: orderIdPrefix };
    return (await this.#post("next", { [kind]: scenarioOrCourse, ...conditions, ...override })).data;
  }

  async deposit(orderOrId, amount, asset) {
    if (typeof amount === "number") throw new TypeError("an amount is a bigint or a string, which lose no digits");
    return this.#post(`payments/${encodeURIComponent(orderOrId)}/deposits`, { amount: String(amount), asset });
  }

  async payments({ orderId, ...filter } = {}) {
    const { data, next_cursor: cursor } = await this.#get("payments", { limit: 200, ...filter, order_id: orderId });
    return cursor ? [...data, ...(await this.payments({ ...filter, orderId, cursor }))] : data;
  }

  async waitFor(orderOrId, status, { timeout = 30 } = {}) {
    return (await this.#wait("wait", { order_id: orderOrId, status }, timeout)).payment;
  }

  async waitForRequests({ count = 1, orderId, timeout = 30, ...query } = {}) {
    return (await this.#wait("requests/wait", { ...query, count, order_id: orderId }, timeout)).data;
  }

  async reset() {
    const { speed } = await this.#get("clock");
    await this.#post("reset");
    if (speed === 0) await this.freeze();
  }

  async #wait(path, query, timeout) {
    const seconds = Math.min(timeout, 60); // the most that one request may wait
    const reply = await this.#get(path, { ...query, timeout: seconds }, seconds);
    const isOver = reply.reached || reply.possible === false || timeout === seconds;
    return isOver ? reached(reply) : this.#wait(path, query, timeout - seconds);
  }

  #get = (path, query, wait) => this.#send("GET", path, undefined, wait, query);
  #post = (path, body, wait) => this.#send("POST", path, body, wait);

  /** The reply to a request that waits for so many seconds at the server. */
  async #send(method, resource, body, wait = 0, query = {}) {
    const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined));
    const path = `/_mock/${resource}${given.size ? `?${given}` : ""}`;
    const headers = { Authorization: `Bearer ${this.apiKey}`, "Content-Type": "application/json" };
    const signal = AbortSignal.any([AbortSignal.timeout(1000 * (wait + 10)), this.#signal]);
    const reply = await request(this.url, path, { method, headers, body: JSON.stringify(body), signal });
    const text = await reply.text();
    if (reply.ok) return text.startsWith("{") ? JSON.parse(text) : text;
    if (!text.startsWith('{"error"')) throw new Error(`paymock: ${this.url} answers ${reply.status}, unlike paymock`);
    throw new PaymockError(`${method} ${path}`, reply.status, JSON.parse(text).error);
  }
}

module.exports = { NotReached, PaymockError, Sandbox };
