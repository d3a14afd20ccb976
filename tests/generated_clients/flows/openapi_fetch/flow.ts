// openapi-typescript and openapi-fetch.
import createClient from "openapi-fetch";
import type { components, paths } from "./service.js";
import type { paths as ControlPaths } from "./control.js";

const options = {
  baseUrl: process.env.PAYMOCK_URL,
  headers: { Authorization: `Bearer ${process.env.PAYMOCK_API_KEY}` },
};
const service = createClient<paths>(options);
const control = createClient<ControlPaths>(options);

type Scenario = components["schemas"]["Scenario"];

const order: components["schemas"]["CreatePayment"] = {
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

const create = (key: string, body: components["schemas"]["CreatePayment"], scenario?: Scenario) =>
  service.POST("/v1/payments", {
    params: { header: { "Idempotency-Key": key, "X-Mock-Scenario": scenario } },
    body,
  });

function found<T>(reply: { data?: T; error?: unknown }): T {
  if (reply.data === undefined) throw new Error(JSON.stringify(reply.error));
  return reply.data;
}

function refused({ error, response }: Awaited<ReturnType<typeof create>>) {
  if (error === undefined) throw new Error("not refused");
  return [response.status, error.error.code, ...(error.error.details ?? []).map((problem) => problem.field)];
}

const seconds = (time = "") => Date.parse(time) / 1000;

await control.PUT("/_mock/clock", { body: { speed: 0 } });
const chains = found(await service.GET("/v1/chains")).data;
const assets = found(await service.GET("/v1/chains/{chain}/assets", { params: { path: { chain: "bsc" } } })).data;

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
  found(await control.POST("/_mock/clock/advance", { body: { seconds: 5 } }));
  payment = found(await service.GET("/v1/payments/{payment_id}", { params: { path } }));
  if (payment.status !== statuses.at(-1)) statuses.push(payment.status);
}
const attempts = found(await service.GET("/v1/payments/{payment_id}/attempts", { params: { path } })).data;

const endpoint = found(
  await service.POST("/v1/webhooks", {
    params: { header: { "Idempotency-Key": "endpoint-1" } },
    body: { url: "https://merchant.example/hooks", events: ["payment.completed", "payment.failed"] },
  }),
);
const endpoints = found(await service.GET("/v1/webhooks")).data;

await control.POST("/_mock/next", { body: { scenario: "no_payment_expired" } });
const overridden = found(await create("order-1003-payment", order));
const detail = found(
  await control.GET("/_mock/payments/{payment_id}", { params: { path: { payment_id: overridden.id } } }),
);
await control.POST("/_mock/faults", { body: { fault: "status=429" } });
const injected = await create("order-1004-payment", order);

console.log(
  JSON.stringify({
    chains: chains.map((chain) => chain.id),
    assets: assets.map((asset) => asset.symbol),
    created: [created.status, created.attempts[0]?.instructions.amounts.due, created.metadata],
    pays_to: created.attempts[0]?.instructions.invoice_address?.slice(0, 2),
    expires_at: seconds(created.expires_at),
    replay: [replay.response.headers.get("Idempotent-Replayed"), found(replay).id === created.id],
    conflict: refused(conflict),
    invalid: refused(invalid),
    statuses,
    took: seconds(payment.updated_at) - seconds(payment.created_at),
    attempts: attempts.map((attempt) => [attempt.status, attempt.deposits?.map((deposit) => deposit.status)]),
    endpoint: [endpoint.url, endpoint.events, endpoint.secret?.slice(0, 6)],
    endpoints: endpoints.map((one) => one.id === endpoint.id),
    overridden: detail.scenario,
    injected: refused(injected),
  }),
);
