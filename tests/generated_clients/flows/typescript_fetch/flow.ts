// openapi-generator, typescript-fetch.
import * as control from "./control/index.js";
import * as service from "./service/index.js";

const options = { basePath: process.env.PAYMOCK_URL, accessToken: process.env.PAYMOCK_API_KEY };
const configuration = new service.Configuration(options);
const payments = new service.PaymentsApi(configuration);
const catalog = new service.ChainsAndAssetsApi(configuration);
const webhooks = new service.WebhooksApi(configuration);
const controlConfiguration = new control.Configuration(options);
const time = new control.TimeApi(controlConfiguration);
const overrides = new control.OverridesAndFaultsApi(controlConfiguration);
const inspection = new control.PaymentsApi(controlConfiguration);

const order: service.CreatePayment = {
  orderId: "order-1001",
  receive: {
    chain: "bsc",
    asset: "USDT",
    amount: "1000000000000000000",
    address: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
  },
  settlement: { mode: service.SettlementMode.SameChainMerchantPayout },
  payWith: [{ chain: "bsc", asset: "USDT" }],
  expiresAt: new Date("2099-01-31T12:30:00Z"),
  metadata: { a: 1, b: { c: [1, "two", null] } },
};

const create = (idempotencyKey: string, createPayment: service.CreatePayment, xMockScenario?: service.Scenario) =>
  payments.createPaymentRaw({ idempotencyKey, createPayment, xMockScenario });

async function refused(request: Promise<unknown>) {
  try {
    await request;
  } catch (refusal) {
    if (!(refusal instanceof service.ResponseError)) throw refusal;
    const { error } = service.ErrorEnvelopeFromJSON(await refusal.response.json());
    const code: string = error.code;
    return [refusal.response.status, code, ...(error.details ?? []).map((problem) => problem.field)];
  }
  throw new Error("not refused");
}

await time.setClock({ setClock: { speed: 0 } });
const chains = (await catalog.listChains()).data;
const assets = (await catalog.listAssets({ chain: "bsc" })).data;

const created = await (await create("order-1001-payment", order, service.Scenario.SCENARIO_SETTLEMENT_FAILED)).value();
const replay = await create("order-1001-payment", order, service.Scenario.SCENARIO_SETTLEMENT_FAILED);
const conflict = await refused(create("order-1001-payment", { ...order, orderId: "order-1002" }));
const invalid = await refused(
  create("order-1002-payment", { ...order, payWith: [{ chain: "bsc", asset: "BNB" }] }),
);

let payment = created;
const statuses = [payment.status];
while (payment.status !== service.PaymentStatus.Failed) {
  // @ts-expect-error: the type knows every status
  if (payment.status === "paid") break;
  await time.advanceClock({ advance: { seconds: 5 } });
  payment = await payments.getPayment({ paymentId: created.id });
  if (payment.status !== statuses.at(-1)) statuses.push(payment.status);
}
const attempts = (await payments.listAttempts({ paymentId: created.id })).data;

const endpoint = await webhooks.createWebhookEndpoint({
  idempotencyKey: "endpoint-1",
  createWebhookEndpoint: {
    url: "https://merchant.example/hooks",
    events: new Set([service.EventName.PAYMENT_COMPLETED, service.EventName.PAYMENT_FAILED]),
  },
});
const endpoints = (await webhooks.listWebhookEndpoints()).data;

await overrides.setNext({ setNext: { scenario: control.Scenario.SCENARIO_NO_PAYMENT_EXPIRED } });
const overridden = await (await create("order-1003-payment", order)).value();
const detail = await inspection.getPaymentDetail({ paymentId: overridden.id });
await overrides.addFault({ addFault: { fault: "status=429" } });
const injected = await refused(create("order-1004-payment", order));

console.log(
  JSON.stringify({
    defaults: [service.BASE_PATH, control.BASE_PATH],
    chains: chains.map((chain) => chain.id),
    assets: assets.map((asset) => asset.symbol),
    created: [created.status, created.attempts[0]?.instructions.amounts.due, created.metadata],
    expires_at: created.expiresAt === null ? null : created.expiresAt.getTime() / 1000,
    replay: [replay.raw.headers.get("Idempotent-Replayed"), (await replay.value()).id === created.id],
    conflict,
    invalid,
    statuses,
    took: (payment.updatedAt.getTime() - payment.createdAt.getTime()) / 1000,
    attempts: attempts.map((attempt) => [attempt.status, attempt.deposits?.map((deposit) => deposit.status)]),
    endpoint: [endpoint.url, [...endpoint.events], endpoint.secret.slice(0, 6)],
    endpoints: endpoints.map((one) => one.id === endpoint.id),
    overridden: detail.scenario,
    injected,
  }),
);
