// A line chart in SVG: axes with numbers, one line per run, a read-out under the pointer.

import { h, s, setAttr } from "./dom.js";
import { niceRange, niceStep, ticks } from "./scale.js";

const MARGIN = { top: 10, right: 14, bottom: 26, left: 50 };

/**
 * One chart.
 *
 * Points are [x, y] with whole x; lines have {id, name, slot, points}. `onHover(x)` is called with
 * the round under the pointer or null, and the owner calls `hover(x)` on every chart, so that all
 * show the same round.
 */
export class LineChart {
  constructor(host, { title, format, tick, ceiling, onHover }) {
    this.title = title;
    this.format = format;
    this.tick = tick;
    this.ceiling = ceiling;
    this.onHover = onHover;
    this.lines = [];
    this.xMax = 1;
    this.x = null;
    this.plot = s("g");
    this.mark = s("g", { class: "mark" });
    this.svg = s("svg", { role: "img", tabindex: 0 }, this.plot, this.mark);
    this.readout = h("div", { class: "readout", hidden: true });
    this.note = h("p", { class: "chart-note muted" });
    this.frame = h("div", { class: "frame" }, this.svg, this.readout, this.note);
    host.append(h("h3", {}, title), this.frame);
    new ResizeObserver(() => this.draw()).observe(this.frame);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerdown", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.onHover(null));
    this.svg.addEventListener("blur", () => this.onHover(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  /** Show other lines. */
  update(lines, xMax) {
    const stamp = JSON.stringify([lines, xMax]);
    if (stamp === this.stamp) return;
    this.stamp = stamp;
    this.lines = lines;
    this.xMax = Math.max(1, xMax);
    this.xs = [...new Set(lines.flatMap((line) => line.points.map(([x]) => x)))];
    this.xs.sort((a, b) => a - b);
    const words = lines.filter((line) => line.points.length).map((line) => {
      const [x, y] = line.points.at(-1);
      return `${line.name} ${this.format(y)} after round ${x}`;
    });
    const keys = " Arrow keys read it round by round.";
    setAttr(this.svg, "aria-label", `${this.title}. ${words.join("; ") || "No numbers yet"}.${keys}`);
    this.note.textContent = words.length ? "" : "The first numbers come with the first round.";
    this.draw();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.frame;
    if (!width || !height) return;
    setAttr(this.svg, "viewBox", `0 0 ${width} ${height}`);
    this.right = width - MARGIN.right;
    this.bottom = height - MARGIN.bottom;
    const values = this.lines.flatMap((line) => line.points.map(([, y]) => y));
    const { low, high, step } = niceRange(values, height > 220 ? 5 : 3, this.ceiling);
    this.px = (x) => MARGIN.left + (x / this.xMax) * (this.right - MARGIN.left);
    this.py = (y) => this.bottom - ((y - low) / (high - low)) * (this.bottom - MARGIN.top);
    this.plot.replaceChildren(...this.yAxis(low, high, step), ...this.xAxis(width));
    for (const line of this.lines) this.plot.append(...this.curve(line));
    this.hover(this.x);
  }

  yAxis(low, high, step) {
    return ticks(low, high, step).flatMap((y) => [
      s("line", { class: y === low ? "axis" : "grid", x1: MARGIN.left, x2: this.right,
        y1: this.py(y), y2: this.py(y) }),
      s("text", { class: "tick", x: MARGIN.left - 8, y: this.py(y) + 4, "text-anchor": "end" },
        this.tick(y, step)),
    ]);
  }

  xAxis(width) {
    const step = Math.max(1, niceStep(this.xMax, Math.max(3, width / 90)));
    const y = this.bottom + 18;
    const name = s("text", { class: "tick", x: MARGIN.left - 10, y, "text-anchor": "end" }, "round");
    const numbers = ticks(0, this.xMax, step).map((x) =>
      s("text", { class: "tick", x: this.px(x), y, "text-anchor": "middle" }, String(x)));
    return [name, ...numbers];
  }

  curve({ slot, points }) {
    if (points.length === 0) return [];
    const path = points.map(([x, y], i) =>
      `${i ? "L" : "M"}${this.px(x).toFixed(1)} ${this.py(y).toFixed(1)}`);
    const [x, y] = points.at(-1);
    return [
      s("path", { class: `line s${slot}`, d: path.join("") }),
      s("circle", { class: `dot s${slot}`, cx: this.px(x), cy: this.py(y), r: 3.5 }),
    ];
  }

  point(event) {
    if (!this.xs?.length || !this.px) return;
    const at = event.clientX - this.svg.getBoundingClientRect().left;
    const far = (x) => Math.abs(this.px(x) - at);
    this.onHover(this.xs.reduce((best, x) => (far(x) < far(best) ? x : best)), this);
  }

  key(event) {
    if (!this.xs?.length) return;
    const last = this.xs.length - 1;
    const now = this.x === null ? last + 1 : this.xs.indexOf(this.x);
    const next = { ArrowLeft: Math.max(0, now - 1), ArrowRight: Math.min(last, now + 1), Home: 0,
      End: last }[event.key];
    if (event.key === "Escape") this.onHover(null);
    if (next === undefined) return;
    event.preventDefault();
    this.onHover(this.xs[next], this);
  }

  /** Mark a round; `speaking` shows the read-out box as well. */
  hover(x, speaking = this.speaking ?? false) {
    this.x = x;
    this.speaking = speaking && x !== null;
    this.mark.replaceChildren();
    this.readout.hidden = !this.speaking;
    if (x === null || !this.px) return;
    const at = this.px(x);
    this.mark.append(s("line", { class: "cross", x1: at, x2: at, y1: MARGIN.top, y2: this.bottom }));
    const rows = this.lines.flatMap((line) => {
      const point = line.points.find(([px]) => px === x);
      if (!point) return [];
      this.mark.append(s("circle", { class: `dot s${line.slot}`, cx: at, cy: this.py(point[1]), r: 4.5 }));
      return [h("li", {}, h("i", { class: `swatch s${line.slot}` }), h("span", {}, line.name),
        h("b", {}, this.format(point[1])))];
    });
    if (!this.speaking) return;
    this.readout.replaceChildren(h("p", {}, `After round ${x}`), h("ul", {}, ...rows.reverse()));
    const width = this.readout.offsetWidth;
    const left = at + 14 + width > this.right ? at - 14 - width : at + 14;
    this.readout.style.transform = `translate(${Math.max(0, left)}px, ${MARGIN.top}px)`;
  }
}
