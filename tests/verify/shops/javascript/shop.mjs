// A shop over HTTP. `keyOf(orderId)` is the idempotency key of each try to create the payment of an order.

import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const TIMEOUT_MS = 300;
const PAUSE_MS = 50;
const CLOSED = ["completed", "expired", "underpaid_expired", "overpaid_review", "manual_review", "failed"];

const { PAYMOCK_URL, PAYMOCK_API_KEY, PORT } = process.env;

export function serve(keyOf) {
  const deliveries = new Map(); // how often the goods of each order went out

  const send = async (path, options = {}) => {
    const headers = { Authorization: `Bearer ${PAYMOCK_API_KEY}`, ...options.headers };
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const reply = await fetch(PAYMOCK_URL + path, { ...options, headers, signal });
    if (!reply.ok) {
      await sleep(1000 * Number(reply.headers.get("Retry-After") ?? 0));
      throw new Error(`${path}: status ${reply.status}`);
    }
    return reply.json();
  };

  const create = (orderId) => {
    const coin = { chain: "bsc", asset: "USDT" };
    const address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
    const body = JSON.stringify({
      order_id: orderId,
      receive: { ...coin, amount: "25000000000000000000", address },
      settlement: { mode: "same_chain_merchant_payout" },
      pay_with: [coin],
    });
    const headers = { "Content-Type": "application/json", "Idempotency-Key": keyOf(orderId) };
    return send("/v1/payments", { method: "POST", headers, body });
  };

  const follow = async (orderId) => {
    let payment = null;
    while (!CLOSED.includes(payment?.status)) {
      try {
        payment = await (payment === null ? create(orderId) : send(`/v1/payments/${payment.id}`));
      } catch {} // again
      await sleep(PAUSE_MS);
    }
    if (payment.status === "completed") deliveries.set(orderId, deliveries.get(orderId) + 1);
  };

  const server = createServer((request, response) => {
    const [, collection, orderId] = request.url.split("/");
    if (request.method === "POST" && collection === "orders") {
      if (!deliveries.has(orderId)) {
        deliveries.set(orderId, 0);
        follow(orderId);
      }
      response.writeHead(202).end();
    } else if (collection === "deliveries") {
      response.end(String(deliveries.get(orderId) ?? 0));
    } else {
      response.writeHead(collection === "health" ? 200 : 404).end();
    }
  });
  server.listen(Number(PORT), "127.0.0.1");
}
