// The server of the tests: the one that PAYMOCK_URL names, or one that is started for this process.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const require = createRequire(import.meta.url);
const { version: VERSION } = require("../package.json"); // a source tree has none
const ARGUMENTS = "serve --port 0 --ready-file - --exit-on-stdin-close --no-access-log".split(" ");

let started; // the promise of a process with its `url` and its last `output`
const compared = new Map(); // URLs of servers, each with the promise of a comparison

/** The path of the executable. Throws an Error with a message of one line. */
export function executable() {
  const { env, platform, arch } = process;
  if (env.PAYMOCK_BIN) return resolve(env.PAYMOCK_BIN);
  const name = `@paymock/${platform}-${arch}`;
  try {
    return require.resolve(`${name}/bin/paymock${platform === "win32" ? ".exe" : ""}`);
  } catch {
    throw new Error(`paymock: install ${name}, or set PAYMOCK_BIN to an executable or, in tests, PAYMOCK_URL to a server`);
  }
}

/** The `url` of the server, and the `key` that it was configured with. */
export async function server() {
  const { PAYMOCK_URL: url, PAYMOCK_API_KEY: key } = process.env;
  return url ? { url, key } : (started ??= start(executable()));
}

/** Ends the server of this process. The next test starts another. */
export async function stopServer() {
  (await started?.catch(() => {}))?.stdin.destroy();
  started = undefined;
}

/** The error for an executable that cannot be started. */
export function notStarted(file, { code }) {
  return new Error(`paymock: cannot start ${file}: ${code}${process.env.PAYMOCK_BIN ? ", which PAYMOCK_BIN names" : ""}`);
}

function start(file) {
  const { PAYMOCK_API_KEY, PAYMOCK_API_KEYS, PAYMOCK_API_KEYS_FILE, ...env } = process.env; // it is in open mode
  const child = Object.assign(spawn(file, ARGUMENTS, { env }), { output: "" });
  process.once("disconnect", () => child.stdin.destroy()); // vitest was killed: its processes may stay
  return new Promise((ready, fail) => {
    child.on("error", (problem) => fail(notStarted(file, problem))).stdin.on("error", () => {});
    child.on("close", (status, signal) => {
      child.output += `\n${file} ended with ${signal ?? `status ${status}`}`;
      fail(new Error(`paymock: the server did not start:\n${child.output.trim()}`));
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        child.output = (child.output + text).slice(-2000);
        child.url ??= stream === child.stdout ? /^{"url": "(.+?)".*}$/m.exec(child.output)?.[1] : undefined;
        if (!child.url || stream === child.stderr) return;
        for (const one of [child, ...child.stdio]) one.unref(); // when this process ends, so does the server
        ready(Object.assign(child, { output: "" }));
      });
    }
  });
}

/** The reply to a request. Throws an Error with what a server that was started has printed last. */
export async function request(url, path, options) {
  if (!compared.has(url)) compared.set(url, compare(url));
  await compared.get(url);
  return fetch(url + path, options).catch(async (problem) => {
    const child = await started?.catch(() => {});
    const output = child?.url === url ? `\n${child.output.trim()}` : "";
    throw new Error(`paymock: ${url} does not answer: ${problem.cause?.message || problem}${output}`);
  });
}

/** Warns unless the server has the major and minor number of this package. */
async function compare(url) {
  // What is wrong with the server is told by the request that follows.
  const reply = await fetch(`${url}/livez`, { signal: AbortSignal.timeout(10_000) }).catch(() => ({}));
  const { version = "below 0.2" } = reply.ok ? await reply.json().catch(() => ({})) : { version: VERSION };
  if (!VERSION || version.split(".", 2).join() === VERSION.split(".", 2).join()) return;
  const versions = `is version ${version}, this helper is ${VERSION}: install the same version`;
  console.warn(`paymock: the server at ${url} ${versions}`);
}
