// @hey-api/openapi-ts.
import * as control from "./control/index.js";
import { client as controlClient } from "./control/client.gen.js";
import * as service from "./service/index.js";
import { client as serviceClient } from "./service/client.gen.js";

const defaults = [serviceClient, controlClient].map((client) => client.getConfig().baseUrl);
for (const client of [serviceClient, controlClient]) {
  client.setConfig({ baseUrl: process.env.PAYMOCK_URL, auth: () => process.env.PAYMOCK_API_KEY });
}

const order: service.CreatePayment = {
  order_id: "order-1001",
  receive: {
    chain: "bsc",
    asset: "USDT",
    amount: "1000000000000000000",
    address: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
  },
  settlement: { mode: "same_chain_merchant_payout" },
  pay_with: [{ chain: "bsc", asset: "USDT" }],
  expires_at: "2099-01-31T12:30:00Z",
  metadata: { a: 1, b: { c: [1, "two", null] } },
};

const create = (key: string, body: service.CreatePayment, scenario?: service.Scenario) =>
  service.createPayment({ headers: { "Idempotency-Key": key, "X-Mock-Scenario": scenario }, body });

function found<T>(reply: { data?: T; error?: unknown }): T {
  if (reply.data === undefined) throw new Error(JSON.stringify(reply.error));
  return reply.data;
}

function refused({ error, response }: Awaited<ReturnType<typeof create>>) {
  if (error === undefined) throw new Error("not refused");
  const code: service.ErrorCode = error.error.code;
  return [response?.status, code, ...(error.error.details ?? []).map((problem) => problem.field)];
}

const seconds = (time: string) => Date.parse(time) / 1000;

await control.setClock({ body: { speed: 0 } });
const chains = found(await service.listChains()).data;
const assets = found(await service.listAssets({ path: { chain: "bsc" } })).data;

const created = found(await create("order-1001-payment", order, "settlement_failed"));
const replay = await create("order-1001-payment", order, "settlement_failed");
const conflict = await create("order-1001-payment", { ...order, order_id: "order-1002" });
const invalid = await create("order-1002-payment", { ...order, pay_with: [{ chain: "bsc", asset: "BNB" }] });

const path = { payment_id: created.id };
let payment = created;
const statuses = [payment.status];
while (payment.status !== "failed") {
  // @ts-expect-error: the type knows every status
  if (payment.status === "paid") break;
  found(await control.advanceClock({ body: { seconds: 5 } }));
  payment = found(await service.getPayment({ path }));
  if (payment.status !== statuses.at(-1)) statuses.push(payment.status);
}
const attempts = found(await service.listAttempts({ path })).data;

const endpoint = found(
  await service.createWebhookEndpoint({
    headers: { "Idempotency-Key": "endpoint-1" },
    body: { url: "https://merchant.example/hooks", events: ["payment.completed", "payment.failed"] },
  }),
);
const endpoints = found(await service.listWebhookEndpoints()).data;

await control.setNext({ body: { scenario: "no_payment_expired" } });
const overridden = found(await create("order-1003-payment", order));
const detail = found(await control.getPaymentDetail({ path: { payment_id: overridden.id } }));
await control.addFault({ body: { fault: "status=429" } });
const injected = await create("order-1004-payment", order);

console.log(
  JSON.stringify({
    defaults,
    chains: chains.map((chain) => chain.id),
    assets: assets.map((asset) => asset.symbol),
    created: [created.status, created.attempts[0]?.instructions.amounts.due, created.metadata],
    expires_at: created.expires_at === null ? null : seconds(created.expires_at),
    replay: [replay.response?.headers.get("Idempotent-Replayed"), found(replay).id === created.id],
    conflict: refused(conflict),
    invalid: refused(invalid),
    statuses,
    took: seconds(payment.updated_at) - seconds(payment.created_at),
    attempts: attempts.map((attempt) => [attempt.status, attempt.deposits?.map((deposit) => deposit.status)]),
    endpoint: [endpoint.url, endpoint.events, endpoint.secret.slice(0, 6)],
    endpoints: endpoints.map((one) => one.id === endpoint.id),
    overridden: detail.scenario,
    injected: refused(injected),
  }),
);
