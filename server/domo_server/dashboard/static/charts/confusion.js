// A confusion matrix: rows are the truth, columns what the model said.

import { h } from "../dom.js";
import { formatCount, formatPercent } from "../format.js";

const MOST_CLASSES = 20;
const MOST_ROWS = 12;
const MOST_SHADE = 45; // in percent: text is read on it

/** Of many classes: those that are taken for another most often. */
function mostConfused(labels, matrix) {
  const found = matrix.flatMap((row, i) => {
    const all = row.reduce((a, b) => a + b, 0);
    return row.flatMap((n, j) => (i !== j && n > 0 ? [{ i, j, n, share: n / all }] : []));
  });
  found.sort((a, b) => b.n - a.n);
  return h("table", {},
    h("thead", {}, h("tr", {}, ...["Truth", "Said", "How often"].map((x) => h("th", { scope: "col" }, x)))),
    h("tbody", {}, ...found.slice(0, MOST_ROWS).map(({ i, j, n, share }) => h("tr", {},
      h("th", { scope: "row" }, labels[i]), h("td", {}, labels[j]),
      h("td", { class: "num" }, `${formatCount(n)}, ${formatPercent(share)}`)))));
}

/** A table; the darker a cell, the larger its share of the row. */
export function confusionTable({ labels: known, matrix }) {
  const labels = known.length ? known : matrix.map((_, i) => String(i));
  const caption = "Rows: the truth. Columns: what the model said.";
  if (labels.length > MOST_CLASSES) {
    return h("div", { class: "scroll tall", tabindex: 0, role: "region",
      "aria-label": "What is confused most" }, mostConfused(labels, matrix));
  }
  const rows = matrix.map((row, i) => {
    const all = row.reduce((a, b) => a + b, 0);
    return h("tr", {}, h("th", { scope: "row", title: labels[i] }, labels[i]), ...row.map((n, j) => {
      const share = all ? n / all : 0;
      const cell = h("td", { class: "num",
        title: `${labels[i]} said to be ${labels[j]}: ${formatPercent(share)}` }, formatCount(n));
      cell.style.setProperty("--share", `${Math.round(MOST_SHADE * share)}%`);
      return cell;
    }));
  });
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Confusion matrix" },
    h("table", { class: "confusion" }, h("caption", { class: "muted small" }, caption),
      h("thead", {}, h("tr", {}, h("td", {}), ...labels.map((label) =>
        h("th", { scope: "col", title: label }, label)))),
      h("tbody", {}, ...rows)));
}
