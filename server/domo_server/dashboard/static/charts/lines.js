// The lines of each chart, from what is known of runs.

import { placed } from "./axis.js";

const isNumber = (y) => typeof y === "number" && Number.isFinite(y);
const mean = (values) => {
  const known = values.filter(isNumber);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
};
const committed = (rounds) => rounds.filter((round) => round.state === "COMMITTED");

/** Points and gaps on an axis, from [round, y] where y may be unknown and rounds that were missed. */
function onAxis(points, missed, places) {
  return { points: placed(points.filter(([, y]) => isNumber(y)), places),
    gaps: placed(missed.map((round) => [round, null]), places).map(([x]) => x) };
}

/** [round, y] of a chart that a run has one line of. */
function pointsOfRun(spec, { detail, rounds }) {
  if (spec.of === "test") {
    return (detail?.metrics ?? []).map((m) => [m.model_index, m.metrics[spec.metric]]);
  }
  const of = spec.run ?? ((round) => mean(round.participants.map(spec.part)));
  return committed(rounds).map((round) => [round.round_index + 1, of(round)]);
}

/** [round, y] of each silo, and the rounds that it was left out of. */
function pointsOfSilos(spec, roster, { rounds }) {
  const found = new Map(roster.map((id) => [id, { points: [], missed: [] }]));
  for (const round of committed(rounds)) {
    for (const part of round.participants) {
      found.get(part.silo_id)?.points.push([round.round_index + 1, spec.part(part)]);
    }
    for (const id of Object.keys(round.left_out)) {
      found.get(id)?.missed.push(round.round_index + 1);
    }
  }
  return found;
}

/** [index, y] of each silo's own tests, and the models that others tested and it did not. */
function testsOfSilos(spec, roster, tests) {
  const found = new Map(roster.map((id) => [id, { points: [], missed: [] }]));
  for (const test of tests) {
    const told = new Map(test.silos.map((silo) => [silo.silo_id, silo.metrics[spec.metric]]));
    for (const [id, { points, missed }] of found) {
      if (told.has(id)) points.push([test.model_index, told.get(id)]);
      else missed.push(test.model_index);
    }
  }
  return found;
}

function siloLines(found, places) {
  return [...found].map(([id, { points, missed }], i) =>
    ({ id, name: id, slot: i + 2, ...onAxis(points, missed, places) }));
}

/** The point of the best model, on a chart of tests; null: none is known. */
function bestOf(spec, run, points) {
  if (spec.of !== "test" || run.best_index == null) return null;
  const point = points.find(([, , round]) => round === run.best_index);
  return point ? { x: point[0], y: point[1], round: run.best_index } : null;
}

/** Which way a test is better: as the coordinator says who is worst; null: nobody knows. */
function betterOf({ metric, better }, tests) {
  if (better) return better;
  const { spread, silos } = tests.findLast((test) => {
    const apart = test.spread[metric];
    return apart?.worst != null && apart.lowest < apart.highest;
  }) ?? {};
  if (!spread) return null;
  const { lowest, highest, worst } = spread[metric];
  const y = silos.find((silo) => silo.silo_id === worst)?.metrics[metric];
  return y - lowest < highest - y ? "higher" : "lower";
}

/**
 * What one run's chart has: {lines, crowd, silos, better}.
 *
 * `silos` are the silos' lines behind that of all of them, of which the chart shows the spread;
 * `better` is higher, lower or null, where nobody knows.
 */
export function linesOfRun(spec, { run, history, roster, places, each, crowdFrom }) {
  const all = { id: "run", name: spec.name ?? "all silos", slot: 1,
    ...onAxis(pointsOfRun(spec, history), [], places) };
  if (spec.of === "run") return { lines: [all] };
  if (spec.of === "silo") {
    const lines = siloLines(pointsOfSilos(spec, roster, history), places);
    return { lines, crowd: roster.length > crowdFrom };
  }
  all.best = bestOf(spec, run, all.points);
  const testers = roster.filter((id) =>
    history.tests.some((test) => test.silos.some((silo) => silo.silo_id === id)));
  const silos = siloLines(testsOfSilos(spec, testers, history.tests), places)
    .filter((line) => line.points.length);
  if (!each || !silos.length) {
    const better = betterOf(spec, history.tests);
    return { lines: [all], silos: silos.length > 1 ? silos : null, better };
  }
  if (silos.length > crowdFrom) return { lines: silos, crowd: true };
  return { lines: [all, ...silos] };
}

/** One line for each run; entries are {run, name, history}. */
export function linesOfRuns(spec, entries, axis) {
  return { lines: entries.map(({ run, name, history }, i) => {
    const line = { id: run.run_id, name, slot: i + 1,
      ...onAxis(pointsOfRun(spec, history), [], axis.places(history)) };
    return { ...line, best: bestOf(spec, run, line.points) };
  }) };
}
