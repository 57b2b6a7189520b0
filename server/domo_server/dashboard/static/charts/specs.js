// Which charts there are: the tests by any name, what a loop logs, and what the coordinator measures.

import { formatLoss, formatNumber, formatPercent, formatSeconds } from "../format.js";

/** So many tests are shown before anybody chooses. */
const SHOWN_TESTS = 8;

const decimals = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
const percent = (y, step) => `${(100 * y).toFixed(decimals(100 * step))} %`;
const plain = (y, step) => (Math.abs(y) >= 1e5 || (y !== 0 && Math.abs(y) < 1e-4)
  ? y.toExponential(0) : y.toFixed(decimals(step)));
const seconds = (y, step) =>
  (step < 60 ? `${y.toFixed(decimals(step))} s` : `${(y / 60).toFixed(step < 600 ? 1 : 0)} min`);

const KNOWN_TESTS = {
  accuracy: { title: "Test accuracy", unit: "of x_r", format: formatPercent, tick: percent, better: "higher",
    about: "How many of all silos' test samples the server model gets right after each round. " +
      "Higher is better; a flat line means that it learns no more." },
  loss: { title: "Test loss", unit: "of x_r", format: formatLoss, tick: plain, better: "lower",
    about: "How wrong the server model is on all silos' test samples. Lower is better; if it rises " +
      "while training loss falls, the model learns by heart." },
};

const MEASURED = [
  { key: "train", title: "Training loss", unit: "mean of a round", format: formatLoss, tick: plain,
    of: "silo", run: (r) => r.train_loss, part: (p) => p.train_loss,
    about: "Mean loss of each silo over its local steps of the round. A silo far above the others " +
      "has harder or broken data." },
  { key: "norm", title: "Update norm", unit: "length of d_k", format: formatNumber, tick: plain,
    of: "silo", part: (p) => p.update_norm, fromZero: true,
    about: "How far a silo wants to move the model. A silo far above the others pulls hardest; " +
      "growing norms are the first sign of divergence." },
  { key: "drift", title: "Drift", unit: "spread of the updates", format: formatNumber, tick: plain,
    of: "run", run: (r) => r.drift, fromZero: true,
    about: "How far the silos' updates lie around their mean, compared with the mean's own length. " +
      "0: all want the same; above 1: they differ more than they have in common." },
  { key: "cosine", title: "Cosine to the momentum", unit: "of d_k and m_r", format: formatNumber,
    tick: plain, ceiling: 1, of: "silo", part: (p) => p.cosine,
    about: "Whether a silo wants to go where the server momentum goes already: 1 the same way, 0 " +
      "across it, below 0 against it. The first round has no momentum yet." },
  { key: "seconds", title: "Seconds per round", unit: "s", format: formatSeconds, tick: seconds,
    of: "run", name: "round", run: (r) => r.duration_s, fromZero: true,
    about: "From the opening of a round to its commit: download, training of the slowest silo, " +
      "upload and summing." },
];

function testSpec(metric, run) {
  const primary = run?.primary_metric === metric;
  return {
    key: metric in KNOWN_TESTS ? metric : `test:${metric}`,
    metric, of: "test", title: metric, unit: primary ? "the run is judged by it" : "test, of x_r",
    format: formatNumber, tick: plain, ceiling: metric === "loss" ? undefined : 1, primary,
    better: primary ? run.primary_better : null,
    about: `${metric} of the server model after each round, over all silos' test samples: what the ` +
      "task's evaluate returns, or is worked out from it.",
    ...KNOWN_TESTS[metric],
  };
}

/** A value of a test by its name, as its chart shows it. */
export const formatTest = (metric, y) => (KNOWN_TESTS[metric]?.format ?? formatNumber)(y);

/** What stands for how good a run's model is: what it is judged by, in place of a loss its accuracy. */
export function mainTest(run) {
  const metric = [null, undefined, "loss"].includes(run.primary_metric) ? "accuracy" : run.primary_metric;
  return { metric, title: KNOWN_TESTS[metric]?.title ?? `Test ${metric}` };
}

const logSpec = (metric) => ({
  key: `log:${metric}`, title: metric, unit: "logged, mean of a round", format: formatNumber,
  tick: plain, of: "silo", run: (r) => r.train_metrics?.[metric], part: (p) => p.metrics?.[metric],
  about: `${metric} as each silo's training loop logs it, and its weighted mean over the silos.`,
});

/** Accuracy and loss first, then what the runs are judged by, then by name, single classes last. */
function order(names, primaries) {
  const rank = (name) => {
    if (name === "accuracy") return 0;
    if (name === "loss") return 1;
    return primaries.has(name) ? 2 : name.includes("/") ? 4 : 3;
  };
  return [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

/** The charts of runs, {run, history} each: {tests, training}, specs each. */
export function specsOf(entries) {
  const names = new Set(["accuracy", "loss"]);
  const logged = new Set();
  for (const { history: { detail, rounds } } of entries) {
    const metrics = detail?.metrics ?? [];
    if (metrics.length) for (const name of ["accuracy", "loss"]) names.delete(name);
    for (const point of metrics) Object.keys(point.metrics).forEach((name) => names.add(name));
    for (const { train_metrics: means, participants } of rounds) {
      for (const from of [means, ...(participants ?? []).map((p) => p.metrics)]) // some log what others do not
        for (const name in from ?? {}) logged.add(name);
    }
  }
  logged.delete("loss");
  const primary = (name) => entries.find(({ run }) => run.primary_metric === name)?.run;
  const primaries = new Set(entries.map(({ run }) => run.primary_metric));
  return {
    tests: order(names, primaries).map((name) => testSpec(name, primary(name))),
    training: [...MEASURED, ...[...logged].sort().map(logSpec)],
  };
}

/** The keys of the charts that are shown before anybody chooses. */
export const usualCharts = ({ tests, training }) =>
  [...tests.slice(0, SHOWN_TESTS), ...training.slice(0, MEASURED.length + SHOWN_TESTS)]
    .map(({ key }) => key);
