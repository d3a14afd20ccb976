// shop.ts: a client whose types are those of the service's OpenAPI document.
import type { components } from "./openapi.js";

type Schemas = components["schemas"];
export type Payment = Schemas["Payment"];
export type PaymentStatus = Schemas["PaymentStatus"];
export type OrderState = "open" | "paid" | "canceled" | "ask us";

/** What the status of a payment means for an order. A status that is missing here is an error of the compiler. */
export function stateOf(status: PaymentStatus): OrderState {
  switch (status) {
    case "awaiting_payment":
    case "payment_detected":
      return "open";
    case "payment_finalized":
    case "settlement_pending":
    case "settlement_submitted":
    case "completed":
      return "paid";
    case "expired":
      return "canceled";
    case "underpaid_expired":
    case "overpaid_review":
    case "manual_review":
    case "failed":
      return "ask us";
  }
}

export class Refused extends Error {
  constructor(readonly code: Schemas["ErrorCode"], message: string) {
    super(message);
  }
}

export class Shop {
  constructor(private readonly url: string, private readonly apiKey: string) {}

  /** Asks for so many raw units for an order. For the same order it is the same payment, so it may be retried. */
  async order(orderId: string, amount: bigint): Promise<Payment> {
    const coin: Schemas["PayWithRequest"] = { chain: "bsc", asset: "USDT" };
    const body: Schemas["CreatePayment"] = {
      order_id: orderId,
      receive: { ...coin, amount: amount.toString(), address: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" },
      settlement: { mode: "same_chain_merchant_payout" },
      pay_with: [coin],
    };
    return this.call<Payment>("/v1/payments", {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "Content-Type": "application/json", "Idempotency-Key": `payment-of-${orderId}` },
    });
  }

  async state(paymentId: string): Promise<OrderState> {
    return stateOf((await this.call<Payment>(`/v1/payments/${paymentId}`)).status);
  }

  private async call<Reply>(path: string, request: RequestInit = {}): Promise<Reply> {
    const headers = { ...request.headers, Authorization: `Bearer ${this.apiKey}` };
    for (let triesLeft = 2; ; triesLeft--) {
      try {
        const reply = await fetch(this.url + path, { ...request, headers });
        if (reply.ok) return (await reply.json()) as Reply;
        const { error } = (await reply.json()) as Schemas["ErrorEnvelope"];
        if (reply.status < 500 || !triesLeft) throw new Refused(error.code, error.message);
      } catch (problem) {
        if (problem instanceof Refused || !triesLeft) throw problem; // else no reply came: try again
      }
    }
  }
}
