// The charts of a run, and of several runs over one another.

import { CROWD } from "./crowd.js";
import { h, keyed, setText } from "./dom.js";
import { Plot } from "./plot.js";
import { formatLoss, formatNumber, formatPercent, formatSeconds } from "./format.js";
import { lastRound } from "./scale.js";

const decimals = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
const percent = (y, step) => `${(100 * y).toFixed(decimals(100 * step))} %`;
const plain = (y, step) => (Math.abs(y) >= 1e5 ? y.toExponential(0) : y.toFixed(decimals(step)));
const seconds = (y, step) =>
  (step < 60 ? `${y.toFixed(decimals(step))} s` : `${(y / 60).toFixed(step < 600 ? 1 : 0)} min`);

const SPECS = [
  { key: "accuracy", title: "Test accuracy", unit: "of x_r", format: formatPercent, tick: percent,
    ceiling: 1,
    about: "How many of all silos' test samples the server model gets right after each round. " +
      "Higher is better; a flat line means that it learns no more." },
  { key: "loss", title: "Test loss", unit: "of x_r", format: formatLoss, tick: plain,
    about: "How wrong the server model is on all silos' test samples. Lower is better; if it rises " +
      "while training loss falls, the model learns by heart." },
  { key: "train", title: "Training loss", unit: "mean of a round", format: formatLoss, tick: plain,
    about: "Mean loss of each silo over its local steps of the round. A silo far above the others " +
      "has harder or broken data." },
  { key: "norm", title: "Update norm", unit: "length of d_k", format: formatNumber, tick: plain,
    fromZero: true,
    about: "How far a silo wants to move the model. A silo far above the others pulls hardest; " +
      "growing norms are the first sign of divergence." },
  { key: "drift", title: "Drift", unit: "spread of the updates", format: formatNumber, tick: plain,
    fromZero: true,
    about: "How far the silos' updates lie around their mean, compared with the mean's own length. " +
      "0: all want the same; above 1: they differ more than they have in common." },
  { key: "cosine", title: "Cosine to the momentum", unit: "of d_k and m_r", format: formatNumber,
    tick: plain, ceiling: 1,
    about: "Whether a silo wants to go where the server momentum goes already: 1 the same way, 0 " +
      "across it, below 0 against it. The first round has no momentum yet." },
  { key: "seconds", title: "Seconds per round", unit: "s", format: formatSeconds, tick: seconds,
    fromZero: true,
    about: "From the opening of a round to its commit: download, training of the slowest silo, " +
      "upload and summing." },
];

const finite = (points) => points.filter(([, y]) => typeof y === "number" && Number.isFinite(y));
const mean = (values) => {
  const known = values.filter((x) => typeof x === "number" && Number.isFinite(x));
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
};
const committed = (rounds) => rounds.filter((round) => round.state === "COMMITTED");

/** Points of the chart `key` that a run has one line of. */
function pointsOf(key, { detail, rounds }) {
  const tests = detail?.metrics ?? [];
  const by = (value) => committed(rounds).map((r) => [r.round_index + 1, value(r)]);
  return finite({
    accuracy: () => tests.map((m) => [m.model_index, m.metrics.accuracy]),
    loss: () => tests.map((m) => [m.model_index, m.metrics.loss]),
    train: () => by((r) => r.train_loss),
    norm: () => by((r) => mean(r.participants.map((p) => p.update_norm))),
    drift: () => by((r) => r.drift),
    cosine: () => by((r) => mean(r.participants.map((p) => p.cosine))),
    seconds: () => by((r) => r.duration_s),
  }[key]());
}

/** Points of each silo. */
function siloPoints(name, rounds) {
  const found = new Map();
  for (const round of committed(rounds)) {
    for (const part of round.participants) {
      if (!found.has(part.silo_id)) found.set(part.silo_id, []);
      found.get(part.silo_id).push([round.round_index + 1, part[name]]);
    }
  }
  return found;
}

let boards = 0;

const NUM_PICKS = 7;

