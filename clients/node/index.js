// Tests that each get a sandbox, for node:test, vitest and Jest.
"use strict";
const { inspect, types } = require("node:util");
const { NotReached, PaymockError, Sandbox } = require("./lib/sandbox.js");
const { beginServer, stopServer } = require("./lib/server.js");

const running = new Set(); // tests, each with its `name`; the runner `end`s one that is over before it is done

// Jest tells a test nothing of its end, and loads this module for each file, in one process.
globalThis.afterEach?.(() => Promise.all([...running].map((test) => test.name === nameNow() && test.end())));
globalThis.afterAll?.(stopServer);

/** The function of a test, which gets an empty sandbox before the arguments of its runner. */
function inSandbox(run) {
  beginServer().catch(() => {}); // the test is told
  // With a parameter that has a name, Jest would wait for a callback.
  return async (...given) => {
    const context = given.findLast(isContext);
    const start = performance.now();
    const limit = new AbortController();
    let mock, ended;
    const name = context?.task?.name ?? context?.name ?? nameNow();
    const test = { name, end: () => running.has(test) && (ended ??= end()) };
    async function end() {
      const seconds = `${((performance.now() - start) / 1000).toFixed(1)} s`;
      const what = `: "${name}" was ended by its runner`;
      const late = `\npaymock${what}: the server took more than ${seconds} to start\n`;
      process.stderr.write(mock ? await storyOf(mock, `${what} after ${seconds}`) : late);
      limit.abort(new Error("paymock: the runner has ended this test"));
    }
    running.add(test);
    context?.signal?.addEventListener("abort", test.end);
    (context?.onTestFinished ?? context?.after)?.call(context, test.end);
    try {
      mock = await Sandbox.open(limit.signal);
      if (!ended) await run(mock, ...given);
    } catch (problem) {
      throw ended ? problem : withStory(problem, await storyOf(mock));
    } finally {
      running.delete(test);
    }
    if (!ended) await mock.reset();
  };
}

/** Whether it is what vitest or node:test tell a test, and not a row of `test.each`. */
const isContext = (one) => typeof one?.onTestFinished === "function" || one?.signal instanceof AbortSignal;

const nameNow = () => globalThis.expect?.getState?.()?.currentTestName;

/** What happened in a sandbox, which is empty then: another server keeps it for the link. */
async function storyOf(mock, what = "") {
  if (!mock) return ""; // the server did not start
  const { PAYMOCK_URL } = process.env;
  const story = await mock.describe().catch(({ message }) => message);
  if (!PAYMOCK_URL) await mock.reset().catch(() => {});
  return `\n\npaymock${what}${PAYMOCK_URL ? `: ${mock.dashboardUrl}` : ""}\n${story}\n`;
}

/** The error with a story in what is shown of it: node:test and Jest show `stack`, vitest `message`. */
function withStory(problem, story) {
  const known = types.isNativeError(problem) && Object.isExtensible(problem);
  const message = typeof problem === "string" ? problem : String(problem?.message ?? inspect(problem));
  const error = known ? problem : new Error(message);
  const lines = String(problem?.stack ?? `Error: ${message}`).split("\n");
  const stack = lines.filter((line) => !line.includes(__dirname)).join("\n");
  const define = (name, value) => Object.defineProperty(error, name, { value, configurable: true, writable: true });
  define("message", message + story);
  define("stack", message && stack.includes(message) ? stack.replace(message, () => message + story) : stack + story);
  if (error.generatedMessage) error.generatedMessage = false; // else Jest shows one that it generates
  return error;
}

module.exports = { inSandbox, NotReached, PaymockError, Sandbox };
