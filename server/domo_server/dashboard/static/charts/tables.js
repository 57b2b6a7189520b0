// What tests are more than numbers: confusion matrices, and curves such as ROC and reliability.

import { getJson, h, keyed, setAttr, setText } from "../dom.js";
import { formatCount, formatNumber } from "../format.js";
import { confusionTable } from "./confusion.js";
import { curvePicture } from "./curve_picture.js";

const AGAIN_MS = 2000;
const SVG_KINDS = {
  auc: ["ROC", "false positives", "true positives"],
  average_precision: ["Precision and recall", "recall", "precision"],
  calibration: ["Reliability", "confidence", "share that is right"],
};

/** A picture of one table, or null where its numbers are all there is. */
function pictureOf(table) {
  if (table.kind === "confusion" && table.matrix) return confusionTable(table);
  const [words, x, y] = SVG_KINDS[table.kind] ?? [];
  return words && table.curves ? curvePicture(table, x, y) : null;
}

const titleOf = ({ kind, name }) => {
  const words = kind === "confusion" ? "Confusion" : SVG_KINDS[kind]?.[0];
  return words && name !== kind ? `${words}: ${name}` : words ?? name;
};

const numbersOf = ({ numbers, max_error: error }) => [
  ...Object.entries(numbers).slice(0, 6).map(([name, y]) => `${name} ${formatNumber(y)}`),
  ...(error ? [`exact to ${formatNumber(error)}`] : []),
].join(", ");

export class Tables {
  constructor(draw) {
    this.draw = draw;
    this.stamp = null;
    this.which = h("select", { "aria-label": "Model" }, h("option", { value: "newest" }, "newest model"),
      h("option", { value: "best" }, "best model"));
    this.which.addEventListener("change", draw);
    this.about = h("p", { class: "muted small" });
    this.list = h("div", { class: "tables" });
    this.node = h("section", { class: "panel", "aria-label": "Tests in detail", hidden: true },
      h("div", { class: "row head wrap" }, h("h2", {}, "Tests in detail"), this.about,
        h("label", { class: "field-inline" }, "Of the", this.which)), this.list);
  }

  /** Ask for them where there may be others, and show what is here. */
  update(run) {
    this.which.lastChild.disabled = run.best_index == null;
    if (run.best_index == null) this.which.value = "newest";
    const which = this.which.value;
    const model = which === "best" ? run.best_index : `${run.rounds_done} ${run.state}`;
    const stamp = `${run.run_id} ${which} ${model}`;
    if (stamp === this.stamp || this.isBusy || !run.rounds_done) return;
    this.isBusy = true;
    this.ask(`api/v1/runs/${encodeURIComponent(run.run_id)}/tables?which=${which}`, stamp);
  }

  async ask(url, stamp) {
    try {
      this.show(await getJson(url));
      this.stamp = stamp;
      this.isBusy = false;
    } catch ({ status }) {
      if (status === 404) {
        this.show({ model_index: 0, tables: [] }); // the task has none
        this.stamp = stamp;
      }
      setTimeout(() => (this.isBusy = false), AGAIN_MS); // else the next drawing tries again
    }
  }

  show({ model_index: index, tables }) {
    this.node.hidden = tables.length === 0;
    setText(this.about, `of x_${formatCount(index)}, over all silos`);
    const create = () => h("figure", { class: "detail-table" }, h("figcaption", {}, h("h3", {})),
      h("div", { class: "picture" }), h("p", { class: "muted small" }));
    keyed(this.list, tables, ({ name, kind }) => `${kind} ${name}`, create, (node, table) => {
      setText(node.querySelector("h3"), titleOf(table));
      setAttr(node, "data-kind", table.kind);
      const picture = pictureOf(table);
      node.children[1].replaceChildren(...(picture ? [picture] : []));
      setText(node.lastChild, numbersOf(table));
    });
  }
}
