// The table of runs: its columns, what they sort by, and which runs fit a choice.

import { formatTest, mainTest } from "./charts/specs.js";
import { besideTraining, trainedSeconds } from "./durations.js";
import { renderTags } from "./edit_run.js";
import { h, setAttr, setText } from "./dom.js";
import { formatCount, formatDay, formatDuration, formatLoss } from "./format.js";
import { STATE_WORDS, hasEnded } from "./header.js";

/** What a run is judged by, and its newest value. */
function result(run) {
  const { metric } = mainTest(run);
  return { metric, value: metric === "accuracy" ? run.accuracy : run.latest?.[metric] };
}

/** The columns that sort: {key, words, look, first}; `first` is the way that one click gives. */
export const COLUMNS = [
  { key: "name", words: "Run", of: (run) => run.name.toLowerCase() },
  { key: "method", words: "Method", look: "roomy", of: (run) => run.method.toLowerCase() },
  { key: "task", words: "Task", look: "roomy", of: (run) => run.task.toLowerCase() },
  { key: "state", words: "State", of: (run) => (run.stalled ? " " : STATE_WORDS[run.state] ?? run.state) },
  { key: "rounds", words: "Rounds", look: "num wide", first: "-", of: (run) => run.rounds_done },
  { key: "result", words: "Result", look: "num", first: "-", of: (run) => result(run).value },
  { key: "best", words: "Best", look: "num wide", first: "-", of: (run) => run.best_value },
  { key: "loss", words: "Loss", look: "num wide", of: (run) => run.loss },
  { key: "trained", words: "Trained", look: "num wide", of: (run) => trainedSeconds(run) },
  { key: "created", words: "Created", look: "wide", first: "-", of: (run) => run.created_at },
];
export const NEWEST = "-created";

const byKey = new Map(COLUMNS.map((column) => [column.key, column]));

/** Whether a text names a column and a way, such as -accuracy. */
export const isOrder = (order) => byKey.has(order.replace(/^-/, ""));

/** Runs by a column; what is not known comes last either way, and equals as they were. */
export function sorted(runs, order) {
  const of = byKey.get(order.replace(/^-/, "")).of;
  const sign = order.startsWith("-") ? -1 : 1;
  return runs
    .map((run, i) => ({ run, i, value: of(run) ?? null }))
    .sort((a, b) => {
      if (a.value === b.value) return a.i - b.i;
      if (a.value === null || b.value === null) return a.value === null ? 1 : -1;
      return a.value < b.value ? -sign : sign;
    })
    .map(({ run }) => run);
}

/** Whether a run fits {text, state, method, task, tag, archived}. */
export function fits(run, choice) {
  const { state } = choice;
  const inState = !state || (state === "live" ? !hasEnded(run)
    : state === "stalled" ? Boolean(run.stalled) : run.state === state);
  const words = [run.name, run.method, run.task, run.run_id, run.notes, ...run.tags]
    .join(" ").toLowerCase();
  return inState && (choice.archived || !run.archived)
    && (!choice.method || run.method === choice.method)
    && (!choice.task || run.task === choice.task)
    && (!choice.tag || run.tags.includes(choice.tag))
    && choice.text.toLowerCase().split(/\s+/).every((word) => words.includes(word));
}

/** The cells between the tick and the files of a row. */
export function cells() {
  return [
    h("th", { scope: "row" }, h("a", { class: "strong", "data-f": "name" }),
      h("span", { class: "muted small block" }, h("span", { class: "tight", "data-f": "what" }),
        h("span", { "data-f": "about" })),
      h("ul", { class: "tags", "data-f": "tags", hidden: true }),
      h("span", { class: "muted small said", "data-f": "notes", hidden: true })),
    h("td", { class: "roomy", "data-f": "method" }),
    h("td", { class: "roomy", "data-f": "task" }),
    h("td", {}, h("span", { class: "badge", "data-state": "STALLED", "data-f": "stalled", hidden: true },
      "Stalled"), " ", h("span", { class: "badge", "data-f": "state" }),
    h("span", { class: "muted small block", "data-f": "archived", hidden: true }, "archived")),
    h("td", { class: "num wide" }, h("span", { "data-f": "rounds" }),
      h("span", { class: "muted small block", "data-f": "complete" })),
    h("td", { class: "num" }, h("span", { class: "strong", "data-f": "result" }),
      h("span", { class: "muted small block", "data-f": "metric" })),
    h("td", { class: "num wide" }, h("span", { "data-f": "best" }),
      h("span", { class: "muted small block", "data-f": "when" })),
    h("td", { class: "num wide", "data-f": "loss" }),
    h("td", { class: "num wide", "data-f": "trained" }),
    h("td", { class: "wide" }, h("time", { "data-f": "created" })),
  ];
}

/** Draw a run in its cells; `part` has them by name, `onTag` is what a click on a tag does. */
export function drawRow(part, run, onTag) {
  setText(part.name, run.name);
  setText(part.what, `${run.method} on ${run.task} \u00b7 `);
  setText(part.about, run.run_id);
  renderTags(part.tags, run.tags, onTag);
  part.notes.hidden = !run.notes;
  setText(part.notes, run.notes.split("\n")[0]);
  setAttr(part.notes, "title", run.notes || null);
  setText(part.method, run.method);
  setText(part.task, run.task);
  part.stalled.hidden = !run.stalled;
  setAttr(part.stalled, "title", run.stalled);
  setText(part.state, STATE_WORDS[run.state] ?? run.state);
  setAttr(part.state, "data-state", run.state);
  setAttr(part.state, "title", run.detail || null);
  part.archived.hidden = !run.archived;
  setText(part.rounds, `${formatCount(run.rounds_done)} of ${formatCount(run.num_rounds)}`);
  setText(part.complete, run.complete === false ? "not all silos" : "");
  const { metric, value } = result(run);
  setText(part.result, formatTest(metric, value));
  setText(part.metric, metric === "accuracy" ? "" : metric);
  setText(part.best, formatTest(run.primary_metric, run.best_value));
  setText(part.when, run.best_index == null ? "" : run.best_index ? `round ${run.best_index}` : "at the start");
  setText(part.loss, formatLoss(run.loss));
  setText(part.trained, formatDuration(trainedSeconds(run)));
  setAttr(part.trained, "title", besideTraining(run) || null);
  setText(part.created, formatDay(run.created_at));
  setAttr(part.created, "datetime", run.created_at);
}
