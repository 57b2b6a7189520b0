// What the times of a round come to: the parts of a silo's round, and where on the axis each lies.

import { formatSeconds } from "./format.js";

/** Bottom to top, and in the order in which they happen; `wait` is before and after. */
export const PARTS = ["fetch", "test", "train", "upload", "wait", "unknown"];
export const WORDS = {
  fetch: "fetch", test: "test", train: "train", upload: "upload", wait: "wait", unknown: "not known",
};
const WORK = PARTS.slice(0, 4);

/** Seconds of each part of one silo's round; what nobody has seen is `unknown`. */
export function partsOf(times, span) {
  const parts = Object.fromEntries([...WORK, "wait"].map((name) => [name, times[`${name}_s`] ?? 0]));
  const known = Object.values(parts).reduce((sum, x) => sum + x, 0);
  const rest = span - known;
  return { ...parts, unknown: rest > 0.01 * span + 0.005 ? rest : 0 };
}

/** [{part, from, to}] in seconds of the round. */
export function stretches(times, span) {
  const parts = partsOf(times, span);
  const before = times.fetch_at_s ?? 0;
  const found = [];
  let at = 0;
  const add = (part, seconds) => {
    if (seconds > 0) found.push({ part, from: at, to: at + seconds });
    at += Math.max(0, seconds);
  };
  const worked = WORK.some((name) => parts[name]);
  if (times.fetch_at_s == null && worked) add("unknown", parts.unknown);
  else if (worked) add("wait", before);
  for (const name of WORK) add(name, parts[name]);
  if (times.fetch_at_s != null || !worked) add("unknown", parts.unknown);
  add("wait", parts.wait - (worked ? before : 0));
  return found;
}

/** When a silo was through with its round: what it waited for after that is not its doing. */
export function throughAt(times, span) {
  const last = stretches(times, span).findLast(({ part }) => part !== "wait");
  return last ? last.to : 0;
}

/** The silos of a round, the slowest first: [{id, times, through}]. */
export function bySpeed({ times, closed_by: what, closed_by_silo: closer }) {
  const found = Object.entries(times.silos).map(([id, one]) =>
    ({ id, times: one, through: throughAt(one, times.span_s) }));
  const last = (id) => (what === "silo" && id === closer ? 1 : 0);
  return found.sort((a, b) => b.through - a.through || last(b.id) - last(a.id) || (a.id < b.id ? -1 : 1));
}

/** `fetch 0.20 s, train 12.0 s`, of what there is. */
export function partsWords(parts) {
  const told = PARTS.filter((name) => parts[name] > 0);
  return told.map((name) => `${WORDS[name]} ${formatSeconds(parts[name])}`).join(", ") || "nothing";
}

/** What a silo was at when the round went on without it, and what took several tries. */
export function remarks({ unfinished, tries = {} }) {
  const often = Object.entries(tries).map(([name, n]) => `${n} tries to ${name}`);
  return [unfinished ? `did not finish to ${unfinished}` : "", ...often].filter(Boolean).join(", ");
}
