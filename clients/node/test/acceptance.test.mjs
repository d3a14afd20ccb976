// The list of clients/acceptance.json, which the helpers of all languages pass. ACCEPTANCE names the file.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { inSandbox, NotReached, PaymockError } from "paymock";

const { cases } = JSON.parse(readFileSync(process.env.ACCEPTANCE ?? new URL("../../acceptance.json", import.meta.url)));

/** The calls of the list that are requests of the application; `ids` gets the payment of each order. */
function application(mock, ids) {
  const call = async (path, order, body) => {
    const headers = { Authorization: `Bearer ${mock.apiKey}`, "Content-Type": "application/json" };
    const key = { "Idempotency-Key": `payment-of-${order}` };
    const reply = await fetch(`${mock.url}/v1/payments${path}`, body ? { method: "POST", headers: { ...headers, ...key }, body } : { headers });
    const value = await reply.json();
    if (reply.ok) return value;
    throw Object.assign(new Error(`${path}: ${reply.status}`), { status: reply.status });
  };
  return {
    async create(order) {
      const coin = { chain: "bsc", asset: "USDT" };
      const receive = { ...coin, amount: "1000000000000000000", address: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" };
      const settlement = { mode: "same_chain_merchant_payout" };
      const payment = await call("", order, JSON.stringify({ order_id: order, receive, settlement, pay_with: [coin] }));
      ids[order] = payment.id;
      return payment;
    },
    read: (order) => call(`/${ids[order]}`, order),
  };
}

function matches(result, expected) {
  if (Array.isArray(expected)) assert.equal(result.length, expected.length);
  if (typeof expected !== "object" || expected === null) return assert.equal(result, expected);
  for (const [name, value] of Object.entries(expected)) matches(result[name], value);
}

for (const { name, steps } of cases) {
  test(name, inSandbox(async (mock) => {
    const ids = {};
    const app = application(mock, ids);
    const start = await mock.now();
    for (const step of steps) {
      const given = (step.arguments ?? []).map((one) => (typeof one === "string" && one[0] === "$" ? ids[one.slice(1)] : one));
      const called = app[step.call] ? app[step.call](...given) : mock[step.call](...given);
      if (step.refused) {
        const refused = await called.then(() => assert.fail(`${step.call} was not refused`), (problem) => problem);
        assert.equal(refused instanceof PaymockError, !app[step.call], refused);
        matches(refused, step.refused);
        continue;
      }
      if (step.lost) {
        await assert.rejects(called, TypeError);
        continue;
      }
      const ended = (problem) => (problem instanceof NotReached ? problem.message : Promise.reject(problem));
      const result = await (step.notReached ? called.then(() => assert.fail(`${step.call} ended well`), ended) : called);
      if ("result" in step) matches(result, step.result);
      if ("seconds" in step) assert.equal(result - start, 1000 * step.seconds);
      let from = 0;
      for (const text of step.contains ?? []) {
        from = result.indexOf(text, from) + text.length;
        assert.ok(from >= text.length, `${text} is not in ${result}`);
      }
      for (const text of step.lacks ?? []) assert.ok(!result.includes(text), result);
    }
  }));
}
