// One chart on uPlot: fixed axes, a legend whose buttons hide lines, values under the pointer.

import { h, keyed, fields, setAttr, setText } from "./dom.js";
import { niceRange, ticks } from "./scale.js";
import uPlot from "./vendor/uPlot.esm.js";

const NUM_COLOURS = 8;
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
 * `spec` has title, unit, about, format(y), tick(y, step) and perhaps `ceiling`
 * and `fromZero`. `board` has the
 * set `hidden` of line ids, `toggle(id)`, `moveTo(x)` for the cursors of all charts, and `sync`, the
 * name under which they follow the pointer.
 */
export class Plot {
  constructor(spec, board) {
    this.spec = spec;
    this.board = board;
    this.stamp = null;
    this.lines = [];
    this.xs = [];
    this.at = h("span", { class: "muted plot-at" });
    this.frame = h("div", { class: "frame", tabindex: 0, role: "img" });
    this.note = h("p", { class: "chart-note muted" });
    this.legend = h("ul", { class: "legend", "aria-label": `Lines of ${spec.title}` });
    this.said = h("p", { class: "only-read", "aria-live": "polite" });
    this.node = h("figure", { class: "chart", "data-chart": spec.key },
      h("figcaption", {}, h("h3", {}, spec.title), h("span", { class: "muted unit" }, spec.unit),
        hint(spec.title, spec.about), h("span", { class: "grow" }), this.at),
      h("div", { class: "frame-box" }, this.frame, this.note), this.legend, this.said);
    new ResizeObserver(() => this.resize()).observe(this.frame);
    this.frame.addEventListener("keydown", (event) => this.key(event));
    this.frame.addEventListener("blur", () => this.board.moveTo(null));
  }

  update(lines, xMax, numRounds) {
    const { hidden } = this.board;
    setText(this.note, numRounds > 1 ? "Not measured." : "The first numbers come with the first round.");
    const stamp = JSON.stringify([lines.map(newestOf), xMax, [...hidden]]);
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.lines = lines;
    this.xMax = Math.max(1, xMax);
    this.xs = [...new Set(lines.flatMap((line) => line.points.map(([x]) => x)))];
    this.xs.sort((a, b) => a - b);
    const columns = lines.map((line) => {
      const known = new Map(line.points);
      return this.xs.map((x) => known.get(x) ?? null);
    });
    this.data = [this.xs, ...columns];
    const shown = lines.filter((line) => !hidden.has(line.id));
    const values = shown.flatMap((line) => line.points.map(([, y]) => y));
    this.range = niceRange(values, 5, this.spec.ceiling, this.spec.fromZero);
    this.note.hidden = lines.some((line) => line.points.length);
    this.draw();
    this.describe();
  }

  /** Draw with the data at hand; only other lines need another uPlot. */
  draw() {
    const kind = this.lines.map((line) => [line.id, line.slot].join()).join(";");
    if (!this.frame.clientWidth) return; // not on screen; `resize` comes back here
    if (kind !== this.kind || !this.plot) {
      this.kind = kind;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(), this.data, this.frame);
    } else {
      this.plot.setData(this.data);
    }
    this.lines.forEach((line, i) => {
      const show = !this.board.hidden.has(line.id);
      if (this.plot.series[i + 1].show !== show) this.plot.setSeries(i + 1, { show });
    });
    this.showValues();
  }

  options() {
    const muted = () => this.colours.muted;
    const grid = { stroke: () => this.colours.line, width: 1 };
    const font = "12px system-ui, sans-serif";
    this.recolour();
    return {
      width: this.frame.clientWidth,
      height: this.frame.clientHeight,
      padding: [10, 14, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false, setScale: false },
        sync: { key: this.board.sync, setSeries: false } },
      scales: {
        x: { time: false, range: () => [0, this.xMax] },
        y: { range: () => [this.range.low, this.range.high] },
      },
      axes: [
        { stroke: muted, font, grid: { show: false }, ticks: { show: false }, incrs: STEPS, size: 28,
          space: 48, values: (_, xs) => xs.map((x) => (x === 0 ? "start" : String(x))) },
        { stroke: muted, font, grid, ticks: { show: false }, size: 62, gap: 6,
          splits: () => ticks(this.range.low, this.range.high, this.range.step),
          values: (_, ys) => ys.map((y) => this.spec.tick(y, this.range.step)) },
      ],
      series: [{}, ...this.lines.map((line) => this.series(line))],
      hooks: { setCursor: [() => this.showValues()] },
    };
  }

  series(line) {
    const dash = DASHES[Math.floor((line.slot - 1) / NUM_COLOURS) % DASHES.length];
    return { label: line.name, stroke: () => this.colours[line.id], width: 2, dash, spanGaps: true,
      points: { size: 6, fill: () => this.colours[line.id] } };
  }

  recolour() {
    this.colours = { muted: colourOf("muted"), line: colourOf("grid-line") };
    for (const line of this.lines) this.colours[line.id] = colourOf(colourClass(line.slot));
    this.plot?.redraw(false);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.frame;
    if (!width || !height || !this.data) return;
    if (!this.plot) this.draw();
    else if (this.plot.width !== width || this.plot.height !== height) {
      this.plot.setSize({ width, height });
    }
  }

  /** The legend: values under the pointer, or the newest of each line. */
  showValues() {
    const index = this.plot?.cursor.idx;
    const x = index == null ? null : this.xs[index];
    setText(this.at, x == null ? "latest" : x === 0 ? "at the start" : `after round ${x}`);
    const create = (line) => {
      const button = h("button", { type: "button" }, h("i", { "data-f": "swatch" }),
        h("span", { class: "one-line", "data-f": "name" }), h("b", { "data-f": "value" }));
      button.addEventListener("click", () => this.board.toggle(line.id));
      return h("li", {}, button);
    };
    keyed(this.legend, this.lines, (line) => line.id, create, (item, line) => {
      const part = fields(item);
      const hidden = this.board.hidden.has(line.id);
      const point = x == null ? line.points.at(-1) : line.points.find(([px]) => px === x);
      setAttr(part.swatch, "class", `swatch ${colourClass(line.slot)}`);
      setAttr(part.swatch, "data-dash", Math.floor((line.slot - 1) / NUM_COLOURS) || null);
      setAttr(item.firstChild, "aria-pressed", String(!hidden));
      setAttr(item.firstChild, "title", hidden ? `Show ${line.name}` : `Hide ${line.name}`);
      setText(part.name, line.name);
      setText(part.value, this.spec.format(point?.[1]));
    });
  }

  describe() {
    const words = this.lines.filter((line) => line.points.length).slice(0, 12).map((line) => {
      const [x, y] = line.points.at(-1);
      return `${line.name} ${this.spec.format(y)} after round ${x}`;
    });
    const text = words.join("; ") || "No numbers yet";
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
    const values = [...this.legend.children].map((item) => item.textContent.trim()).join(", ");
    setText(this.said, `${this.at.textContent}: ${values}`);
  }

  moveTo(x) {
    if (!this.plot) return;
    const left = x == null ? -10 : this.plot.valToPos(x, "x");
    this.plot.setCursor({ left, top: x == null ? -10 : 10 }, true, false);
  }
}

/** What changes of a line when there is something new: earlier points stay as they are. */
const newestOf = ({ points, ...line }) => [line, points.length, points.slice(-3)];

const colourClass = (slot) => `s${((slot - 1) % NUM_COLOURS) + 1}`;
