// shop.mjs: takes orders, polls their payments, and delivers each order once, when its payment is completed.
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const { PAYMOCK_URL: url = "http://127.0.0.1:8402", PAYMOCK_API_KEY: apiKey = "mk_test_demo" } = process.env;
const { PORT: port = 8000, POLL_MS: pollMs = 2000, TIMEOUT_MS: timeoutMs = 10_000 } = process.env;
const FINAL = ["completed", "expired", "underpaid_expired", "overpaid_review", "manual_review", "failed"];

const orders = new Map(); // a real shop has a database
const delivered = []; // the delivery log

/** The JSON of a reply that says success. All else says nothing about a payment, and is thrown. */
async function call(path, request) {
  const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json", ...request?.headers };
  const signal = AbortSignal.timeout(Number(timeoutMs));
  const reply = await fetch(url + path, { ...request, headers, signal });
  if (reply.ok) return reply.json();
  await sleep(1000 * (reply.headers.get("Retry-After") ?? 0));
  throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
}

/** Creates the payment of an order, unless it is known. With the same key, it is the same payment. */
async function createPayment(order) {
  order.paymentId ??= (
    await call("/v1/payments", {
      method: "POST",
      headers: { "Idempotency-Key": `payment-of-${order.id}` },
      body: JSON.stringify({
        order_id: order.id,
        receive: {
          chain: "bsc",
          asset: "USDT",
          amount: "25000000000000000000",
          address: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        },
        settlement: { mode: "same_chain_merchant_payout" },
        pay_with: [{ chain: "bsc", asset: "USDT" }],
      }),
    })
  ).id;
}

/** Polls the payment of an order until its status is final. After an error, it polls again. */
async function follow(order) {
  while (!FINAL.includes(order.status)) {
    await sleep(Number(pollMs));
    try {
      await createPayment(order);
      order.status = (await call(`/v1/payments/${order.paymentId}`)).status;
    } catch (problem) {
      console.warn(`${order.id}: ${problem.message}`);
    }
  }
  if (order.status === "completed") delivered.push(order.id);
}

async function placeOrder(id) {
  const order = orders.get(id) ?? { id };
  const isNew = !orders.has(id);
  orders.set(id, order); // before anything can fail
  try {
    await createPayment(order);
  } finally {
    if (isNew) follow(order);
  }
  return order.paymentId;
}

async function answer(method, name, id) {
  if (!id) return name === "ready" ? [200, "ready"] : [404, "not found"];
  switch (`${method} ${name}`) {
    case "POST orders":
      return [201, await placeOrder(id)];
    case "GET deliveries":
      return [200, String(delivered.filter((order) => order === id).length)];
    default:
      return [404, "not found"];
  }
}

createServer(async (request, reply) => {
  const [, name, id] = request.url.split("/");
  const [status, text] = await answer(request.method, name, id).catch(({ message }) => [502, message]);
  reply.writeHead(status).end(text);
}).listen(Number(port), "127.0.0.1");
