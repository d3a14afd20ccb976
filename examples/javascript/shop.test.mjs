// shop.test.mjs
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import test from "node:test";
import { inSandbox } from "paymock";
import { createShop } from "./shop.mjs";

function shopOf(mock) {
  return createShop({ url: mock.url, apiKey: mock.apiKey, sleep: (seconds) => mock.advance(seconds) });
}

test("ships once, when the payment is completed", inSandbox(async (mock) => {
  const shop = shopOf(mock);
  await shop.place("1001");
  await mock.advanceTo("1001", "settlement_submitted");
  await shop.poll();
  assert.deepEqual(shop.shipped, []);
  await mock.advanceTo("1001", "completed");
  await Promise.all([shop.poll(), shop.poll()]);
  await shop.poll();
  assert.deepEqual(shop.shipped, ["1001"]);
}));

for (const scenario of ["no_payment_expired", "underpaid_expired", "late_payment", "settlement_failed"]) {
  test(`ships nothing after ${scenario}`, inSandbox(async (mock) => {
    const shop = shopOf(mock);
    await mock.next(scenario);
    await shop.place("1001");
    await mock.advanceTo("1001", "end");
    await shop.poll();
    assert.deepEqual(shop.shipped, []);
  }));
}

test("has one payment though the first reply was lost", inSandbox(async (mock) => {
  const shop = shopOf(mock);
  await mock.fault("drop", { operation: "createPayment" });
  await assert.rejects(shop.place("1001"));
  await shop.poll();
  assert.equal((await mock.payments()).length, 1);
  await mock.advance(45);
  await shop.poll();
  assert.deepEqual(shop.shipped, ["1001"]);
}));

test("ships after an outage", inSandbox(async (mock) => {
  const shop = shopOf(mock);
  await shop.place("1001");
  await mock.fault("status=503", { operation: "getPayment", times: 2 });
  await mock.advance(45);
  for (const shipped of [[], [], ["1001"]]) {
    await shop.poll();
    assert.deepEqual(shop.shipped, shipped);
  }
}));

test("ships what is paid in two halves", inSandbox(async (mock) => {
  const shop = shopOf(mock);
  await mock.next("no_payment_expired");
  await shop.place("1001");
  const { due } = (await mock.payment("1001")).attempts[0].instructions.amounts;
  await mock.deposit("1001", BigInt(due) / 2n);
  await mock.deposit("1001", BigInt(due) / 2n);
  await mock.advanceTo("1001", "completed");
  await shop.poll();
  assert.deepEqual(shop.shipped, ["1001"]);
}));

test("ships as a server that polls by itself", inSandbox(async (mock, t) => {
  const environment = { PAYMOCK_URL: mock.url, PAYMOCK_API_KEY: mock.apiKey, PORT: "0", POLL_MS: "10" };
  const server = spawn(process.execPath, ["shop.mjs"], { env: { ...process.env, ...environment } });
  t.after(() => server.kill());
  const [url] = await once(server.stdout.setEncoding("utf8"), "data");
  await fetch(`${url.trim()}/orders/1001`, { method: "POST" });
  await mock.advanceTo("1001", "completed", { untilObserved: true });
  while ((await (await fetch(`${url.trim()}/deliveries/1001`)).text()) !== "1");
}));
