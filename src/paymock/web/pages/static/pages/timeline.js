// Draws the timeline of a payment: the past is solid, the future dashed, and a line marks the time.

import { s } from "./dom.js";
import { count, duration, view, words } from "./format.js";

const LEFT = 2, RIGHT = 16, TOP = 26, BAR = 16, LINE = 18, GAP = 14, MAX_DEPOSITS = 8, MAX_MARKS = 12;

/** How many entries of the journal are read. */
export const MAX_ENTRIES = 200;

/** About how wide a text of 12 pixels is; rather too much, so that labels never touch. */
const widthOf = (text) => text.length * 6.6 + 12;

/** How often the application read each state of the timeline, and how often its requests showed it none meanwhile. */
export function readings({ timeline: states }, entries) {
  const found = states.map(() => ({ reads: 0, failures: 0 }));
  let current = 0;
  for (const entry of entries.toReversed()) { // a reply without a payment came after what was shown before it
    const offset = entry.shown_offset_seconds;
    if (offset != null) current = Math.max(current, states.findLastIndex((state) => state.offset_seconds <= offset));
    if (entry.shown && entry.method === "GET") found[current].reads++;
    else if (!entry.shown && (entry.error || entry.fault)) found[current].failures++;
  }
  return found;
}

/** Returns the picture, `width` pixels wide, and a function that moves its line to an age in seconds. */
export function timeline(detail, entries, age, width) {
  const { timeline: states, window_seconds: closes } = detail;
  const changes = states.filter((entry, number) => number === 0 || entry.status !== states[number - 1].status);
  const end = Math.max(states.at(-1).offset_seconds, closes) * 1.02;
  const labels = changes.map((entry) => ({ entry, text: words(entry.status) }));
  // The last labels need room on the right of their time.
  const room = Math.max(RIGHT, ...labels.map(({ entry: { offset_seconds: at }, text }) => (at ? width - LEFT - (width - LEFT - widthOf(text)) / (at / end) : 0)));
  const x = (seconds) => LEFT + (Math.min(seconds, end) / end) * Math.max(40, width - LEFT - room);
  const growing = [];
  const bar = (y, from, to, cls) => { // dashed, and solid up to now
    const shape = { x: x(from), y, height: BAR, rx: 4 };
    const solid = s("rect", { ...shape, class: "span" });
    growing.push((seconds) => solid.setAttribute("width", Math.max(0, x(Math.min(seconds, to)) - x(from))));
    return s("g", { class: cls }, s("rect", { ...shape, width: Math.max(0, x(to) - x(from)), class: "future" }), solid);
  };
  const texts = []; // above the line of the time
  const text = (x, y, content, cls, anchor) => { texts.push(s("text", { x, y, class: cls, "text-anchor": anchor }, content)); };

  let y = TOP;
  const parts = [];
  for (const [number, { status, offset_seconds: from }] of changes.entries()) {
    parts.push(bar(y, from, changes[number + 1]?.offset_seconds ?? end, view(status)));
  }
  const levels = place(labels, x);
  for (const { entry, text: name, level } of labels) {
    const at = x(entry.offset_seconds), bottom = y + BAR + LINE * (level + 1);
    const cls = `label ${view(entry.status)}${entry.reached ? "" : " ahead"}`;
    parts.push(s("line", { x1: at + 1, x2: at + 1, y1: y + BAR, y2: bottom, class: cls }));
    text(at + 5, bottom - 1, name, cls);
  }
  y += BAR + LINE * levels + GAP;

  const deposits = [...new Set(states.map((entry) => entry.deposit).filter(Boolean))];
  for (const number of deposits.slice(0, MAX_DEPOSITS)) {
    const own = states.filter((entry) => entry.deposit === number);
    text(LEFT, y + 12, depositText(number, own), own[0].reached ? "" : "dim");
    parts.push(ticks(own, x, y + LINE, bar, text));
    y += LINE + BAR + LINE + 4;
  }
  if (deposits.length > MAX_DEPOSITS) {
    text(LEFT, y + 12, `${deposits.length - MAX_DEPOSITS} more deposits are in the table`, "dim");
    y += LINE + 4;
  }

  const seen = readings(detail, entries);
  const sum = (name) => seen.reduce((all, one) => all + one[name], 0);
  const some = entries.length === MAX_ENTRIES ? "at least " : "";
  text(LEFT, y + 12, `Your application: ${some}${seenText({ reads: sum("reads"), failures: sum("failures") })}`);
  parts.push(marks(seen, states, age, x, y + LINE + BAR / 2));
  y += LINE + BAR + 6;

  text(LEFT, y + 12, `Payment window: closes at ${closes} s`, "dim");
  parts.push(bar(y + LINE, 0, closes, "window"));
  y += LINE + BAR + 8;
  parts.push(axis(states, closes, x, y, width, text));
  const height = y + 24;

  const line = s("line", { y1: TOP - 8, y2: y, class: "now" });
  const caption = s("text", { y: 12, class: "now-label" });
  const move = (seconds) => {
    for (const grow of growing) grow(seconds);
    const at = x(seconds);
    for (const name of ["x1", "x2"]) line.setAttribute(name, at);
    caption.textContent = `now: ${duration(seconds)}`;
    const left = at > width / 2;
    caption.setAttribute("x", left ? Math.max(at, widthOf(caption.textContent)) : at);
    caption.setAttribute("text-anchor", left ? "end" : "start");
  };
  const picture = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": summary(states, age) }, parts, line, texts, caption);
  move(age);
  return { move, picture };
}

