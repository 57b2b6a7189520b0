// What the x axis can be: rounds, the time since the first round was opened, or bytes sent.

import { formatBytes, formatDuration } from "../format.js";

const decades = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i))
  .flatMap((power) => [power, 2 * power, 5 * power]);
const TIMES = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200];

/** Seconds from the opening of the first round to each commit, pauses too, by the rounds done. */
function times({ rounds }) {
  const began = Date.parse(rounds[0]?.opened_at ?? "");
  const at = new Map([[0, 0]]);
  for (const round of rounds) {
    at.set(round.round_index + 1, (Date.parse(round.closed_at ?? "") - began) / 1000);
  }
  return at;
}

const sent = ({ rounds }) => new Map([[0, 0], ...rounds.map((r) => [r.round_index + 1, r.sent])]);

/**
 * Each has `words` for the choice, `unit` for a file's head, `tick`, `when` in a sentence, `steps`
 * between ticks, and `places(history)`: the x of each model, by the rounds that are done; null: its
 * own number.
 */
export const AXES = {
  round: {
    words: "Rounds", unit: "round", steps: [1, 2, 5, ...decades(1, 6)],
    tick: (x) => (x === 0 ? "start" : String(x)),
    when: (x) => (x === 0 ? "at the start" : `after round ${x}`),
    places: () => null,
  },
  time: {
    words: "Time", unit: "seconds", steps: [...TIMES, ...decades(0, 3).map((x) => 86400 * x)],
    tick: (x) => (x === 0 ? "0" : formatDuration(x).replace(/ (00 s|0 h|0 min)$/, "")),
    when: (x) => (x === 0 ? "at the start" : `after ${formatDuration(x)}`),
    places: times,
  },
  bytes: {
    words: "Bytes sent", unit: "bytes", steps: decades(0, 15),
    tick: (x) => formatBytes(x).replace(".0 ", " "),
    when: (x) => (x === 0 ? "at the start" : `after ${formatBytes(x)} of updates`),
    places: sent,
  },
};

/** Points [round, y] as [x, y, round] on an axis; those whose place is not known are left out. */
export function placed(points, places) {
  return points.map(([round, y]) => [places ? places.get(round) : round, y, round])
    .filter(([x]) => Number.isFinite(x));
}
