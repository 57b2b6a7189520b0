// One chart on uPlot: values under the pointer, zoom by drag; one line stands out where it is pointed at.

import { h, setAttr, setText } from "../dom.js";
import { AXES } from "./axis.js";
import { ChartFrame } from "./frame.js";
import { layersOf, smoothLines } from "./layers.js";
import { Legend } from "./legend.js";
import { Overlay, farOut } from "./overlay.js";
import { uPlotOptions } from "./options.js";
import { logRange, logTicks, niceRange, ticks } from "./scale.js";
import { column, valueAt, withoutFarOut } from "./series.js";
import uPlot from "../vendor/uPlot.esm.js";

const NEAR_PX = 24;

/** The colour of a class, as the style sheet has it now. */
function colourOf(name) {
  const probe = h("i", { class: name, hidden: true });
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/**
 * A chart of lines {id, name, slot, points, gaps, best}, points [x, y, round].
 *
 * `spec` has title, unit, about, format(y), tick(y, step) and perhaps `ceiling` and `fromZero`.
 * `board` has the `view`, the map `picked` of ids to colours, `toggle(id)`, `pick(id)`, `focus(id)`,
 * `moveTo(x)` for the cursors of all charts, `zoomTo(from, to)`, and `sync`, the name under which
 * they follow the pointer. Of a crowd the chart draws grey lines, the median, the band that holds the
 * middle half, and in colours the lines that are picked.
 */
export class Plot {
  constructor(spec, board) {
    this.spec = spec;
    this.board = board;
    this.stamp = null;
    this.lines = [];
    this.kind = "few";
    this.xs = [];
    this.lit = null;
    this.legend = new Legend(this);
    this.overlay = new Overlay();
    this.frame = new ChartFrame(this);
    this.node = this.frame.node;
  }

  /** Draw lines; `window` is [from, to] in x, `numRounds` how many rounds there are so far. */
  update({ lines, crowd = false, silos = null, better = null }, { window, numRounds }) {
    const { view, picked } = this.board;
    setText(this.frame.note, numRounds > 1 ? "Not measured."
      : "The first numbers come with the first round.");
    const stamp = JSON.stringify([lines.map(newestOf), silos?.map(newestOf), window, view,
      [...picked], crowd, better]);
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.window = window;
    this.better = better;
    this.axis = AXES[view.x];
    this.isLater = view.x !== "round";
    this.isLog = view.log.includes(this.spec.key);
    this.lines = smoothLines(lines, view.smooth);
    this.silos = silos && smoothLines(silos, view.smooth);
    Object.assign(this, layersOf({ lines: this.lines, silos: this.silos, crowd }, view, picked));
    this.xs = [...new Set([...this.lines, ...(this.silos ?? [])].flatMap(({ points, gaps }) =>
      [...points.map(([x]) => x), ...gaps]))];
    this.xs.sort((a, b) => a - b);
    this.data = [this.xs, ...this.layers.map((layer) => this.column(layer)), []];
    this.measure();
    this.frame.note.hidden = lines.some((line) => line.points.length);
    this.frame.showState();
    this.draw();
    this.describe();
  }

  /** The y range of what can be seen. */
  measure() {
    const [from, to] = this.window;
    const shown = this.layers.filter((layer) => layer.shown);
    const values = shown.flatMap(({ points }) =>
      points.filter(([x]) => x >= from && x <= to).map(([, y]) => y));
    const { ceiling, fromZero } = this.spec;
    if (this.isLog) {
      this.range = logRange(values);
    } else {
      const kept = withoutFarOut(values, shown.length);
      const isBelow = ceiling !== undefined && kept.every((y) => y <= ceiling);
      this.range = niceRange(kept, 5, isBelow ? ceiling : undefined, fromZero);
    }
    this.marks = farOut(this);
    this.below = this.isLog ? values.filter((y) => y <= 0).length : 0;
  }

  splits() {
    const { low, high, step } = this.range;
    return this.isLog ? logTicks(low, high) : ticks(low, high, step);
  }

  tickWords(y) {
    return this.spec.tick(y, this.isLog ? y : this.range.step);
  }

  column({ points, gaps }) {
    const values = column(points, gaps ?? [], this.xs);
    return this.isLog ? values.map((y) => (y <= 0 ? null : y)) : values;
  }

  /** Draw with the data at hand; only other lines or scales need another uPlot. */
  draw() {
    const host = this.frame.plot;
    const stamp = [this.isLog, this.board.view.x,
      ...this.layers.map(({ id, look, dash, alpha }) => [id, look, dash, alpha].join())].join(";");
    if (!host.clientWidth) return; // not on screen; `resize` comes back here
    this.data[this.data.length - 1] = this.litColumn();
    if (stamp !== this.drawn || !this.plot) {
      this.drawn = stamp;
      this.plot?.destroy();
      this.recolour();
      this.plot = new uPlot(uPlotOptions(this), this.data, host);
      this.overlay.moveInto(this.plot.over);
    } else {
      this.plot.setData(this.data);
    }
    this.layers.forEach(({ shown }, i) => {
      if (this.plot.series[i + 1].show !== shown) this.plot.setSeries(i + 1, { show: shown });
    });
    if (this.lit !== null) this.plot.setSeries(this.data.length - 1, { focus: true });
    this.showValues();
  }

  litColumn() {
    const line = this.lines.find(({ id }) => id === this.lit);
    return line ? this.column(line) : this.xs.map(() => undefined);
  }

  /** Let one line stand out above all others; null: none. */
  light(id) {
    const there = this.lines.length > 1 && this.lines.some((line) => line.id === id);
    const lit = there && !this.isHidden(id) ? id : null;
    if (lit === this.lit) return;
    this.lit = lit;
    if (!this.plot) return;
    this.data[this.data.length - 1] = this.litColumn();
    this.recolourLit();
    this.plot.setData(this.data, false);
    this.plot.setSeries(lit === null ? null : this.data.length - 1, { focus: true });
    this.plot.redraw();
    this.showValues();
  }

  isHidden(id) {
    return this.kind !== "crowd" && this.board.view.hide.includes(id);
  }

  /** The id of the line that is nearest to the pointer. */
  nearest() {
    const { idx, top } = this.plot?.cursor ?? {};
    if (idx == null || top < 0) return null;
    let [best, distance] = [null, NEAR_PX];
    for (const { id, points } of this.lines) {
      const point = this.isHidden(id) ? null : points.find(([x]) => x === this.xs[idx]);
      const away = point ? Math.abs(this.plot.valToPos(point[1], "y") - top) : Infinity;
      if (away < distance) [best, distance] = [id, away];
    }
    return best;
  }

  recolour() {
    this.colours = { muted: colourOf("muted"), line: colourOf("grid-line"), band: colourOf("band"),
      upper: "transparent", lower: "transparent" };
    for (const { look } of this.layers) this.colours[look] ??= colourOf(look);
    this.recolourLit();
    this.plot?.redraw(false);
  }

  recolourLit() {
    const layer = this.layers.findLast(({ id }) => id === this.lit);
    this.colours.lit = layer && layer.look !== "thin" ? this.colours[layer.look] : colourOf("strong-line");
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.frame.plot;
    if (!width || !height || !this.data) return;
    if (!this.plot) this.draw();
    else if (this.plot.width !== width || this.plot.height !== height) {
      this.plot.setSize({ width, height });
    }
  }

  /** Values under the pointer, or the newest: in the legend, and of the line that stands out. */
  showValues() {
    const index = this.plot?.cursor.idx;
    const x = index == null ? null : this.xs[index];
    const when = x == null ? "latest" : this.axis.when(x);
    const line = this.lines.find(({ id }) => id === this.lit);
    const value = this.spec.format(line && valueAt(line.raw, x, this.isLater));
    setText(this.frame.at, line ? `${line.name} ${value}, ${when.replace("after ", "")}` : when);
    this.legend.show(x);
  }

  describe() {
    const known = this.lines.some((line) => line.points.length);
    const last = Math.max(...this.lines.map((line) => line.points.at(-1)?.[0] ?? 0));
    const when = known ? this.axis.when(last).replace("a", "A") : "";
    const text = known ? `${when}: ${this.legend.words()}` : "No numbers yet";
    setAttr(this.frame.plot, "aria-label", `${this.spec.title}. ${text}. Arrow keys read it; ` +
      "plus and minus zoom, 0 shows all.");
  }

  /** Where the cursor is; null: nowhere. */
  cursorX() {
    return this.xs[this.plot?.cursor.idx] ?? null;
  }

  moveTo(x) {
    if (!this.plot) return;
    const left = x == null ? -10 : this.plot.valToPos(x, "x");
    this.plot.setCursor({ left, top: x == null ? -10 : 10 }, true, false);
  }
}

/** What changes of a line when there is something new: earlier points stay as they are. */
const newestOf = ({ points, gaps, ...line }) => [line, points.length, points.slice(-3), gaps.length];
