// Amounts, times and counts in words.

/** Whole tokens as they are typed, in raw units; null when they are not an amount. */
export function raw(text, decimals) {
  const match = /^([0-9]*)(?:\.([0-9]*))?$/.exec(text.trim());
  if (!match || (match[2] ?? "").length > decimals) return null;
  const units = BigInt(`${match[1]}${(match[2] ?? "").padEnd(decimals, "0")}` || "0");
  return units > 0n ? `${units}` : null;
}

/** Seconds for people: "12.3 s", "4 min 5 s". */
export function duration(seconds) {
  if (seconds < 60) return `${seconds < 10 ? Math.floor(seconds * 10) / 10 : Math.floor(seconds)} s`;
  const [larger, size, smaller, rest] = seconds < 3600 ? ["min", 60, "s", 1] : seconds < 86400 ? ["h", 3600, "min", 60] : ["d", 86400, "h", 3600];
  return `${Math.floor(seconds / size)} ${larger} ${Math.floor((seconds % size) / rest)} ${smaller}`;
}

