// What is around a chart: its title, its buttons, notes; and what keys and the pointer do in it.

import { h, setAttr, setText } from "../dom.js";
import { farOutWords } from "./overlay.js";
import { saveMenu } from "./save.js";
import { toggled } from "./view.js";

const ZOOM = { "+": 0.5, "=": 0.5, "-": 2, _: 2 };

let numbered = 0;

function hint(title, text) {
  const id = `hint-${(numbered += 1)}`;
  const button = h("button", { type: "button", class: "hint", "aria-label": `What is ${title}?`,
    "aria-describedby": id }, "?");
  button.addEventListener("keydown", (event) => event.key === "Escape" && button.blur());
  return h("span", { class: "hint-box" }, button, h("span", { role: "tooltip", id }, text));
}

export class ChartFrame {
  constructor(chart) {
    const { spec, board } = (this.chart = chart);
    this.unit = h("span", { class: "muted unit" });
    this.at = h("span", { class: "muted plot-at" });
    this.plot = h("div", { class: "frame", tabindex: 0, role: "img" });
    this.note = h("p", { class: "chart-note muted" });
    this.far = h("p", { class: "far-out muted", hidden: true });
    this.said = h("p", { class: "only-read", "aria-live": "polite" });
    this.log = h("button", { type: "button", class: "hint log-y", "aria-pressed": "false",
      "aria-label": `log y axis of ${spec.title}`, title: "Logarithmic y axis" }, "log");
    this.log.addEventListener("click", () => board.change({ log: toggled(board.view.log, spec.key) }));
    this.node = h("figure", { class: "chart", "data-chart": spec.key },
      h("figcaption", {}, h("h3", { title: spec.title }, spec.title), hint(spec.title, spec.about),
        this.log, saveMenu(chart), h("span", { class: "grow" }),
        this.unit, this.at),
      h("div", { class: "frame-box" }, this.plot, this.note), this.far, chart.legend.node, this.said);
    new ResizeObserver(() => chart.resize()).observe(this.plot);
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("blur", () => board.moveTo(null));
    this.plot.addEventListener("mousemove", () => board.focus(chart.nearest()));
    this.plot.addEventListener("pointerleave", () => board.focus(null));
    this.plot.addEventListener("pointerdown", () => ([this.isPressed, this.hasZoomed] = [true, false]));
    this.plot.addEventListener("dblclick", () => board.change({ zoom: null }));
    this.plot.addEventListener("click", () => {
      this.isPressed = false;
      if (chart.kind === "crowd" && chart.lit && !this.hasZoomed) board.pick(chart.lit);
    });
  }

  /** What is beyond the edge, and how the axis is. */
  showState() {
    const { marks, below, spec, axis, isLog } = this.chart;
    const words = farOutWords(marks, below, spec, axis);
    setText(this.unit, spec.unit);
    setText(this.far, words);
    this.far.hidden = !words;
    setAttr(this.log, "aria-pressed", String(isLog));
    setAttr(this.node, "data-window", this.chart.window.join());
    setAttr(this.node, "data-range", [this.chart.range.low, this.chart.range.high].join());
  }

  /** A range was dragged over in this chart, or in one that follows the same pointer. */
  select(plot) {
    const { left, width } = plot.select;
    if (width <= 0) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (!this.isPressed) return;
    [this.isPressed, this.hasZoomed] = [false, true];
    this.chart.board.zoomTo(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  }

  key(event) {
    const { chart } = this;
    const { board, xs } = chart;
    if (event.key === "Escape") board.moveTo(null);
    if (!chart.plot || !xs.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = chart.window;
    if (event.key in ZOOM) {
      event.preventDefault();
      const half = ((to - from) * ZOOM[event.key]) / 2;
      const at = chart.cursorX();
      const middle = at ?? (from + to) / 2;
      board.zoomTo(middle - half, middle + half);
      if (at !== null) queueMicrotask(() => board.moveTo(at)); // once the charts have their new scale
    } else if (event.key === "0") {
      board.change({ zoom: null });
    } else {
      this.step(event);
      return;
    }
    setText(this.said, board.view.zoom ? `from ${board.view.zoom.map(chart.axis.tick).join(" to ")}`
      : "all is shown");
  }

  /** Read the chart point by point, of those that can be seen. */
  step(event) {
    const { chart } = this;
    const [from, to] = chart.window;
    const seen = chart.xs.filter((x) => x >= from && x <= to);
    const last = seen.length - 1;
    const at = seen.indexOf(chart.cursorX());
    const now = at < 0 ? last + 1 : at;
    const next = { ArrowLeft: Math.max(0, now - 1), ArrowRight: Math.min(last, now + 1), Home: 0,
      End: last }[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    chart.board.moveTo(seen[next]);
    setText(this.said, `${this.at.textContent}: ${chart.legend.words()}`);
  }
}
