// What is known of each run: detail and rounds, asked for once per change and not again. Of a long
// run all newer rounds are kept and of the older ones every second, fourth, ...: more than a screen
// has room for, and no more memory however long a page stays open.

import { changed, getJson } from "./dom.js";

const AGAIN_MS = 2000;
const NUM_NEWEST = 200;
const NUM_OLDER = 400; // at most
const MAX_PIECE = 250; // rounds of one answer: a long run comes in several
const cache = new Map();

/**
 * {detail, rounds, tests} of a run as far as they are here, each round with all bytes `sent` up to
 * it; what is missing comes later, and then `onChange` is called. `live` is the run of the stream,
 * which needs no asking. The silos' own `tests` are many, and asked for where they are shown.
 */
export function historyOf(row, live, onChange, hasTests = true) {
  const entry = cache.get(row.run_id)
    ?? { detail: null, rounds: [], tests: [], stamp: null, testedStamp: null, busy: false };
  cache.set(row.run_id, entry);
  const isLive = live?.run_id === row.run_id;
  if (isLive) entry.detail = live;
  const stamp = `${row.state} ${row.rounds_done} ${isLive ? "" : row.primary_value ?? row.accuracy}`;
  const isOld = entry.stamp !== stamp || (hasTests && entry.testedStamp !== stamp);
  if (isOld && !entry.busy) load(entry, row.run_id, { stamp, isLive, hasTests, onChange });
  return entry;
}

/** Whether curves or tables of a run, drawn by `owner`, have to be drawn again. */
export function showsChange(owner, run, { detail, rounds, tests }, query) {
  return changed(owner, run.run_id, run.state, run.rounds_done, run.num_rounds, run.best_index,
    detail?.metrics, rounds, tests, detail?.roster.join(), query.toString());
}

async function load(entry, runId, { stamp, isLive, hasTests, onChange }) {
  entry.busy = true;
  const url = `api/v1/runs/${encodeURIComponent(runId)}`;
  try {
    const [detail] = await Promise.all([
      isLive ? null : getJson(url),
      loadRounds(entry, url),
      hasTests ? loadTests(entry, url) : null,
    ]);
    if (detail) entry.detail = detail;
    if (hasTests) entry.testedStamp = stamp;
    entry.stamp = stamp;
    entry.busy = false;
    onChange();
  } catch {
    setTimeout(() => (entry.busy = false), AGAIN_MS); // the next drawing tries again
  }
}

async function loadRounds(entry, url) {
  let isWhole = false;
  while (!isWhole) {
    const known = entry.rounds.filter((round) => round.state === "COMMITTED");
    const after = known.at(-1)?.round_index ?? -1;
    const rounds = await getJson(`${url}/rounds?after=${after}&limit=${MAX_PIECE}`);
    entry.rounds = thinned([...known, ...withSent(rounds, known.at(-1)?.sent ?? 0)]);
    isWhole = rounds.length < MAX_PIECE;
  }
}

async function loadTests(entry, url) {
  let known = entry.tests.slice(0, -1); // of the newest model more silos may have told since
  let isWhole = false;
  while (!isWhole) {
    const after = known.at(-1)?.model_index ?? -1;
    const tests = await getJson(`${url}/tests?after=${after}&limit=${MAX_PIECE}`);
    entry.tests = known = thinned([...known, ...tests], (test) => test.model_index);
    isWhole = tests.length < MAX_PIECE;
  }
}

/** Rounds, each with the bytes of all updates up to it; `before` are those of earlier ones. */
function withSent(rounds, before) {
  let sent = before;
  return rounds.map((round) => {
    for (const part of round.participants) sent += part.update_bytes ?? 0;
    return { ...round, sent };
  });
}

/** The rounds that are kept of all that are here; the same ones, however they came. */
export function thinned(rounds, index = (round) => round.round_index) {
  const newest = rounds.length ? index(rounds.at(-1)) : 0;
  const older = Math.max(0, newest + 1 - NUM_NEWEST);
  let step = 1;
  while (older / step > NUM_OLDER) step *= 2;
  return rounds.filter((round) => index(round) >= older || index(round) % step === 0);
}
