import type { components } from "./openapi-control.js";

type Schemas = components["schemas"];
export type Course = Schemas["CourseRequest"];
export type Payment = Schemas["Payment"];
export type PaymentStatus = Schemas["PaymentStatus"];
export type Request = Schemas["JournalEntry"];
type Filter = { status?: PaymentStatus; scenario?: string; orderId?: string; search?: string };
type Selection = { operation?: Schemas["OperationId"]; orderId?: string };
type Times = { times?: number | null }; // null: until a reset
type Timeout = { timeout?: number }; // in real seconds

/** The server refused a request. */
export class PaymockError extends Error {
  readonly status: number;
  readonly code: Schemas["ErrorCode"];
  readonly details: { field: string; message: string }[];
}

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
  next(scenario: string | Course, options?: Times & { orderId?: string }): Promise<Schemas["PendingOverride"][]>;
  fault(fault: string, options?: Times & Selection & { skip?: number }): Promise<Schemas["FaultRule"]>;
  faults(): Promise<Schemas["FaultRule"][]>;
  deposit(orderOrId: string, amount: bigint | string, asset?: string): Promise<Payment>;
  payments(filter?: Filter): Promise<Schemas["ListedPayment"][]>;
  payment(orderOrId: string): Promise<Payment>;
  requests(): Promise<Request[]>;
  waitFor(orderId: string, status?: PaymentStatus, options?: Timeout): Promise<Payment>;
  waitForRequests(options?: Timeout & Selection & { count?: number; shown?: PaymentStatus }): Promise<Request[]>;
  describe(): Promise<string>;
  reset(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

type Run = (mock: Sandbox, ...others: any[]) => unknown;
type Define = (name: string, optionsOrRun?: object | Run, runOrTimeout?: Run | object | number) => any;

/** The `test` of a runner, whose functions get a sandbox before their other arguments. */
export function withPaymock<Test>(test: Test): Define & {
  [Member in keyof Test]: Member extends "each" | "for" | "runIf" | "skipIf" ? (...given: any[]) => Define
    : Member extends "concurrent" | "fails" | "failing" | "only" | "sequential" | "skip" | "todo" ? Define : Test[Member];
};

declare global {
  interface SymbolConstructor { readonly asyncDispose: unique symbol } // TypeScript knows it from 5.2 on
}
