// Amounts, times and counts in words.

/** Whole tokens as they are typed, in raw units; null when they are not an amount. */
export function raw(text, decimals) {
  const match = /^([0-9]*)(?:[.,]([0-9]*))?$/.exec(text.trim());
  if (!match || (match[2] ?? "").length > decimals) return null;
  const units = BigInt(`${match[1]}${(match[2] ?? "").padEnd(decimals, "0")}` || "0");
  return units > 0n ? `${units}` : null;
}

/** Seconds for people: "12.3 s", "4 min 5 s". */
export function duration(seconds) {
  if (seconds < 60) return `${seconds < 10 ? Math.floor(seconds * 10) / 10 : Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export const count = (number, noun) => `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;
