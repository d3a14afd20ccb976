// A sandbox as text: its last payments with their timelines, its fault rules and its last requests.
const SECRET = /(?:0x)?[0-9a-f]{33,}|(?:mk_|whsec_)[\w-]+/gi;

/** The text, without keys and addresses. `get` reads a path of the control API. */
export async function describe(get, secret) {
  const paths = ["clock", "payments?limit=5", "faults", "requests?limit=200"];
  const [clock, payments, faults, requests] = await Promise.all(paths.map((path) => get(path)));
  const details = await Promise.all(payments.data.reverse().map(({ id }) => get(`payments/${id}`)));
  const section = (name, lines) => [`${name}:${lines.length ? "" : " none"}`, ...lines];
  const lines = [
    `${clock.now}, ${clock.speed ? `speed ${clock.speed}` : "frozen"}`,
    ...section("payments", details.flatMap(paymentLines)),
    ...faults.data.slice(0, 20).map(ruleLine),
    ...section("requests", requestLines(requests.data.reverse()).slice(-20)),
  ];
  const shown = (line) => line.replaceAll(secret, "***").replace(SECRET, "***").replace(/[\p{Cc}\p{Cf}]/gu, "?");
  return lines.map((line) => shown(line).slice(0, 200)).join("\n");
}

function paymentLines({ payment, scenario, timeline }) {
  const { amounts, asset } = payment.attempts[0].instructions;
  const first = `  ${payment.id}  ${payment.status}  ${scenario}  order ${payment.order_id}  due ${amounts.due} ${asset}`;
  const time = ({ reached, offset_seconds: seconds }) => `${reached ? "x" : " "} ${String(seconds).padStart(5)} s`;
  return [first, ...timeline.map((change) => `    ${time(change)}  ${change.event}`)];
}

function ruleLine({ fault, operation, order_id: order, skip, times, seen, applied }) {
  const counts = `skip ${skip}, times ${times ?? "all"}, seen ${seen}, applied ${applied}`;
  return `fault rule: ${[fault, operation, order && `order ${order}`, counts].filter(Boolean).join("  ")}`;
}

/** A line for each request; for equal ones in a row, one with their number. */
function requestLines(requests) {
  const groups = [];
  for (const { status, method, path, shown, error, message, details, idempotency, fault } of requests) {
    const reasons = details.map((one) => `${one.field}: ${one.message}`).join("; ") || message;
    const parts = [status || "lost", method, path, shown, error, reasons, idempotency, fault && `fault ${fault}`];
    const line = `  ${parts.filter(Boolean).join("  ")}`;
    const last = groups.at(-1);
    if (last?.line === line) last.count += 1;
    else groups.push({ line, count: 1 });
  }
  return groups.map(({ line, count }) => (count > 1 ? `${line}  (${count} times)` : line));
}
