// shop.test.ts
import { inSandbox, type Sandbox } from "paymock";
import { expect, test } from "vitest";
import { Refused, Shop, type OrderState, type Payment } from "./shop.js";

function shopOf(mock: Sandbox): Shop {
  return new Shop(mock.url, mock.apiKey, 10_000, (seconds) => mock.advance(seconds));
}

test("an order is paid when the money is there for good", inSandbox(async (mock) => {
  const shop = shopOf(mock);
  const { id, attempts } = await shop.order("order-1001", 10n ** 18n);
  expect(attempts[0]!.instructions.amounts.due).toBe("1010000000000000000");
  const states: OrderState[] = [];
  for (const seconds of [5, 8, 32]) {
    states.push(await shop.state(id));
    await mock.advance(seconds);
  }
  expect([...states, await shop.state(id)]).toEqual(["open", "open", "paid", "paid"]);
}));

test.each([
  ["no_payment_expired", "canceled"],
  ["overpaid_review", "ask us"],
  ["settlement_failed", "ask us"],
])("after %s, the order is: %s", inSandbox(async (mock, scenario, state) => {
  const shop = shopOf(mock);
  await mock.next(scenario); // since the shop sends no X-Mock-Scenario
  const { id } = await shop.order("order-1001", 1n);
  await mock.advance(60);
  expect(await shop.state(id)).toBe(state);
}));

test.each([
  "drop", "status=503", "status=502; after; html", "truncate=20",
])("%s: one payment all the same", inSandbox(async (mock, fault) => {
  await mock.fault(fault, { operation: "createPayment" });
  const { id } = await shopOf(mock).order("order-1001", 1n);
  expect((await mock.payments()).map((payment) => payment.id)).toEqual([id]);
}));

test("an order is delivered once, when its payment is completed", inSandbox(async (mock) => {
  const shop = shopOf(mock);
  await shop.order("order-1001", 1n);
  const deliveries: number[] = [];
  for (const seconds of [30, 15, 15]) {
    await mock.advance(seconds);
    await Promise.all([shop.poll(), shop.poll()]);
    deliveries.push(shop.deliveries("order-1001"));
  }
  expect(deliveries).toEqual([0, 1, 1]);
}));

test("a refusal has a code", inSandbox(async (mock) => {
  const refusal: unknown = await shopOf(mock).order("order-1001", 0n).catch((problem) => problem);
  expect(refusal).toBeInstanceOf(Refused);
  expect(refusal).toHaveProperty("code", "validation_failed");
}));

test("what the document does not allow does not compile", () => {
  type Due = Payment["attempts"][number]["instructions"]["amounts"]["due"];
  // @ts-expect-error an amount is a text of raw units, since a number would lose digits
  const due: Due = 1010000000000000000;
  // @ts-expect-error there is no such status
  const wait = (mock: Sandbox) => mock.waitFor("order-1001", "paid");
  // @ts-expect-error there is no such scenario
  const next = (mock: Sandbox) => mock.next("failed");
  // @ts-expect-error there is no such fault
  const fault = (mock: Sandbox) => mock.fault("dropp");
  expect([due, wait, next, fault].map((one) => typeof one)).toEqual(["number", "function", "function", "function"]);
});
