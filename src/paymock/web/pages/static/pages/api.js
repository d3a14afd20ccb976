// Requests with the key of this tab.

const KEY = "paymock.key";

export const key = () => sessionStorage.getItem(KEY);
export const keep = (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY));
export const bearer = () => ({ Authorization: `Bearer ${encodeURI(key())}` });

/** Returns the decoded reply. Throws an Error with the message of a refusal, its `status` and `details`. */
export async function request(method, path, body, headers = {}) {
  const options = { method, headers: { ...bearer(), ...headers }, cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let reply;
  try {
    reply = await fetch(path, options);
  } catch {
    throw Object.assign(new Error("The server cannot be reached."), { status: 0 });
  }
  const data = reply.status === 204 ? null : await reply.json().catch(() => null);
  if (reply.ok) return data;
  const { message = `The server answered ${reply.status}.`, details = [] } = data?.error ?? {};
  const why = [message, ...details.map(({ field, message: what }) => `${field} ${what}.`)].join(" ");
  throw Object.assign(new Error(why), { status: reply.status, details });
}

/** The body of a create request. */
export const order = (order_id, chain, asset, amount, address) => ({
  order_id, receive: { chain, asset, amount, address }, settlement: { mode: "same_chain_merchant_payout" }, pay_with: [{ chain, asset }],
});

/** 128 random bits; unlike randomUUID, also available on a page without TLS. */
export const randomKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");
