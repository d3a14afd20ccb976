// Server-sent events by fetch, which can send a key. Hidden pages disconnect: browsers allow six connections.

const HIDDEN_MS = 5000;
const SILENT_MS = 50_000; // the server sends an event at least every 20 seconds

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const visible = () => new Promise((resolve) => {
  if (!document.hidden) return resolve();
  document.addEventListener("visibilitychange", resolve, { once: true });
});

/** Calls `message` with each event, and `state` with "live", "away" or a status; 401 and 404 end it. */
export async function follow(url, headers, message, state) {
  for (let failures = 0; ; failures++) {
    await visible();
    const ending = new AbortController();
    let timer, silent, status = "away";
    const heard = () => {
      clearTimeout(silent);
      silent = setTimeout(() => ending.abort(), SILENT_MS);
    };
    const hide = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => ending.abort(), HIDDEN_MS);
    };
    document.addEventListener("visibilitychange", hide);
    heard();
    try {
      const reply = await fetch(url, { headers, cache: "no-store", signal: ending.signal });
      if (reply.ok) {
        state("live");
        await read(reply.body, (event) => { failures = -1; heard(); message(event); });
      } else {
        status = reply.status;
      }
    } catch { /* not connected; `state` is called below */ }
    ending.abort();
    clearTimeout(timer);
    clearTimeout(silent);
    document.removeEventListener("visibilitychange", hide);
    if (status === 401 || status === 404) return state(status);
    if (!document.hidden) {
      state(status);
      await pause(Math.min(500 * 2 ** failures, 4000));
    }
  }
}

async function read(body, message) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("data: ")) message(JSON.parse(event.slice(6)));
  }
}
