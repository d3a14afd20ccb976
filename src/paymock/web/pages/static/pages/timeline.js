// The drawn timeline of a payment.

import { duration } from "./format.js";

/** Moves the line of now, if there is one, to an age in seconds, and fills the bars up to it. */
export function move(drawn, age) {
  const { left, pixels, end } = drawn.dataset;
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
  caption.textContent = `now: ${duration(age)}`;
  caption.setAttribute("x", toLeft ? Math.max(at, caption.getComputedTextLength()) : at);
  caption.setAttribute("text-anchor", toLeft ? "end" : "start");
}
