// One chart on uPlot: fixed axes, values under the pointer; one line stands out where it is pointed at.

import { spread } from "./crowd.js";
import { h, setAttr, setText } from "./dom.js";
import { Legend, colourClass, dashOf } from "./legend.js";
import { pictureButton } from "./picture.js";
import { niceRange, ticks } from "./scale.js";
import uPlot from "./vendor/uPlot.esm.js";

const NEAR_PX = 24;
const DASHES = [[], [6, 4], [2, 3]];
const STEPS = [1, 2, 5].flatMap((x) => [1, 10, 100, 1e3, 1e4, 1e5].map((y) => x * y));
STEPS.sort((a, b) => a - b);

let numbered = 0;

/** The colour of a class, as the style sheet has it now. */
function colourOf(name) {
  const probe = h("i", { class: name, hidden: true });
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function hint(title, text) {
  const id = `hint-${(numbered += 1)}`;
  const button = h("button", { type: "button", class: "hint", "aria-label": `What is ${title}?`,
    "aria-describedby": id }, "?");
  button.addEventListener("keydown", (event) => event.key === "Escape" && button.blur());
  return h("span", { class: "hint-box" }, button, h("span", { role: "tooltip", id }, text));
}

/**
 * A chart of lines {id, name, slot, points}, points [x, y] with whole x: the round.
 *
 * `spec` has title, unit, about, format(y), tick(y, step) and perhaps `ceiling` and `fromZero`.
 * `board` has the set `hidden` of line ids, the map `picked` of ids to colours, `toggle(id)`,
 * `pick(id)`, `focus(id)`, `moveTo(x)` for the cursors of all charts, and `sync`, the name under which
 * they follow the pointer. Of a crowd the chart draws grey lines, the median, the band that holds the
 * middle half, and in colours the lines that are picked.
 */
export class Plot {
  constructor(spec, board) {
    this.spec = spec;
    this.board = board;
    this.stamp = null;
    this.lines = [];
    this.xs = [];
    this.lit = null;
    this.at = h("span", { class: "muted plot-at" });
    this.frame = h("div", { class: "frame", tabindex: 0, role: "img" });
    this.note = h("p", { class: "chart-note muted" });
    this.legend = new Legend(this);
    this.said = h("p", { class: "only-read", "aria-live": "polite" });
    this.node = h("figure", { class: "chart", "data-chart": spec.key },
      h("figcaption", {}, h("h3", {}, spec.title), h("span", { class: "muted unit" }, spec.unit),
        hint(spec.title, spec.about), h("span", { class: "grow" }), this.at,
        pictureButton(spec.title, () => this.node)),
      h("div", { class: "frame-box" }, this.frame, this.note), this.legend.node, this.said);
    new ResizeObserver(() => this.resize()).observe(this.frame);
    this.frame.addEventListener("keydown", (event) => this.key(event));
    this.frame.addEventListener("blur", () => this.board.moveTo(null));
    this.frame.addEventListener("mousemove", () => this.board.focus(this.nearest()));
    this.frame.addEventListener("pointerleave", () => this.board.focus(null));
    this.frame.addEventListener("click", () => this.middle && this.lit && this.board.pick(this.lit));
  }

  update(lines, xMax, numRounds, isCrowd = false) {
    const { hidden, picked } = this.board;
    setText(this.note, numRounds > 1 ? "Not measured." : "The first numbers come with the first round.");
    const stamp = JSON.stringify([lines.map(newestOf), xMax, [...hidden], [...picked], isCrowd]);
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.lines = lines;
    this.middle = isCrowd ? spread(lines) : null;
    this.layers = isCrowd ? crowdLayers(lines, this.middle, picked) : lines.map(ownLayer);
    this.xMax = Math.max(1, xMax);
    this.xs = [...new Set(lines.flatMap((line) => line.points.map(([x]) => x)))];
    this.xs.sort((a, b) => a - b);
    this.data = [this.xs, ...this.layers.map(({ points }) => this.column(points)), []];
    const shown = isCrowd ? lines : lines.filter((line) => !hidden.has(line.id));
    const values = shown.flatMap((line) => line.points.map(([, y]) => y));
    this.range = niceRange(values, 5, this.spec.ceiling, this.spec.fromZero);
    this.note.hidden = lines.some((line) => line.points.length);
    this.draw();
    this.describe();
  }

  column(points) {
    const known = new Map(points);
    return this.xs.map((x) => known.get(x) ?? null);
  }

  /** Draw with the data at hand; only other lines need another uPlot. */
  draw() {
    const kind = this.layers.map((layer) => [layer.id, layer.look, layer.dash].join()).join(";");
    if (!this.frame.clientWidth) return; // not on screen; `resize` comes back here
    this.data[this.data.length - 1] = this.litColumn();
    if (kind !== this.kind || !this.plot) {
      this.kind = kind;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(), this.data, this.frame);
    } else {
      this.plot.setData(this.data);
    }
    this.layers.forEach((layer, i) => {
      const show = Boolean(this.middle) || !this.board.hidden.has(layer.id);
      if (this.plot.series[i + 1].show !== show) this.plot.setSeries(i + 1, { show });
    });
    if (this.lit !== null) this.plot.setSeries(this.data.length - 1, { focus: true });
    this.showValues();
  }

  litColumn() {
    const line = this.lines.find(({ id }) => id === this.lit);
    return line ? this.column(line.points) : this.xs.map(() => null);
  }

  /** Let one line stand out above all others; null: none. */
  light(id) {
    const there = this.lines.length > 1 && this.lines.some((line) => line.id === id);
    const lit = there && !this.board.hidden.has(id) ? id : null;
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

  /** The id of the line that is nearest to the pointer. */
  nearest() {
    const { idx, top } = this.plot?.cursor ?? {};
    if (idx == null || top < 0) return null;
    let [best, distance] = [null, NEAR_PX];
    for (const { id, points } of this.lines) {
      const point = this.board.hidden.has(id) ? null : points.find(([x]) => x === this.xs[idx]);
      const away = point ? Math.abs(this.plot.valToPos(point[1], "y") - top) : Infinity;
      if (away < distance) [best, distance] = [id, away];
    }
    return best;
  }

  options() {
    const muted = () => this.colours.muted;
    const grid = { stroke: () => this.colours.line, width: 1 };
    const em = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const font = `${Math.round(0.8 * em)}px system-ui, sans-serif`;
    const at = (look) => this.layers.findIndex((layer) => layer.look === look) + 1;
    this.recolour();
    return {
      width: this.frame.clientWidth,
      height: this.frame.clientHeight,
      padding: [10, 14, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false, setScale: false },
        sync: { key: this.board.sync, setSeries: false },
        points: this.middle ? { show: false } : {} },
      focus: { alpha: 0.25 },
      bands: this.middle ? [{ series: [at("upper"), at("lower")], fill: () => this.colours.band }] : [],
      scales: {
        x: { time: false, range: () => [0, this.xMax] },
        y: { range: () => [this.range.low, this.range.high] },
      },
      axes: [
        { stroke: muted, font, grid: { show: false }, ticks: { show: false }, incrs: STEPS,
          size: 2 * em, space: 3.2 * em, values: (_, xs) => xs.map((x) => (x === 0 ? "start" : String(x))) },
        { stroke: muted, font, grid, ticks: { show: false }, size: 4.1 * em, gap: 6,
          splits: () => ticks(this.range.low, this.range.high, this.range.step),
          values: (_, ys) => ys.map((y) => this.spec.tick(y, this.range.step)) },
      ],
      series: [{}, ...this.layers.map((layer) => this.series(layer)),
        { stroke: () => this.colours.lit, width: 3, spanGaps: true, points: { show: false } }],
      hooks: { setCursor: [() => this.showValues()] },
    };
  }

  series({ look, dash, width }) {
    const stroke = () => this.colours[look];
    const points = this.middle ? { show: false } : { size: 6, fill: stroke };
    return { stroke, width, dash: DASHES[dash % DASHES.length], spanGaps: true, points };
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
    const { clientWidth: width, clientHeight: height } = this.frame;
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
    const when = x == null ? "latest" : x === 0 ? "at the start" : `after round ${x}`;
    const line = this.lines.find(({ id }) => id === this.lit);
    const point = line?.points.findLast(([px]) => x == null || px === x);
    const value = this.spec.format(point?.[1]);
    setText(this.at, line ? `${line.name} ${value}, ${when.replace("after ", "")}` : when);
    this.legend.show(x);
  }

  describe() {
    const known = this.lines.some((line) => line.points.length);
    const text = known ? `After round ${this.xs.at(-1)}: ${this.legend.words()}` : "No numbers yet";
    setAttr(this.frame, "aria-label", `${this.spec.title}. ${text}. Arrow keys read it by round.`);
  }

  key(event) {
    if (event.key === "Escape") this.board.moveTo(null);
    if (!this.plot || !this.xs.length) return;
    const last = this.xs.length - 1;
    const now = this.plot.cursor.idx ?? last + 1;
    const next = { ArrowLeft: Math.max(0, now - 1), ArrowRight: Math.min(last, now + 1), Home: 0,
      End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.board.moveTo(this.xs[next]);
    setText(this.said, `${this.at.textContent}: ${this.legend.words()}`);
  }

  moveTo(x) {
    if (!this.plot) return;
    const left = x == null ? -10 : this.plot.valToPos(x, "x");
    this.plot.setCursor({ left, top: x == null ? -10 : 10 }, true, false);
  }
}

/** What changes of a line when there is something new: earlier points stay as they are. */
const newestOf = ({ points, ...line }) => [line, points.length, points.slice(-3)];

const ownLayer = ({ id, slot, points }) =>
  ({ id, points, look: colourClass(slot), dash: dashOf(slot), width: 2 });

/** Bottom to top: all lines in grey, the middle, and what is picked. */
function crowdLayers(lines, { low, middle, high }, picked) {
  const layer = (id, points, look, width, dash = 0) => ({ id, points, look, width, dash });
  return [
    ...lines.map(({ id, points }) => layer(id, points, "thin", 1)),
    layer("upper", high, "upper", 0), layer("lower", low, "lower", 0),
    layer("median", middle, "s1", 3),
    ...lines.filter(({ id }) => picked.has(id)).map(({ id, points }) =>
      layer(id, points, colourClass(picked.get(id)), 2)),
  ];
}
