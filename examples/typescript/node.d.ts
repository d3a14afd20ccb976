// What the shop and its tests use of Node.js. With npm, install @types/node in the place of this file.
declare const process: { env: Record<string, string | undefined> };
declare module "node:assert/strict" {
  function ok(value: unknown, message?: string): asserts value;
  function equal<T>(actual: unknown, expected: T): asserts actual is T;
  function deepEqual(actual: unknown, expected: unknown): void;
  function rejects(promise: Promise<unknown>, check: (problem: unknown) => boolean): Promise<void>;
  const assert: { ok: typeof ok; equal: typeof equal; deepEqual: typeof deepEqual; rejects: typeof rejects };
  export default assert;
}
declare module "node:crypto" {
  export function randomUUID(): string;
}
declare module "node:http" {
  type Request = { method?: string; url?: string };
  type Reply = { writeHead(status: number): { end(text: string): void } };
  type Server = { listen(port: number, host: string): void };
  export function createServer(handle: (request: Request, reply: Reply) => void): Server;
}
declare module "node:test" {
  export default function test(name: string, run: () => void | Promise<void>): Promise<void>;
}
