// Polls the server, while the page can be seen.

const POLL_MS = 1000;
const IDLE_MS = 2000; // while the clock is frozen, which a test may advance, or the revision has been the same for IDLE_POLLS
const IDLE_POLLS = 30;
const LIMIT_MS = 15_000;

let changed = false, wake;

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const visible = () => new Promise((resolve) => {
  if (!document.hidden) return resolve();
  document.addEventListener("visibilitychange", resolve, { once: true });
});

/** Like `fetch`, with a time limit, which counts for the body, too. */
export function get(url, options) {
  const limit = new AbortController();
  setTimeout(() => limit.abort(), LIMIT_MS);
  return fetch(url, { cache: "no-store", signal: limit.signal, ...options });
}

/** Polls at once: something has been changed. */
export const pollNow = () => {
  changed = true;
  wake?.();
};

/**
 * Calls `show` with each reply, and then `state` with "live", "away" or a status. What fails, also in `show`, is tried again
 * at once, then ever more seldom. It ends at 401 and 404. When `show` returns false, nothing lies ahead until `pollNow`.
 */
export async function poll(url, headers, show, state) {
  for (let failures = 0, same = 0, revision; ;) {
    await visible();
    changed = false;
    let ms = POLL_MS, status = "away";
    try {
      const reply = await get(url, { headers });
      status = reply.ok ? "live" : reply.status;
      if (reply.ok) {
        const found = await reply.json();
        same = found.revision && found.revision === revision ? same + 1 : 0;
        revision = found.revision;
        if (found.speed === 0 || same > IDLE_POLLS) ms = IDLE_MS;
        if ((await show(found, reply)) === false) ms = Infinity;
      }
    } catch {
      status = "away";
    }
    if (status === "live") {
      failures = 0;
      state(status);
      if (!changed) await new Promise((resolve) => { wake = resolve; if (ms < Infinity) setTimeout(resolve, ms); });
    } else if (status === 401 || status === 404) {
      return state(status);
    } else if (!document.hidden && failures++) {
      state(status);
      await pause(Math.min(250 * 2 ** failures, 4000));
    }
  }
}