/**
 * Gives each label the first level below the bar where it fits, from the right to the left: the line from the bar
 * to a label then never crosses another label. Returns how many levels there are.
 */
function place(labels, x) {
  const starts = []; // of the leftmost label, by level
  for (const label of labels.toReversed()) {
    const from = x(label.entry.offset_seconds), to = from + widthOf(label.text);
    label.level = 0;
    while (to > (starts[label.level] ?? Infinity)) label.level++;
    for (let level = 0; level <= label.level; level++) starts[level] = from;
  }
  return starts.length;
}

function axis(states, closes, x, y, width, text) {
  const drawn = [s("line", { x1: x(0), x2: x(Infinity), y1: y, y2: y, class: "axis" })];
  let free = -Infinity;
  for (const offset of [...new Set([...states.map((entry) => entry.offset_seconds), closes])].sort((a, b) => a - b)) {
    drawn.push(s("line", { x1: x(offset), x2: x(offset), y1: y, y2: y + 5, class: "axis" }));
    if (x(offset) < free) continue;
    free = x(offset) + widthOf(`${offset} s`) + 4;
    text(x(offset), y + 19, `${offset} s`, "dim", free > width && "end");
  }
  return drawn;
}

const depositText = (number, own) => `Deposit ${number}: ${own.at(-1).reached ? "" : "to be "}${own.at(-1).deposit_status}`;

function ticks(own, x, y, bar, text) {
  let free = -Infinity;
  return s("g", { class: "deposit" },
    bar(y, own[0].offset_seconds, own.at(-1).offset_seconds, "detected"),
    own.map((entry, number) => {
      const at = x(entry.offset_seconds), middle = y + BAR / 2, rejected = entry.deposit_status === "rejected";
      const title = s("title", {}, `${entry.event}, at ${entry.offset_seconds} s`);
      const tick = rejected
        ? s("path", { d: cross(at, middle, 5), class: "cross" }, title)
        : s("circle", { cx: at, cy: middle, r: 4, class: entry.reached ? "tick" : "tick future" }, title);
      const caption = rejected ? "rejected" : `${entry.confirmations}`;
      const last = x(own.at(-1).offset_seconds) - (own.at(-1).deposit_status === "rejected" ? 34 : 8); // its caption is always shown
      const shown = number === own.length - 1 || (at >= free && at + 12 <= last);
      if (shown) free = at + 16;
      if (shown) text(at, y + BAR + 14, caption, rejected ? "failed" : "confirmations", number ? "middle" : "start");
      return tick;
    }));
}

const cross = (x, y, size) => `M${x - size} ${y - size}l${2 * size} ${2 * size}m0 ${-2 * size}l${-2 * size} ${2 * size}`;

/** What `readings` counted, in words. */
export const seenText = ({ reads, failures }) => [count(reads, "read"), failures && count(failures, "failure")].filter(Boolean).join(", ");

/** The reads of each state, spread over the time that it was shown: the journal does not say when within it. */
function marks(seen, states, age, x, y) {
  return s("g", { class: "seen" }, seen.map(({ reads, failures }, number) => {
    const from = states[number].offset_seconds, to = Math.max(from, Math.min(age, states[number + 1]?.offset_seconds ?? Infinity));
    const all = Math.min(reads + failures, MAX_MARKS), bad = Math.min(failures, Math.ceil((all * failures) / (reads + failures || 1)));
    const title = `${count(reads, "read")} and ${count(failures, "failure")} of the application while ${words(states[number].status)}`;
    return Array.from({ length: all }, (_, mark) => {
      const at = Math.max(x(0) + 4, x(from + ((mark + 0.5) / all) * (to - from)));
      return mark < bad ? s("path", { d: cross(at, y, 4), class: "cross" }, s("title", {}, title)) : s("circle", { cx: at, cy: y, r: 3, class: "read" }, s("title", {}, title));
    });
  }));
}

function summary(states, age) {
  const past = states.filter((entry) => entry.reached), next = states.find((entry) => !entry.reached);
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
