// Tests that each get a sandbox, for node:test, vitest and Jest.
import { inspect, types } from "node:util";
import { PaymockError, Sandbox } from "./lib/sandbox.js";
import { stopServer } from "./lib/server.js";

export { PaymockError, Sandbox };

const FOLDER = new URL(".", import.meta.url).pathname;

/** Members of a runner's `test` that define tests, too. */
const MEMBERS = "concurrent each fails failing for only runIf sequential skip skipIf todo".split(" ");

/** The `test` of a runner, whose functions get a sandbox before their other arguments. */
export function withPaymock(test) {
  globalThis.afterAll?.(stopServer); // Jest loads this module for each file, in one process
  return wrapped(test);
}

function wrapped(test, self) {
  return new Proxy(test, {
    apply(_, __, given) {
      const result = Reflect.apply(test, self, given.map((one) => (typeof one === "function" ? inSandbox(one) : one)));
      return typeof result === "function" ? wrapped(result) : result;
    },
    get: (_, name) => (MEMBERS.includes(name) && test[name] ? wrapped(test[name], test) : test[name]),
  });
}

// With a parameter that has a name, Jest would wait for a callback.
const inSandbox = (run) => async (...given) => {
  const mock = await Sandbox.open();
  const { signal } = given[0] ?? {}; // of node:test and vitest, whose error at a time limit is their own
  const tell = async () => console.error(await storyOf(mock));
  signal?.addEventListener("abort", tell);
  try {
    await run(mock, ...given);
  } catch (problem) {
    const story = await storyOf(mock);
    if (!process.env.PAYMOCK_URL) await mock.reset().catch(() => {}); // else the link shows it
    throw withStory(problem, story);
  } finally {
    signal?.removeEventListener("abort", tell);
  }
  await mock.reset();
};

async function storyOf(mock) {
  const link = process.env.PAYMOCK_URL ? `: ${mock.dashboardUrl}` : ""; // another server ends with this process
  return `\n\npaymock${link}\n${await mock.describe().catch(({ message }) => message)}\n`;
}

/** The error with a story in what is shown of it: node:test and Jest show `stack`, vitest `message`. */
function withStory(problem, story) {
  const known = types.isNativeError(problem) && Object.isExtensible(problem);
  const message = typeof problem === "string" ? problem : String(problem?.message ?? inspect(problem));
  const error = known ? problem : new Error(message);
  const lines = String(problem?.stack ?? `Error: ${message}`).split("\n");
  const stack = lines.filter((line) => !line.includes(FOLDER)).join("\n");
  const define = (name, value) => Object.defineProperty(error, name, { value, configurable: true, writable: true });
  define("message", message + story);
  define("stack", message && stack.includes(message) ? stack.replace(message, () => message + story) : stack + story);
  if (error.generatedMessage) error.generatedMessage = false; // else Jest shows one that it generates
  return error;
}
