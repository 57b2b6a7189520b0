// All runs: filter, pick some to compare, take their files home.

import { byId, fields, h, keyed, setAttr, setText } from "./dom.js";
import { besideTraining, trainedSeconds } from "./durations.js";
import {
  formatCount, formatDay, formatDuration, formatLoss, formatPercent,
} from "./format.js";
import { STATE_WORDS, hasEnded } from "./header.js";
import { compareLink, runLink } from "./router.js";

export const MAX_COMPARED = 8;

/** Links to all files of a run. */
export function fileLinks(run) {
  const base = `api/v1/runs/${encodeURIComponent(run.run_id)}`;
  // a refusal of Parquet, which not every coordinator can write, is shown in place of kept
  const link = (path, words, download = true) => h("a", { href: `${base}/${path}`, download,
    "data-f": path, "aria-label": `${words} of ${run.name}, ${run.run_id}` }, words);
  return [link("model", "Model"), link("card", "Card"), link("history.json", "JSON"),
    link("history.csv", "CSV"), link("history.parquet", "Parquet", false)];
}

function fits(run, wanted, text) {
  const inState = !wanted || (wanted === "live" ? !hasEnded(run) : run.state === wanted);
  const words = `${run.name} ${run.method} ${run.task} ${run.run_id}`.toLowerCase();
  return inState && text.split(/\s+/).every((word) => words.includes(word));
}

export class RunsPage {
  constructor(host, draw) {
    this.host = host;
    this.picked = new Set();
    byId("runs-state").addEventListener("change", draw);
    byId("runs-text").addEventListener("input", draw);
    this.draw = draw;
  }

  title() {
    return "Runs";
  }

  update({ runs, run }) {
    if (runs === null) return;
    // the stream knows the current run better than the table that was asked for before
    const all = runs.map((row) => (row.run_id === run?.run_id ? run : row));
    const rows = all.filter((row) =>
      fits(row, byId("runs-state").value, byId("runs-text").value.trim().toLowerCase()));
    byId("no-runs").hidden = rows.length > 0;
    setText(byId("no-runs"), all.length ? "No run fits the filter."
      : "Every run will be listed here, with its model.");
    this.host.querySelector(".scroll").hidden = rows.length === 0;
    const shown = rows.length === all.length ? "" : `${rows.length} of `;
    setText(byId("runs-sum"), `${shown}${formatCount(all.length)} ${all.length === 1 ? "run" : "runs"}`);
    keyed(byId("runs"), rows, (x) => x.run_id, (x) => this.create(x), (row, x) => this.row(row, x));
    const ids = all.map((x) => x.run_id).filter((id) => this.picked.has(id));
    const compare = byId("runs-compare");
    setAttr(compare, "href", ids.length > 1 ? compareLink(ids) : null);
    setAttr(compare, "aria-disabled", ids.length > 1 ? null : "true");
    setAttr(compare, "title", ids.length > 1 ? null : "Tick two runs or more");
    setText(compare, ids.length ? `Compare ${ids.length}` : "Compare");
  }

  create(run) {
    const box = h("input", { type: "checkbox", "data-f": "box", "aria-label": `Compare ${run.name}` });
    box.addEventListener("change", () => {
      if (box.checked) this.picked.add(run.run_id);
      else this.picked.delete(run.run_id);
      this.draw();
    });
    return h(
      "tr",
      {},
      h("td", {}, box),
      h("th", { scope: "row" }, h("a", { class: "strong", href: runLink(run.run_id), "data-f": "name" }),
        h("span", { class: "muted small block", "data-f": "about" })),
      h("td", {}, h("span", { class: "badge", "data-f": "state" })),
      h("td", { class: "num wide" }, h("span", { "data-f": "rounds" }),
        h("span", { class: "muted small block", "data-f": "complete" })),
      h("td", { class: "num strong", "data-f": "accuracy" }),
      h("td", { class: "num wide", "data-f": "loss" }),
      h("td", { class: "num wide", "data-f": "trained" }),
      h("td", { class: "wide" }, h("time", { "data-f": "created" })),
      h("td", { class: "links wide" }, ...fileLinks(run)),
    );
  }

  row(row, run) {
    const part = fields(row);
    part.box.checked = this.picked.has(run.run_id);
    part.box.disabled = !part.box.checked && this.picked.size >= MAX_COMPARED;
    setText(part.name, run.name);
    setText(part.about, `${run.method} on ${run.task} \u00b7 ${run.run_id}`);
    setText(part.state, STATE_WORDS[run.state] ?? run.state);
    setAttr(part.state, "data-state", run.state);
    setAttr(part.state, "title", run.detail || null);
    setText(part.rounds, `${formatCount(run.rounds_done)} of ${formatCount(run.num_rounds)}`);
    setText(part.complete, run.complete === false ? "not all silos" : "");
    setText(part.accuracy, formatPercent(run.accuracy));
    setText(part.loss, formatLoss(run.loss));
    setText(part.trained, formatDuration(trainedSeconds(run)));
    setAttr(part.trained, "title", besideTraining(run) || null);
    setText(part.created, formatDay(run.created_at));
    setAttr(part.created, "datetime", run.created_at);
    part.model.hidden = part.card.hidden = run.rounds_done === 0;
  }
}
