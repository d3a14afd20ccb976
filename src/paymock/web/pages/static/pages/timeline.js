// The drawn timeline of a payment.

import { duration } from "./format.js";

/** Fills the bars up to an age in seconds, and moves the line of now and its caption there, if it has them. */
export function move(drawn, age) {
  const { left = 0, pixels = 1, end } = drawn.dataset;
  const x = (seconds) => Number(left) + Math.min(seconds, end) * pixels;
  for (const bar of drawn.querySelectorAll("[data-from]")) {
    const { from, to } = bar.dataset;
    bar.setAttribute("width", Math.max(0, x(Math.min(age, to)) - x(from)));
  }
  const at = x(age), toLeft = at > drawn.viewBox.baseVal.width / 2;
  const line = drawn.querySelector(".now"), caption = drawn.querySelector(".now-label");
  if (!line) return;
  line.setAttribute("x1", at);
  line.setAttribute("x2", at);
  if (!caption) return;
  caption.textContent = `now: ${duration(age)}`;
  caption.setAttribute("x", toLeft ? Math.max(at, caption.getComputedTextLength()) : at);
  caption.setAttribute("text-anchor", toLeft ? "end" : "start");
}
