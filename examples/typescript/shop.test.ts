// shop.test.ts
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import test from "node:test";
import { Refused, Shop, type OrderState, type Payment } from "./shop.js";

const url = process.env.PAYMOCK_URL ?? "http://127.0.0.1:8402";

/** A shop in a sandbox of its own, which stands still, and control of that sandbox. */
async function freshShop() {
  const apiKey = `mk_test_${randomUUID()}`;
  const control = async (method: string, path: string, body?: unknown) => {
    const headers = { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" };
    const reply = await fetch(url + path, { method, headers, body: body ? JSON.stringify(body) : undefined });
    const text = await reply.text();
    assert.ok(reply.ok, `${method} ${path}: ${reply.status} ${text}`);
    return JSON.parse(text);
  };
  await control("PUT", "/_mock/clock", { speed: 0 });
  const sleep = (seconds: number) => control("POST", "/_mock/clock/advance", { seconds });
  return { shop: new Shop(url, apiKey, 10_000, sleep), control };
}

test("an order is paid when the money is there for good", async () => {
  const { shop, control } = await freshShop();
  const { id, attempts } = await shop.order("order-1001", 10n ** 18n);
  assert.equal(attempts[0].instructions.amounts.due, "1010000000000000000");
  const states: OrderState[] = [];
  for (const seconds of [5, 8, 32]) {
    states.push(await shop.state(id));
    await control("POST", "/_mock/clock/advance", { seconds });
  }
  assert.deepEqual([...states, await shop.state(id)], ["open", "open", "paid", "paid"]);
});

const ends: [string, OrderState][] = [
  ["no_payment_expired", "canceled"],
  ["overpaid_review", "ask us"],
  ["settlement_failed", "ask us"],
];
for (const [scenario, state] of ends) {
  test(`after ${scenario}, the order is: ${state}`, async () => {
    const { shop, control } = await freshShop();
    await control("POST", "/_mock/next", { scenario }); // since the shop sends no X-Mock-Scenario
    const { id } = await shop.order("order-1001", 1n);
    await control("POST", "/_mock/clock/advance", { seconds: 60 });
    assert.equal(await shop.state(id), state);
  });
}

for (const fault of ["drop", "status=503", "status=502; after; html", "truncate=20"]) {
  test(`${fault}: one payment all the same`, async () => {
    const { shop, control } = await freshShop();
    await control("POST", "/_mock/next", { fault });
    const { id } = await shop.order("order-1001", 1n);
    const { data } = await control("GET", "/_mock/payments");
    assert.deepEqual(data.map((payment: { id: string }) => payment.id), [id]);
  });
}

test("an order is delivered once, when its payment is completed", async () => {
  const { shop, control } = await freshShop();
  await shop.order("order-1001", 1n);
  const deliveries: number[] = [];
  for (const seconds of [30, 15, 15]) {
    await control("POST", "/_mock/clock/advance", { seconds });
    await shop.poll();
    deliveries.push(shop.deliveries("order-1001"));
  }
  assert.deepEqual(deliveries, [0, 1, 1]);
});

test("a refusal has a code", async () => {
  const { shop } = await freshShop();
  await assert.rejects(shop.order("order-1001", 0n), (problem) => {
    assert.ok(problem instanceof Refused);
    assert.equal(problem.code, "validation_failed");
    return true;
  });
});

test("what the document does not allow does not compile", () => {
  type Due = Payment["attempts"][number]["instructions"]["amounts"]["due"];
  // @ts-expect-error an amount is a text of raw units, since a number would lose digits
  const due: Due = 1010000000000000000;
  assert.equal(typeof due, "number");
});
