// The charts of a run, and of several runs over one another.

import { h, keyed, setAttr, setText } from "../dom.js";
import { setQuery } from "../router.js";
import { AXES } from "./axis.js";
import { CROWD } from "./crowd.js";
import { linesOfRun, linesOfRuns } from "./lines.js";
import { Plot } from "./plot.js";
import { niceRange, niceStep } from "./scale.js";
import { specsOf, usualCharts } from "./specs.js";
import { Toolbar } from "./toolbar.js";
import { readView, toggled, writeView } from "./view.js";

const NUM_PICKS = 7;
const PICK_COLOURS = [2, 3, 4, 5, 6, 7, 8];
const ENDED = ["FINISHED", "FAILED", "STOPPED"];

let boards = 0;

/** The last round on an axis: that of the plan, and of a run that has ended earlier its own. */
const lastRound = (run) => Math.max(1, ENDED.includes(run.state) ? run.rounds_done : run.num_rounds);

/** From 0 to beyond what is known, in whole steps, so that an axis that grows rarely moves. */
const roomFor = (entries, axis) => {
  const known = entries.flatMap(({ history }) => [...axis.places(history).values()]);
  return niceRange([0, ...known.filter(Number.isFinite)], 4).high;
};

/**
 * All charts of one place on the page; what is hidden, picked or pointed at is so in each of them.
 *
 * `onFocus(id)` is told which line is pointed at; null: none.
 */
export class Board {
  constructor(host, onFocus = () => {}) {
    this.query = new URLSearchParams();
    this.view = readView(this.query);
    this.picked = new Map(); // id of a line -> its colour, 2 to 8
    this.lit = null;
    this.onFocus = onFocus;
    this.sync = `board-${(boards += 1)}`;
    this.known = new Map(); // key of a chart -> its plot
    this.plots = [];
    this.toolbar = new Toolbar(this);
    this.words = h("span", {});
    this.choice = h("select", { "aria-label": "Highlight a silo" });
    this.choice.addEventListener("change", () => {
      if (this.choice.value) this.pick(this.choice.value);
      this.choice.value = "";
    });
    this.many = h("p", { class: "many-silos muted small", hidden: true }, this.words, this.choice);
    this.tests = h("div", { class: "charts" });
    this.training = h("div", { class: "charts" });
    host.append(this.toolbar.node, this.many, this.tests, this.training);
  }

  /** Look at the charts otherwise: now, and in the address. `isSmall`: Back does not come back to it. */
  change(view, isSmall = false) {
    this.view = { ...this.view, ...view };
    this.query = new URLSearchParams(writeView(this.query, this.view));
    this.readPicks();
    this.again?.();
    setQuery(writeView(this.query, this.view), isSmall);
  }

  look(query) {
    if (query.toString() === this.query.toString()) return;
    this.query = new URLSearchParams(query);
    this.view = readView(query);
    this.readPicks();
  }

  toggle(id) {
    this.change({ hide: toggled(this.view.hide, id) }, true);
  }

  /** Give a line of a crowd a colour, or take it away; the oldest goes where there are too many. */
  pick(id) {
    this.change({ pick: toggled(this.view.pick, id).slice(-NUM_PICKS) }, true);
  }

  /** Colours of what is picked: one that has a colour keeps it. */
  readPicks() {
    const before = this.picked;
    const pick = this.view.pick.slice(-NUM_PICKS);
    const kept = pick.map((id) => before.get(id)).filter(Boolean);
    const free = PICK_COLOURS.filter((slot) => !kept.includes(slot));
    this.picked = new Map(pick.map((id) => [id, before.get(id) ?? free.shift()]));
  }

  /** Show these charts; null where they are the usual ones. */
  choose(keys) {
    const usual = usualCharts(this.specs);
    const isUsual = keys.length === usual.length && keys.every((key) => usual.includes(key));
    this.change({ charts: isUsual ? null : keys });
  }

  /** Show a part of the x axis in all charts. */
  zoomTo(from, to) {
    const [first, last] = this.full;
    const unit = this.view.x === "round" ? 1 : niceStep((last - first) / 1000, 1);
    let zoom = [from, to].map((x) => Math.round(Math.min(last, Math.max(first, x)) / unit) * unit);
    if (zoom[1] - zoom[0] < unit) zoom = [zoom[0], zoom[0] + unit];
    if (zoom[0] >= last) return;
    const isAll = zoom[0] <= first && zoom[1] >= last;
    this.change({ zoom: isAll ? null : zoom });
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

  /** The charts there are, drawn by `lines(spec)`, over entries {run, history}. */
  show(entries, hasSilos, linesFor) {
    const axis = AXES[this.view.x];
    const most = Math.max(...entries.map(({ run }) => run.rounds_done));
    this.full = [0, this.view.x === "round" ? Math.max(...entries.map(({ run }) => lastRound(run)))
      : roomFor(entries, axis)];
    this.specs = specsOf(entries);
    const all = [...this.specs.tests, ...this.specs.training];
    const pick = (wanted) => all.filter(({ key }) => wanted?.includes(key));
    const chosen = pick(this.view.charts); // of another run's names none may be here
    const shown = chosen.length ? chosen : pick(usualCharts(this.specs));
    const rounds = entries.flatMap(({ history }) => history.rounds);
    this.toolbar.update(all, shown.map(({ key }) => key), { hasSilos,
      hasTimes: rounds.some((round) => round.opened_at), hasBytes: rounds.some((round) => round.sent) });
    this.place(this.tests, shown.filter(({ of }) => of === "test"));
    this.place(this.training, shown.filter(({ of }) => of !== "test"));
    this.plots = shown.map(({ key }) => this.known.get(key));
    shown.forEach((spec) => this.known.get(spec.key).update(linesFor(spec, axis),
      { window: this.view.zoom ?? this.full, numRounds: most }));
  }

  /** Charts in a row of three; what is left over stands first, and wider. */
  place(host, specs) {
    for (const spec of specs) {
      if (!this.known.has(spec.key)) this.known.set(spec.key, new Plot(spec, this));
      this.known.get(spec.key).spec = spec;
    }
    setAttr(host, "data-over", specs.length % 3);
    keyed(host, specs, ({ key }) => key, ({ key }) => this.known.get(key).node, () => {});
  }

  /** One run: a line for each silo where silos differ. */
  showRun(run, history, roster, query) {
    this.again = () => this.showRun(run, history, roster, this.query);
    this.look(query);
    this.showChoice(roster);
    const hasSilos = history.tests.some((test) => test.silos.length > 1);
    this.show([{ run, history }], hasSilos, (spec, axis) => linesOfRun(spec, { run, history, roster,
      places: axis.places(history), each: this.view.each, crowdFrom: CROWD }));
  }

  /** Runs over one another: one line each. Entries are {run, name, history}. */
  showRuns(entries, query) {
    this.again = () => this.showRuns(entries, this.query);
    this.look(query);
    this.show(entries, false, (spec, axis) => linesOfRuns(spec, entries, axis));
  }
}
