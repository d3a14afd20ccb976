// Draws the timeline of a payment: the past is solid, the future dashed, and a line marks the time.

import { s } from "./dom.js";
import { duration, view, words } from "./format.js";

const LEFT = 96, RIGHT = 24, ROW = 38, TOP = 34, BAR = 18, MAX_ROWS = 8;

/** Returns the picture, `width` pixels wide, and a function that moves its line to an age in seconds. */
export function timeline({ timeline: entries, window_seconds: closes }, age, width) {
  const end = Math.max(entries.at(-1).offset_seconds, closes) * 1.06;
  const x = (seconds) => LEFT + (Math.min(seconds, end) / end) * (width - LEFT - RIGHT);
  const deposits = [...new Set(entries.map((entry) => entry.deposit).filter(Boolean))];
  const rows = deposits.slice(0, MAX_ROWS);
  const height = TOP + ROW * (2 + rows.length) + 30;
  const label = (row, text) => s("text", { x: 0, y: TOP + ROW * row + 13, class: "dim" }, text);
  const growing = [];
  const bar = (row, from, to) => { // dashed, and solid up to now
    const shape = { x: x(from), y: TOP + ROW * row, height: BAR, rx: 4 };
    const solid = s("rect", { ...shape, class: "span" });
    growing.push((seconds) => solid.setAttribute("width", Math.max(0, x(Math.min(seconds, to)) - x(from))));
    return [s("rect", { ...shape, width: x(to) - x(from), class: "future" }), solid];
  };

  const line = s("line", { y1: TOP - 12, y2: height - 26, class: "now" });
  const caption = s("text", { y: 12, class: "now-label" });
  const move = (seconds) => {
    for (const grow of growing) grow(seconds);
    const at = x(seconds);
    for (const name of ["x1", "x2"]) line.setAttribute(name, at);
    caption.setAttribute("x", Math.min(Math.max(at, LEFT), width - RIGHT));
    caption.setAttribute("text-anchor", at > width / 2 ? "end" : "start");
    caption.textContent = `now: ${duration(seconds)}`;
  };
  const picture = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": summary(entries, age) },
    axis(entries, closes, x, height - 26),
    label(0, "Window"), s("g", { class: "window" }, bar(0, 0, closes)),
    s("text", { x: x(closes) - 6, y: TOP + 13, "text-anchor": "end" }, `closes at ${closes} s`),
    label(1, "Status"), statuses(entries, end, x, bar),
    rows.map((number, row) => [label(row + 2, `Deposit ${number}`), ticks(entries.filter((entry) => entry.deposit === number), x, row + 2, bar)]),
    deposits.length > MAX_ROWS && s("text", { x: LEFT, y: 26, class: "dim" }, `${deposits.length - MAX_ROWS} more deposits are in the table`),
    line, caption);
  move(age);
  return { move, picture };
}

function axis(entries, closes, x, y) {
  const drawn = [s("line", { x1: x(0), x2: x(Infinity), y1: y, y2: y, class: "axis" })];
  let free = -Infinity;
  for (const offset of [...new Set([...entries.map((entry) => entry.offset_seconds), closes])].sort((a, b) => a - b)) {
    drawn.push(s("line", { x1: x(offset), x2: x(offset), y1: y, y2: y + 5, class: "axis" }));
    if (x(offset) < free) continue;
    free = x(offset) + 34;
    drawn.push(s("text", { x: x(offset), y: y + 19, "text-anchor": "middle", class: "dim" }, `${offset} s`));
  }
  return drawn;
}

function statuses(entries, end, x, bar) {
  const changes = entries.filter((entry, number) => number === 0 || entry.status !== entries[number - 1].status);
  return changes.map((entry, number) => {
    const from = entry.offset_seconds, to = changes[number + 1]?.offset_seconds ?? end;
    const text = words(entry.status);
    return s("g", { class: view(entry.status) }, s("title", {}, `${text}, from ${from} s`), bar(1, from, to),
      x(to) - x(from) > text.length * 7 + 8 && s("text", { x: x(from) + 5, y: TOP + ROW + 13 }, text));
  });
}

function ticks(entries, x, row, bar) {
  const top = TOP + ROW * row;
  return s("g", { class: "detected" },
    bar(row, entries[0].offset_seconds, entries.at(-1).offset_seconds),
    entries.map((entry) => [
      s("circle", { cx: x(entry.offset_seconds), cy: top + BAR / 2, r: 4, class: entry.reached ? "tick" : "tick future" }, s("title", {}, `${entry.event}, at ${entry.offset_seconds} s`)),
      s("text", { x: x(entry.offset_seconds), y: top - 3, "text-anchor": "middle" }, `${entry.confirmations}`),
    ]));
}

function summary(entries, age) {
  const past = entries.filter((entry) => entry.reached), next = entries.find((entry) => !entry.reached);
  return `${words(past.at(-1).status)} at ${duration(age)}; ${next ? `next: ${next.event}, at ${next.offset_seconds} s` : "no changes remain"}. All steps are in the table below.`;
}

/** Draws the share of the due amount that is received. */
export function fundingBar(due, pending, finalized) {
  const all = [due, pending + finalized].reduce((a, b) => (a > b ? a : b));
  const part = (raw) => Number((raw * 10000n) / all) / 100;
  const excess = pending + finalized > due ? pending + finalized - due : 0n;
  const draw = (from, size, cls) => size > 0n && s("rect", { x: part(from), y: 0, width: part(size), height: 6, class: cls });
  return s("svg", { viewBox: "0 0 100 6", width: "100%", height: 22, preserveAspectRatio: "none", "aria-hidden": "true" },
    draw(0n, finalized, "final"), draw(finalized, pending, "pending"), draw(due, excess, "excess"),
    s("rect", { x: 0, y: 0, width: 100, height: 6, class: "axis" }));
}
