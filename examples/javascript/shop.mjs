// shop.mjs: takes orders, polls their payments, and ships each order once, when its payment is completed.
import { realpathSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";

// After `expired`, the customer may pay late.
const FINAL = ["completed", "underpaid_expired", "overpaid_review", "manual_review", "failed"];

/** How long to wait, at most a minute: the header is a number of seconds or an HTTP date. */
function seconds(retryAfter) {
  const number = Number(retryAfter);
  const asked = Number.isNaN(number) ? (Date.parse(retryAfter) - Date.now()) / 1000 : number;
  return Math.max(0, Math.min(asked || 0, 60));
}

/** `sleep` takes seconds. */
export function createShop({ url, apiKey, timeoutMs = 10_000, sleep = (seconds) => wait(1000 * seconds) }) {
  const orders = new Map(); // a real shop has a database
  const shipped = []; // the delivery log

  /** The JSON of a reply that says success. All else says nothing about a payment, and is thrown. */
  async function call(path, request) {
    const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json", ...request?.headers };
    const reply = await fetch(url + path, { ...request, headers, signal: AbortSignal.timeout(timeoutMs) });
    if (reply.ok) return reply.json();
    const pause = seconds(reply.headers.get("Retry-After"));
    if (pause) await sleep(pause);
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

  async function update(order) {
    order.isPolled = true;
    try {
      await createPayment(order);
      order.status = (await call(`/v1/payments/${order.paymentId}`)).status;
      if (order.status === "completed") shipped.push(order.id);
    } catch (problem) {
      console.warn(`${order.id} stays open: ${problem.message}`);
    }
    order.isPolled = false;
  }

  return {
    shipped,

    /** Returns the id of the payment. If that fails, the order stays, and `poll` tries again. */
    async place(id) {
      const order = orders.get(id) ?? { id };
      orders.set(id, order); // before anything can fail
      await createPayment(order);
      return order.paymentId;
    },

    /** Reads the payment of each open order once. */
    async poll() {
      const open = [...orders.values()].filter((order) => !order.isPolled && !FINAL.includes(order.status));
      await Promise.all(open.map(update));
    },
  };
}

async function answer(shop, method, name, id) {
  if (!id) return name === "ready" ? [200, "ready"] : [404, "not found"];
  switch (`${method} ${name}`) {
    case "POST orders":
      return [201, await shop.place(id)];
    case "GET deliveries":
      return [200, String(shop.shipped.filter((order) => order === id).length)];
    default:
      return [404, "not found"];
  }
}

/** The shop as it runs: it polls all the time. */
function serve() {
  const { PAYMOCK_URL = "http://127.0.0.1:8402", PAYMOCK_API_KEY = "mk_test_demo" } = process.env;
  const { PORT = 8000, POLL_MS = 2000, TIMEOUT_MS = 10_000 } = process.env;
  const shop = createShop({ url: PAYMOCK_URL, apiKey: PAYMOCK_API_KEY, timeoutMs: Number(TIMEOUT_MS) });
  setInterval(shop.poll, Number(POLL_MS));
  const server = createServer(async (request, reply) => {
    const [, name, id] = request.url.split("/");
    const [status, text] = await answer(shop, request.method, name, id).catch(({ message }) => [502, message]);
    reply.writeHead(status).end(text);
  }).listen(Number(PORT), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
}

if (realpathSync(process.argv[1] ?? "") === fileURLToPath(import.meta.url)) serve();
