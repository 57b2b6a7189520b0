// The best model of a run: which it is, how good, and where to get it.

import { h, setAttr, setText } from "../dom.js";
import { formatTest } from "./specs.js";

/** "auc 0.930 in round 12"; empty: none is known. */
export function bestWords(run) {
  if (run.best_index == null) return "";
  const when = run.best_index === 0 ? "before the first round" : `in round ${run.best_index}`;
  return `${run.primary_metric} ${formatTest(run.primary_metric, run.best_value)} ${when}`;
}

/** Say it in a line, with a link to its file; of a run without one the line is not there. */
export function renderBest(line, run) {
  const words = bestWords(run);
  line.hidden = !words;
  if (!words) return;
  if (!line.firstChild) {
    line.append(h("span", { class: "star", "aria-hidden": "true" }, "\u2605 "), h("span", {}),
      h("span", { class: "auditor-only" }, " \u00b7 ", h("a", { download: true }, "Best model")));
  }
  const link = line.querySelector("a");
  setText(line.children[1], `Best: ${words}`);
  setAttr(link, "href", `api/v1/runs/${encodeURIComponent(run.run_id)}/model?which=best`);
  setAttr(link, "aria-label", `Best model of ${run.name}, ${run.run_id}`);
}
