// What scripts/release runs with the packages of npm.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { inSandbox } from "paymock";

test("a payment is completed", inSandbox(async (mock) => {
  const headers = {
    Authorization: `Bearer ${mock.apiKey}`, "Content-Type": "application/json", "Idempotency-Key": "payment-of-1001",
  };
  const created = await fetch(`${mock.url}/v1/payments`, { method: "POST", headers, body: readFileSync("order.json") });
  await mock.advance(45);
  assert.equal((await mock.payment((await created.json()).id)).status, "completed");
}));
