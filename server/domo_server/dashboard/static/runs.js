// The table of all runs, with what can be taken home from each.

import { byId, fields, h, keyed, setAttr, setText } from "./dom.js";
import {
  formatCount, formatDay, formatDuration, formatLoss, formatPercent, secondsBetween,
} from "./format.js";
import { STATE_WORDS, hasEnded } from "./header.js";

function create(run) {
  const base = `api/v1/runs/${encodeURIComponent(run.run_id)}`;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("span", { class: "strong", "data-f": "name" }),
      h("span", { class: "muted small block", "data-f": "about" })),
    h("td", {}, h("span", { class: "badge", "data-f": "state" })),
    h("td", { class: "num wide" }, h("span", { "data-f": "rounds" }),
      h("span", { class: "muted small block", "data-f": "complete" })),
    h("td", { class: "num strong", "data-f": "accuracy" }),
    h("td", { class: "num wide", "data-f": "loss" }),
    h("td", { class: "num wide", "data-f": "took" }),
    h("td", { class: "wide" }, h("time", { "data-f": "created" })),
    h("td", { class: "links" },
      h("a", { href: `${base}/model`, "data-f": "model", download: true }, "Model"),
      h("a", { href: `${base}/history.json`, "data-f": "history", download: true }, "History")),
  );
}

function update(row, run) {
  const part = fields(row);
  setText(part.name, run.name);
  setText(part.about, `${run.method} on ${run.task} \u00b7 ${run.run_id}`);
  setText(part.state, STATE_WORDS[run.state] ?? run.state);
  setAttr(part.state, "data-state", run.state);
  setAttr(part.state, "title", run.detail || null);
  setText(part.rounds, `${formatCount(run.rounds_done)} of ${formatCount(run.num_rounds)}`);
  setText(part.complete, run.complete === false ? "not all silos" : "");
  setText(part.accuracy, formatPercent(run.accuracy));
  setText(part.loss, formatLoss(run.loss));
  const end = hasEnded(run) ? run.finished_at : null;
  const took = hasEnded(run) && !end ? null : secondsBetween(run.started_at, end);
  setText(part.took, formatDuration(took));
  setText(part.created, formatDay(run.created_at));
  setAttr(part.created, "datetime", run.created_at);
  part.model.hidden = run.rounds_done === 0;
  setAttr(part.model, "aria-label", `Model of ${run.name}, ${run.run_id}`);
  setAttr(part.history, "aria-label", `History of ${run.name}, ${run.run_id}`);
}

/** Draw the table; newest first. */
export function renderRuns({ runs, run }) {
  // the stream knows the current run better than the table that was asked for before
  const rows = runs.map((row) => (row.run_id === run?.run_id ? run : row));
  byId("no-runs").hidden = rows.length > 0;
  document.querySelector(".scroll").hidden = rows.length === 0;
  setText(byId("runs-sum"), rows.length > 1 ? `${formatCount(rows.length)} runs` : "");
  keyed(byId("runs"), rows, (x) => x.run_id, create, update);
}