/**
 * All charts of one place on the page; what is hidden, picked or pointed at is so in each of them.
 *
 * `onFocus(id)` is told which line is pointed at; null: none.
 */
export class Board {
  constructor(host, onFocus = () => {}) {
    this.hidden = new Set();
    this.picked = new Map(); // id of a line -> its colour, 2 to 8
    this.lit = null;
    this.onFocus = onFocus;
    this.sync = `board-${(boards += 1)}`;
    this.plots = SPECS.map((spec) => new Plot(spec, this));
    this.many = h("p", { class: "many-silos muted small", hidden: true });
    this.choice = h("select", { "aria-label": "Highlight a silo" });
    this.choice.addEventListener("change", () => {
      if (this.choice.value) this.pick(this.choice.value);
      this.choice.value = "";
    });
    this.words = h("span", {});
    this.many.append(this.words, this.choice);
    host.append(this.many, ...this.plots.map((plot) => plot.node));
  }

  toggle(id) {
    if (!this.hidden.delete(id)) this.hidden.add(id);
    this.again?.();
  }

  /** Give a line of a crowd a colour, or take it away; the oldest goes where there are too many. */
  pick(id) {
    if (!this.picked.delete(id)) {
      if (this.picked.size >= NUM_PICKS) this.picked.delete(this.picked.keys().next().value);
      const taken = new Set(this.picked.values());
      this.picked.set(id, [2, 3, 4, 5, 6, 7, 8].find((slot) => !taken.has(slot)));
    }
    this.again?.();
  }

  /** Let the line of an id stand out in all charts that have it. */
  focus(id) {
    if (id === this.lit) return;
    this.lit = id;
    for (const plot of this.plots) plot.light(id);
    this.onFocus(id);
  }

  showChoice(roster) {
    this.many.hidden = roster.length <= CROWD;
    if (this.many.hidden) return;
    setText(this.words, `Of ${roster.length} silos: the thick line is the median, the band holds the ` +
      "middle half, grey lines are single silos.");
    const items = [{ id: "", words: "Highlight a silo" }, ...roster.map((id) =>
      ({ id, words: this.picked.has(id) ? `\u2713 ${id}` : id }))];
    keyed(this.choice, items, (x) => x.id, (x) => h("option", { value: x.id }), (option, x) =>
      setText(option, x.words));
  }

  moveTo(x) {
    for (const plot of this.plots) plot.moveTo(x);
  }

  recolour() {
    for (const plot of this.plots) if (plot.plot) plot.recolour();
  }

  /** One run: a line for each silo where silos differ. */
  showRun(run, history, roster) {
    this.again = () => this.showRun(run, history, roster);
    const isCrowd = roster.length > CROWD;
    this.showChoice(roster);
    const all = (key) => [{ id: "run", name: key === "seconds" ? "round" : "all silos", slot: 1,
      points: pointsOf(key, history) }];
    const slots = new Map(roster.map((id, i) => [id, i + 2]));
    const silos = (name) => {
      const points = siloPoints(name, history.rounds);
      return roster.map((id) => ({ id, name: id, slot: slots.get(id),
        points: finite(points.get(id) ?? []) }));
    };
    for (const plot of this.plots) {
      const { key } = plot.spec;
      const lines = { train: () => silos("train_loss"), norm: () => silos("update_norm"),
        cosine: () => silos("cosine") }[key];
      plot.update(lines ? lines() : all(key), lastRound(run.rounds_done, run.num_rounds),
        run.rounds_done, Boolean(lines) && isCrowd);
    }
  }

  /** Runs over one another: one line each. Entries are {run, name, history}. */
  showRuns(entries) {
    this.again = () => this.showRuns(entries);
    const most = Math.max(...entries.map(({ run }) => run.rounds_done));
    const xMax = Math.max(...entries.map(({ run }) => lastRound(run.rounds_done, run.num_rounds)));
    for (const plot of this.plots) {
      const lines = entries.map(({ run, name, history }, i) => ({ id: run.run_id, name, slot: i + 1,
        points: pointsOf(plot.spec.key, history) }));
      plot.update(lines, xMax, most);
    }
  }
}
