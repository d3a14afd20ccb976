#!/usr/bin/env node
// The command itself, with its exit status as a shell has it.
const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { isatty } = require("node:tty");
const { executable, notStarted } = require("../lib/server.js");

process.on("uncaughtException", ({ message }) => (console.error(message), process.exit(127)));
const isForeground = [0, 1, 2].some((stream) => isatty(stream)); // Ctrl-C then reaches the command, too
process.on("SIGINT", () => isForeground || command.kill("SIGINT"));
for (const signal of ["SIGTERM", "SIGHUP", "SIGQUIT"]) process.on(signal, () => command.kill(signal));
const file = executable();
const command = spawn(file, process.argv.slice(2), { stdio: "inherit" });
command.on("error", (problem) => { throw notStarted(file, problem); });
command.on("exit", (status, signal) => process.exit(status ?? 128 + constants.signals[signal]));
