// The server of the tests: the one that PAYMOCK_URL names, or one that is started for this process.
"use strict";
const { spawn } = require("node:child_process");
const { resolve } = require("node:path");
const { version: VERSION } = require("../package.json"); // a source tree has none
const ARGUMENTS = "serve --port 0 --ready-file - --exit-on-stdin-close --no-access-log".split(" ");

let child; // the process of the server, with its `url` and its last `output`
let started; // the promise of it, ready
const compared = new Map(); // URLs of servers, each with the promise of a comparison

/** The path of the executable. Throws an Error with a message of one line. */
function executable() {
  const { env, platform, arch } = process;
  if (env.PAYMOCK_BIN) return resolve(env.PAYMOCK_BIN);
  const name = `@paymock/${platform}-${arch}`;
  try {
    return require.resolve(`${name}/bin/paymock${platform === "win32" ? ".exe" : ""}`);
  } catch {
    throw new Error(`paymock: install ${name}, or set PAYMOCK_BIN to an executable or, in tests, PAYMOCK_URL to a server`);
  }
}

/** The `url` of the server, and the `key` that it was configured with. Starts it, but this process does not stay for it. */
async function beginServer() {
  const { PAYMOCK_URL: url, PAYMOCK_API_KEY: key } = process.env;
  return url ? { url, key } : (started ??= start(executable()));
}

/** The same. This process stays until the server is ready, or `signal` aborts. */
function server(signal) {
  const stay = setInterval(() => {}, 1e6);
  const leave = () => clearInterval(stay);
  signal.addEventListener("abort", leave);
  return beginServer().finally(leave);
}

/** Ends the server of this process. The next test starts another. */
function stopServer() {
  child?.stdin.destroy();
  started = undefined;
}

/** The error for an executable that cannot be started. */
function notStarted(file, { code }) {
  return new Error(`paymock: cannot start ${file}: ${code}${process.env.PAYMOCK_BIN ? ", which PAYMOCK_BIN names" : ""}`);
}

function start(file) {
  const { PAYMOCK_API_KEY, PAYMOCK_API_KEYS, PAYMOCK_API_KEYS_FILE, ...env } = process.env; // it is in open mode
  const own = (child = Object.assign(spawn(file, ARGUMENTS, { env }), { output: "" }));
  for (const one of [own, ...own.stdio]) one.unref(); // when this process ends, so does the server
  process.once("disconnect", () => own.stdin.destroy()); // vitest was killed: its processes may stay
  return new Promise((ready, fail) => {
    own.on("error", (problem) => fail(notStarted(file, problem))).stdin.on("error", () => {});
    own.on("close", (status, signal) => {
      own.output += `\n${file} ended with ${signal ?? `status ${status}`}`;
      fail(new Error(`paymock: the server did not start:\n${own.output.trim()}`));
    });
    for (const stream of [own.stdout, own.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        own.output = (own.output + text).slice(-2000);
        own.url ??= stream === own.stdout ? /^{"url": "(.+?)".*}$/m.exec(own.output)?.[1] : undefined;
        if (!own.url || stream === own.stderr) return;
        ready(Object.assign(own, { output: "" }));
      });
    }
  });
}

/** The reply to a request. Throws an Error with what a server that was started has printed last. */
async function request(url, path, options) {
  if (!compared.has(url)) compared.set(url, compare(url));
  await compared.get(url);
  return fetch(url + path, options).catch((problem) => {
    if (problem === options.signal.reason && problem.name !== "TimeoutError") throw problem;
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

module.exports = { beginServer, executable, notStarted, request, server, stopServer };
