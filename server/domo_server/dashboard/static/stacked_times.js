// The rounds of a run as stacked bars: how long each phase took, for a silo, the mean or the slowest.

import { h, keyed, setAttr, setText } from "./dom.js";
import { NONE, formatSeconds } from "./format.js";
import { niceRange, ticks } from "./charts/scale.js";
import { PARTS, WORDS, bySpeed, partsOf, partsWords } from "./times.js";
import uPlot from "./vendor/uPlot.esm.js";

const MIN_BAR_PX = 2.5;
const AXIS_PX = 80;
const STEPS = [1, 2, 5].flatMap((x) => [1, 10, 100, 1e3, 1e4, 1e5].map((y) => x * y));
STEPS.sort((a, b) => a - b);
export const MEAN = "";
export const SLOWEST = "*"; // no silo has such a name

/** The mean of several {part: seconds}. */
function meanOf(all) {
  return Object.fromEntries(PARTS.map((name) =>
    [name, all.reduce((sum, parts) => sum + parts[name], 0) / all.length]));
}

/** [{round, parts}] of a choice: a silo's name, `MEAN` over those that train, or `SLOWEST`. */
export function chosenParts(rounds, choice) {
  return rounds.flatMap((record) => {
    const { silos, span_s: span } = record.times;
    const round = record.round_index + 1;
    if (choice === SLOWEST) {
      const slowest = bySpeed(record)[0];
      return slowest ? [{ round, parts: partsOf(slowest.times, span), silo: slowest.id }] : [];
    }
    if (choice !== MEAN) return silos[choice] ? [{ round, parts: partsOf(silos[choice], span) }] : [];
    const trained = [...record.participants.map((p) => p.silo_id), ...Object.keys(record.left_out)];
    const all = trained.filter((id) => silos[id]).map((id) => partsOf(silos[id], span));
    return all.length ? [{ round, parts: meanOf(all) }] : [];
  });
}

/** As many bars as there is room for: each of one round, or the mean of some that follow one another. */
export function bars(found, most) {
  const [first, last] = [found[0].round, found.at(-1).round];
  const each = Math.max(1, Math.ceil((last - first + 1) / Math.max(1, most)));
  const groups = Map.groupBy(found, ({ round }) => Math.floor((round - first) / each));
  return { each, bars: [...groups].map(([i, group]) => ({ from: group[0].round, to: group.at(-1).round,
    x: first + i * each + (each - 1) / 2, silo: group.length === 1 ? group[0].silo : undefined,
    parts: meanOf(group.map(({ parts }) => parts)) })) };
}

export class StackedTimes {
  /** `onPick(round_index)` is told which round is asked for; null: none can be. */
  constructor(onPick = null) {
    this.onPick = onPick;
    this.at = h("p", { class: "muted small breaks" });
    this.said = h("p", { class: "only-read", "aria-live": "polite" });
    this.frame = h("div", { class: "frame", tabindex: 0, role: "img" });
    this.legend = h("ul", { class: "time-legend", "aria-label": "Phases" });
    this.node = h("figure", { class: "stacked" }, this.at, this.frame, this.legend, this.said);
    keyed(this.legend, PARTS.toReversed(), (x) => x, (name) => h("li", {},
      h("i", { class: `swatch-box part-${name}` }), WORDS[name], h("b", {})), () => {});
    new ResizeObserver(() => this.resize()).observe(this.frame);
    this.frame.addEventListener("keydown", (event) => this.key(event));
    this.frame.addEventListener("blur", () => this.moveTo(null));
    this.frame.addEventListener("click", () => this.pick());
  }

  update(rounds, choice, name) {
    this.name = name;
    this.found = chosenParts(rounds, choice);
    this.make();
  }

  /** A silo's own rounds, as its page has them. */
  updateSilo(id, rounds) {
    const known = rounds.filter((x) => x.times);
    this.node.hidden = known.length === 0;
    const record = (x) => ({ round_index: x.round_index,
      times: { span_s: x.span_s, silos: { [id]: x.times } } });
    this.update(known.map(record), id, id);
  }

