// payment.test.mjs
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import test from "node:test";

const url = process.env.PAYMOCK_URL ?? "http://127.0.0.1:8402";
const order = {
  order_id: "order-1001",
  receive: {
    chain: "bsc",
    asset: "USDT",
    amount: "1000000000000000000",
    address: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
  },
  settlement: { mode: "same_chain_merchant_payout" },
  pay_with: [{ chain: "bsc", asset: "USDT" }],
};

async function freshSandbox() {
  const apiKey = `mk_test_${randomUUID()}`;
  const call = async (method, path, body, headers = {}) => {
    const reply = await fetch(url + path, {
      method,
      headers: { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json", ...headers },
      body: body && JSON.stringify(body),
    });
    const text = await reply.text();
    assert.ok(reply.ok, `${method} ${path}: ${reply.status} ${text}`);
    return text && JSON.parse(text);
  };
  await call("PUT", "/_mock/clock", { speed: 0 });
  return { apiKey, call };
}

test("a payment is completed", async () => {
  const { call } = await freshSandbox();
  const { id } = await call("POST", "/v1/payments", order, { "Idempotency-Key": randomUUID() });
  await call("POST", "/_mock/clock/advance", { seconds: 45 });
  const { status } = await call("GET", `/v1/payments/${id}`);
  assert.equal(status, "completed");
});

test("a retry after a lost reply makes no second payment", async () => {
  const { call } = await freshSandbox();
  await call("POST", "/_mock/next", { fault: "drop" });
  const create = () => call("POST", "/v1/payments", order, { "Idempotency-Key": "order-1001-payment" });
  await assert.rejects(create);
  const payment = await create();
  const { data } = await call("GET", "/_mock/payments");
  assert.deepEqual(data.map(({ id }) => id), [payment.id]);
});
