// What is set for all charts of a page: the x axis, smoothing, silos, which charts, zoom.

import { h, keyed, setAttr, setText } from "../dom.js";
import { AXES } from "./axis.js";
import { closing } from "./save.js";

const MOST = 0.95;

export class Toolbar {
  /** `board` has the `view` and `change(view, isSmall)`; `hasSilos`: it shows one run. */
  constructor(board) {
    this.board = board;
    this.axis = h("select", { "aria-label": "Horizontal axis" },
      ...Object.entries(AXES).map(([value, { words }]) => h("option", { value }, words)));
    this.axis.addEventListener("change", () => board.change({ x: this.axis.value, zoom: null }));
    this.smooth = h("input", { type: "range", min: 0, max: MOST, step: 0.05,
      "aria-label": "Smoothing", title: "An exponential mean; what was measured stays behind it, faintly" });
    this.smooth.addEventListener("input", () => board.change({ smooth: Number(this.smooth.value) }, true));
    this.much = h("output", { class: "muted" });
    this.silos = h("select", { "aria-label": "Silos in test charts" },
      h("option", { value: "spread" }, "as a band"), h("option", { value: "each" }, "a line each"));
    this.silos.addEventListener("change", () => board.change({ each: this.silos.value === "each" }));
    this.silosLabel = h("label", { class: "field-inline", hidden: true }, "Silos' tests", this.silos);
    this.count = h("span", {});
    this.list = h("ul", { class: "menu-list checks" });
    this.charts = h("details", { class: "menu chooser" }, h("summary", { class: "button" }, this.count), this.list);
    this.reset = h("button", { type: "button", class: "quiet reset-zoom" }, "Show all rounds");
    this.reset.addEventListener("click", () => board.change({ zoom: null }));
    closing(this.charts);
    this.node = h("div", { class: "chart-tools small", role: "group", "aria-label": "All charts" },
      h("label", { class: "field-inline" }, "x", this.axis),
      h("label", { class: "field-inline" }, "Smoothing", this.smooth, this.much),
      this.silosLabel, this.charts, this.reset,
      h("span", { class: "muted zoom-help" }, "Drag over a chart to zoom; double click shows all."));
  }

  /** `specs` are all charts, `shown` the keys of those that are shown. */
  update(specs, shown, { hasSilos, hasBytes, hasTimes }) {
    const { view } = this.board;
    for (const option of this.axis.options) {
      option.disabled = { bytes: !hasBytes, time: !hasTimes }[option.value] ?? false;
    }
    this.axis.value = view.x;
    this.smooth.value = String(view.smooth);
    setText(this.much, view.smooth ? view.smooth.toFixed(2) : "off");
    this.silosLabel.hidden = !hasSilos;
    this.silos.value = view.each ? "each" : "spread";
    setText(this.count, `Charts: ${shown.length} of ${specs.length}`);
    this.reset.disabled = !view.zoom;
    const create = (spec) => {
      const box = h("input", { type: "checkbox", value: spec.key });
      box.addEventListener("change", () => this.choose());
      return h("li", {}, h("label", {}, box, h("span", {})));
    };
    keyed(this.list, specs, (spec) => spec.key, create, (item, spec) => {
      const box = item.querySelector("input");
      box.checked = shown.includes(spec.key);
      setText(item.querySelector("span"), spec.title);
      setAttr(item, "data-of", spec.of);
    });
  }

  choose() {
    const boxes = [...this.list.querySelectorAll("input")];
    const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
    if (chosen.length) this.board.choose(chosen);
    else this.board.again(); // one chart stays
  }
}
