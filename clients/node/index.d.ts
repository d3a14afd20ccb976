import type { components } from "./openapi-control.js";

type Schemas = components["schemas"];
export type Course = Schemas["CourseRequest"];
export type Payment = Schemas["Payment"];
export type PaymentStatus = Schemas["PaymentStatus"];
export type Request = Schemas["JournalEntry"];
export type Scenario = Schemas["Scenario"];

type Phase = "" | "; before" | "; after";
type RetryAfter = "" | `; retry-after=${number | "date" | "none"}`;
type Kind =
  | `status=${number}${Phase}${"" | "; html"}${RetryAfter}`
  | `${`delay=${number}` | "drop" | "reset" | "hang" | "hold"}${Phase}`
  | `${`extra${"" | "=status" | "=attempt" | "=deposit" | "=type"}` | `truncate=${number}`}${"" | "; after"}`;
export type Fault = `${Kind}${"" | `; times=${number}`}`;

/** A literal is one of `Known`. A `string` is checked by the server, which may have scenarios of its own. */
type Checked<Given, Known> = string extends Given ? Given : Known;
type Filter = { status?: PaymentStatus; scenario?: string; orderId?: string; search?: string };
type Selection = { operation?: Schemas["OperationId"]; orderId?: string };
type Prefix = { orderIdPrefix?: string }; // the beginning of an order id
type Times = { times?: number | null }; // null: until a reset
type Timeout = { timeout?: number }; // in real seconds

/** The server refused a request. */
export class PaymockError extends Error {
  readonly status: number;
  readonly code: Schemas["ErrorCode"];
  readonly details: { field: string; message: string }[];
}

/** A wait ended without what was awaited: where the payment stands, and why. */
export class NotReached extends Error {}

/** Everything that belongs to one API key of a server. An order stands for its newest payment. */
export class Sandbox {
  /** With a `name`, it is one of the sandboxes of a configured key. */
  constructor(url: string, apiKey: string, name?: string);
  /** An empty sandbox with a frozen clock. */
  static open(): Promise<Sandbox>;
  readonly url: string;
  readonly apiKey: string;
  readonly dashboardUrl: string;
  now(): Promise<Date>;
  advance(seconds: number): Promise<Date>;
  advanceTo(orderOrId: string, to: PaymentStatus | "next" | "end", options?: Timeout & { untilObserved?: boolean }): Promise<Payment>;
  speed(factor: number): Promise<void>;
  freeze(options?: { at?: Date | string }): Promise<void>;
  next<Given extends string>(scenario: Checked<Given, Scenario> | Course, options?: Times & Prefix & { orderId?: string; metadata?: Record<string, unknown> }): Promise<Schemas["PendingOverride"][]>;
  fault<Given extends string>(fault: Checked<Given, Fault>, options?: Times & Selection & Prefix & { skip?: number }): Promise<Schemas["FaultRule"]>;
  faults(): Promise<Schemas["FaultRule"][]>;
  deposit(orderOrId: string, amount: bigint | string, asset?: string): Promise<Payment>;
  payments(filter?: Filter): Promise<Schemas["ListedPayment"][]>;
  payment(orderOrId: string, options?: { at?: number }): Promise<Payment>; // `at`: seconds after its creation
  requests(): Promise<Request[]>;
  waitFor(orderOrId: string, status?: PaymentStatus, options?: Timeout): Promise<Payment>;
  waitForRequests(options?: Timeout & Selection & { count?: number; shown?: PaymentStatus }): Promise<Request[]>;
  describe(): Promise<string>;
  reset(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The function of a test, which gets an empty sandbox before the arguments of its runner. */
export function inSandbox<Given extends unknown[]>(
  run: (mock: Sandbox, ...given: Given) => unknown,
): (...given: Given) => Promise<void>;

declare global {
  interface SymbolConstructor { readonly asyncDispose: unique symbol } // TypeScript knows it from 5.2 on
}
