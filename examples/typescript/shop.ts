// shop.ts: a client whose types are those of the service's OpenAPI document.
import type { components } from "paymock/openapi";

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

/** Whether the status of a payment is the last one, as far as an order is concerned. */
function isFinal(status: PaymentStatus): boolean {
  return status === "completed" || ["canceled", "ask us"].includes(stateOf(status));
}

export class Refused extends Error {
  constructor(readonly code: string, message: string) {
    super(message);
  }
}

interface Order {
  amount: bigint;
  creation?: Promise<Payment>; // while it is under way
  paymentId?: string; // missing until the service has answered
  status: PaymentStatus;
  update?: Promise<void>; // while it is under way
}

export class Shop {
  private readonly orders = new Map<string, Order>(); // a real shop has a database
  private readonly delivered: string[] = []; // the delivery log

  /** `timeout`, in milliseconds, is how long it waits for a reply; `sleep` takes seconds. */
  constructor(
    private readonly url: string,
    private readonly apiKey: string,
    private readonly timeout = 10_000,
    private readonly sleep: (seconds: number) => Promise<unknown> = (seconds) =>
      new Promise((wake) => setTimeout(wake, 1000 * seconds)),
  ) {}

  /** Asks for so many raw units for an order. For the same order it is the same payment, so it may be retried. */
  async order(orderId: string, amount: bigint): Promise<Payment> {
    const order = this.orders.get(orderId) ?? { amount, status: "awaiting_payment" };
    this.orders.set(orderId, order); // before anything can fail
    if (order.paymentId) return this.payment(order.paymentId);
    order.creation ??= this.create(orderId, order.amount).finally(() => delete order.creation);
    const payment = await order.creation;
    order.paymentId = payment.id;
    return payment;
  }

  async state(paymentId: string): Promise<OrderState> {
    return stateOf((await this.payment(paymentId)).status) ?? "open"; // at a status of a later release
  }

  /** Reads the payment of each open order once, and delivers what is completed. */
  async poll(): Promise<void> {
    const open = [...this.orders].filter(([, { status }]) => !isFinal(status));
    await Promise.all(open.map(([orderId, order]) => {
      return (order.update ??= this.update(orderId, order).finally(() => delete order.update));
    }));
  }

  /** How often an order was delivered. */
  deliveries(orderId: string): number {
    return this.delivered.filter((delivered) => delivered === orderId).length;
  }

  private async update(orderId: string, order: Order): Promise<void> {
    try {
      order.paymentId ??= (await this.order(orderId, order.amount)).id;
      order.status = (await this.payment(order.paymentId)).status;
      if (order.status === "completed") this.delivered.push(orderId);
    } catch (problem) {
      console.warn(`${orderId} stays open: ${problem}`); // an error says nothing about the payment
    }
  }

  private create(orderId: string, amount: bigint): Promise<Payment> {
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

  private payment(paymentId: string): Promise<Payment> {
    return this.call<Payment>(`/v1/payments/${paymentId}`);
  }

  private async call<Reply>(path: string, request: RequestInit = {}): Promise<Reply> {
    const headers = { ...request.headers, Authorization: `Bearer ${this.apiKey}` };
    for (let triesLeft = 2; ; triesLeft--) {
      let pause = 0.1;
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(), this.timeout);
      try {
        const reply = await fetch(this.url + path, { ...request, headers, signal: late.signal });
        if (reply.ok) return (await reply.json()) as Reply;
        const { error } = (await reply.json()) as Schemas["ErrorEnvelope"]; // fails for the page of a gateway
        pause = Math.max(pause, seconds(reply.headers.get("Retry-After")));
        const mayHelpLater = reply.status >= 500 || reply.status === 429;
        if (!mayHelpLater || !triesLeft) throw new Refused(error.code, error.message);
      } catch (problem) {
        if (problem instanceof Refused || !triesLeft) throw problem; // else no reply came: try again
      } finally {
        clearTimeout(timer);
      }
      await this.sleep(pause);
    }
  }
}

/** How long to wait, at most a minute: the header is a number of seconds or an HTTP date. */
function seconds(retryAfter: string | null): number {
  const number = Number(retryAfter);
  const asked = Number.isNaN(number) ? (Date.parse(retryAfter ?? "") - Date.now()) / 1000 : number;
  return Math.max(0, Math.min(asked || 0, 60));
}