  /** The bars that there is room for. */
  make() {
    if (!this.found?.length) {
      this.plot?.destroy();
      this.plot = this.shown = null;
      setText(this.at, "No round of it has times.");
      setAttr(this.frame, "aria-label", "No times yet");
      return;
    }
    if (!this.frame.clientWidth) return; // not on screen; `resize` comes back here
    const made = bars(this.found, (this.frame.clientWidth - AXIS_PX) / MIN_BAR_PX);
    this.shown = made.bars;
    this.each = made.each;
    const sums = [];
    this.shown.forEach(({ parts }) => {
      let sum = 0;
      sums.push(PARTS.map((part) => (sum += parts[part])));
    });
    this.range = niceRange(sums.map((x) => x.at(-1)), 4, Infinity, true);
    // the highest sums are drawn first, and the lower ones over them
    this.data = [this.shown.map(({ x }) => x),
      ...PARTS.map((_, i) => sums.map((x) => x[PARTS.length - 1 - i]))];
    this.edges = [this.shown[0].x - 0.7 * this.each, this.shown.at(-1).x + 0.7 * this.each];
    if (this.plot) this.plot.setData(this.data);
    else this.plot = new uPlot(this.options(), this.data, this.frame);
    this.show();
    const all = meanOf(this.found.map(({ parts }) => parts));
    setAttr(this.frame, "aria-label", `Where the time of ${this.found.length} rounds went, ${this.name}. `
      + `On average: ${partsWords(all)}. Arrow keys read it by round${this.onPick ? "; Enter shows the round below" : ""}.`);
  }

  options() {
    const muted = () => this.colours.muted;
    const em = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const font = `${Math.round(0.8 * em)}px system-ui, sans-serif`;
    const path = uPlot.paths.bars({ size: [0.86, 60] });
    const series = PARTS.toReversed().map((part) => ({ fill: () => this.colours[part], width: 0,
      stroke: () => this.colours[part], paths: path, points: { show: false } }));
    this.recolour();
    return {
      width: this.frame.clientWidth,
      height: this.frame.clientHeight,
      padding: [10, 14, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: { show: false } },
      scales: { x: { time: false, range: () => this.edges },
        y: { range: () => [0, this.range.high] } },
      axes: [
        { stroke: muted, font, grid: { show: false }, ticks: { show: false }, incrs: STEPS, size: 2 * em,
          space: 3.2 * em, values: (_, xs) => xs.map((x) => (Number.isInteger(x) ? String(x) : "")) },
        { stroke: muted, font, grid: { stroke: () => this.colours.line, width: 1 }, ticks: { show: false },
          size: 4.1 * em, gap: 6, splits: () => ticks(0, this.range.high, this.range.step),
          values: (_, ys) => ys.map((y) => (y === 0 ? "0 s" : formatSeconds(y))) },
      ],
      series: [{}, ...series],
      hooks: { setCursor: [() => this.show()] },
    };
  }

  /** The colours of the style sheet, as they are now. */
  recolour() {
    const of = (name) => {
      const probe = h("i", { class: name, hidden: true });
      document.body.append(probe);
      const { color } = getComputedStyle(probe);
      probe.remove();
      return color;
    };
    this.colours = { muted: of("muted"), line: of("grid-line") };
    for (const part of PARTS) this.colours[part] = of(`part-${part}`);
    this.plot?.redraw(false);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.frame;
    if (!width || !height) return;
    if (this.plot && (this.plot.width !== width || this.plot.height !== height)) {
      this.plot.setSize({ width, height });
      this.make();
    } else if (!this.plot) {
      this.make();
    }
  }

  /** The bar under the pointer, or all of them together. */
  show() {
    const bar = this.shown?.[this.plot?.cursor.idx ?? -1];
    const parts = bar?.parts ?? (this.found?.length ? meanOf(this.found.map((x) => x.parts)) : null);
    const total = parts && PARTS.reduce((sum, part) => sum + parts[part], 0);
    const which = !bar ? `mean of ${this.found?.length ?? 0} rounds`
      : bar.from === bar.to ? `round ${bar.from}` : `mean of rounds ${bar.from} to ${bar.to}`;
    const whose = bar?.silo ?? this.name;
    const each = this.each > 1 && !bar ? `; each bar is the mean of ${this.each} rounds` : "";
    setText(this.at, `${whose}, ${which}: ${formatSeconds(total)}${each}`);
    [...this.legend.children].forEach((item, i) => {
      const seconds = parts?.[PARTS[PARTS.length - 1 - i]];
      setText(item.lastChild, seconds > 0 ? formatSeconds(seconds) : NONE);
    });
    return bar;
  }

  pick() {
    const bar = this.shown?.[this.plot?.cursor.idx ?? -1];
    if (bar) this.onPick?.(bar.to - 1);
  }

  key(event) {
    if (event.key === "Escape") this.moveTo(null);
    if (event.key === "Enter") this.pick();
    if (!this.plot || !this.shown) return;
    const last = this.shown.length - 1;
    const now = this.plot.cursor.idx ?? last + 1;
    const next = { ArrowLeft: Math.max(0, now - 1), ArrowRight: Math.min(last, now + 1), Home: 0,
      End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.moveTo(this.shown[next].x);
    setText(this.said, `${this.at.textContent}: ${partsWords(this.shown[next].parts)}`);
  }

  moveTo(x) {
    const left = x == null ? -10 : this.plot?.valToPos(x, "x");
    this.plot?.setCursor({ left, top: x == null ? -10 : 10 });
  }
}
