// All runs: sort, filter, pick some to compare, take their files home, change what is said of them.
// How they are sorted and filtered is in the address.

import { byId, changed, fields, h, keyed, setAttr, setText } from "./dom.js";
import { editRun } from "./edit_run.js";
import { formatCount } from "./format.js";
import { compareLink, runLink } from "./router.js";
import { COLUMNS, NEWEST, cells, drawRow, fits, isOrder, sorted } from "./runs_table.js";

export const MAX_COMPARED = 8;
const FILES = new Set(["model", "history.csv"]); // a run's page has all
const CHOICES = ["text", "state", "method", "task", "tag"];

/** Links to all files of a run. */
export function fileLinks(run) {
  const base = `api/v1/runs/${encodeURIComponent(run.run_id)}`;
  // a refusal of Parquet, which not every coordinator can write, is shown in place of kept
  const link = (path, words, download = true) => h("a", { href: `${base}/${path}`, download,
    "data-f": path, "aria-label": `${words} of ${run.name}, ${run.run_id}` }, words);
  const model = link("model", "Model");
  model.classList.add("auditor-only");
  return [model, link("card", "Card"), link("history.json", "JSON"),
    link("history.csv", "CSV"), link("history.parquet", "Parquet", false)];
}

export class RunsPage {
  constructor(host, draw) {
    this.host = host;
    this.draw = draw;
    this.picked = new Set();
    this.order = NEWEST;
    const choose = () => {
      this.keepAddress();
      draw();
    };
    for (const name of CHOICES) {
      byId(`runs-${name}`).addEventListener(name === "text" ? "input" : "change", choose);
    }
    byId("runs-archived").addEventListener("change", choose);
    byId("runs-order").addEventListener("change", (event) => this.sort(event.target.value));
    byId("runs-order").append(...COLUMNS.flatMap(({ key, words }) => [
      h("option", { value: key }, `${words}, rising`), h("option", { value: `-${key}` }, `${words}, falling`),
    ]));
    byId("runs-clear").addEventListener("click", () => (location.hash = "#/runs"));
    this.heads = COLUMNS.map((column) => {
      const button = h("button", { type: "button", class: "sort" }, column.words);
      button.addEventListener("click", () => {
        const [one, other] = column.first ? [`-${column.key}`, column.key] : [column.key, `-${column.key}`];
        this.sort(this.order === one ? other : one);
      });
      return h("th", { scope: "col", class: column.look ?? null }, button);
    });
    byId("runs-head").append(h("th", { scope: "col" }, h("span", { class: "only-read" }, "Compare")),
      ...this.heads, h("th", { scope: "col", class: "files" }, "Files"),
      h("th", { scope: "col", class: "admin-only wide" }, h("span", { class: "only-read" }, "Change")));
  }

  title() {
    return "Runs";
  }

  enter(route) {
    this.readAddress(route);
  }

  /** What the address says, in the fields. */
  readAddress({ query }) {
    for (const name of CHOICES) this.put(name, query.get(name) ?? "");
    byId("runs-archived").checked = query.get("archived") === "yes";
    const order = query.get("sort") ?? NEWEST;
    this.order = isOrder(order) ? order : NEWEST;
  }

  /** A value that no run has is a choice too: the address says so. */
  put(name, value) {
    const field = byId(`runs-${name}`);
    if (field.tagName === "SELECT" && ![...field.options].some((option) => option.value === value)) {
      field.append(h("option", { value, "data-key": value }, value || "all"));
    }
    field.value = value;
  }

  sort(order) {
    this.order = order;
    this.keepAddress();
    this.draw();
  }

  choice() {
    const given = CHOICES.map((name) => [name, byId(`runs-${name}`).value.trim()]);
    return { ...Object.fromEntries(given), archived: byId("runs-archived").checked };
  }

  /** The address of what is shown; typing does not fill the history. */
  keepAddress() {
    const { archived, ...given } = this.choice();
    const query = new URLSearchParams(Object.entries(given).filter(([, value]) => value));
    if (archived) query.set("archived", "yes");
    if (this.order !== NEWEST) query.set("sort", this.order);
    history.replaceState(null, "", `#/runs${query.size ? `?${query}` : ""}`);
  }

  /** The methods, tasks and tags that there are. */
  offer(all) {
    if (!changed(this, all)) return;
    const values = { method: all.map((run) => run.method), task: all.map((run) => run.task),
      tag: all.flatMap((run) => run.tags) };
    for (const [name, found] of Object.entries(values)) {
      const field = byId(`runs-${name}`);
      const chosen = field.value;
      const words = [...new Set([...found, ...(chosen ? [chosen] : [])])].sort();
      keyed(field, ["", ...words], (word) => word, (word) =>
        h("option", { value: word }, word || "all"), () => {});
      field.value = chosen;
    }
  }

  update({ runs, run }) {
    if (runs === null) return;
    this.offer(runs);
    // the stream knows the current run better than the table that was asked for before
    const all = runs.map((row) => (row.run_id === run?.run_id ? run : row));
    const choice = this.choice();
    const rows = sorted(all.filter((row) => fits(row, choice)), this.order);
    const numHidden = choice.archived ? 0 : all.filter((row) => row.archived).length;
    byId("no-runs").hidden = rows.length > 0;
    setText(byId("no-runs"), all.length ? "No run fits the filter."
      : "Every run will be listed here, with its model.");
    this.host.querySelector(".scroll").hidden = rows.length === 0;
    const shown = rows.length === all.length ? "" : `${rows.length} of `;
    const archived = numHidden ? `; ${formatCount(numHidden)} archived` : "";
    setText(byId("runs-sum"),
      `${shown}${formatCount(all.length)} ${all.length === 1 ? "run" : "runs"}${archived}`);
    byId("runs-clear").hidden = !(CHOICES.some((name) => choice[name]) || this.order !== NEWEST);
    COLUMNS.forEach(({ key }, i) => setAttr(this.heads[i], "aria-sort", this.order === key
      ? "ascending" : this.order === `-${key}` ? "descending" : null));
    byId("runs-order").value = this.order;
    this.byId = new Map(all.map((row) => [row.run_id, row]));
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
    const edit = h("button", { type: "button", class: "quiet", "data-f": "edit",
      "aria-label": `Edit tags and notes of ${run.name}` }, "Edit");
    edit.addEventListener("click", () => editRun(this.byId.get(run.run_id)));
    return h("tr", {}, h("td", {}, box), ...cells(),
      h("td", { class: "links files" }, ...fileLinks(run).filter((link) => FILES.has(link.dataset.f))),
      h("td", { class: "admin-only wide" }, edit));
  }

  row(row, run) {
    const part = fields(row);
    part.box.checked = this.picked.has(run.run_id);
    part.box.disabled = !part.box.checked && this.picked.size >= MAX_COMPARED;
    setAttr(part.name, "href", runLink(run.run_id));
    drawRow(part, run, (tag) => {
      this.put("tag", tag);
      this.keepAddress();
      this.draw();
    });
    setAttr(row, "class", run.stalled ? "stalled" : run.archived ? "archived" : null);
    part.model.hidden = run.rounds_done === 0;
  }
}
