// Amounts, times, statuses and ids in words.

import { by, h, icon } from "./dom.js";

const BIDI_CONTROLS = /([\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069])/g;

/** The view of the checkout that a status belongs to; it has its icon and its color. */
export const view = (status) => by("views").dataset[status] ?? "pay";
export const words = (status) => status.replaceAll("_", " ");
export const badge = (status) => h("span", { class: `badge ${view(status)}` }, icon(view(status)), words(status));

const codePoint = (control) => `U+${control.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Text of an application, such as an order id, as text; characters that would reverse it are shown as their code points. */
export const visible = (text) => text.replace(BIDI_CONTROLS, codePoint);
export const isolated = (text) => h("bdi", {}, text.split(BIDI_CONTROLS).map((part) => (part.match(BIDI_CONTROLS) ? h("span", { class: "control" }, codePoint(part)) : part)));

/** A name that may break after its underscores. */
export const breakable = (name) => name.split("_").flatMap((part, number) => (number ? ["_", h("wbr"), part] : [part]));

const decimalsOf = (chain, asset) => document.querySelector(`#asset [value="${chain} ${asset}"]`)?.dataset.decimals;

/** Raw units in whole tokens, "1.01 USDT"; null when the catalog does not know the asset. */
export function tokens(raw, { chain, asset }) {
  const decimals = Number(decimalsOf(chain, asset) ?? NaN);
  if (Number.isNaN(decimals)) return null;
  const digits = raw.padStart(decimals + 1, "0");
  const cut = digits.length - decimals;
  const fraction = digits.slice(cut).replace(/0+$/, "");
  return `${digits.slice(0, cut)}${fraction && "."}${fraction} ${asset}`;
}

export const amount = (raw, of) => [h("span", { class: "clamp" }, tokens(raw, of) ?? ""), h("small", { class: "mono clamp", title: `${raw} raw units` }, `${raw} raw`)];

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

export const time = (at) => `${at.slice(0, 10)} ${at.slice(11, 19)}`;
export const short = (id) => (id.length > 20 ? `${id.slice(0, 10)}…${id.slice(-6)}` : id);
export const count = (number, noun) => `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;
