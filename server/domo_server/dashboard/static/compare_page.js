// Runs side by side: curves over one another, results, and settings with what differs marked.

import { bestWords } from "./charts/best.js";
import { Board } from "./charts/board.js";
import { formatTest, specsOf } from "./charts/specs.js";
import { h, keyed, setAttr, setText } from "./dom.js";
import { totalSeconds, trainedSeconds, waitedSeconds } from "./durations.js";
import { NONE, formatDuration } from "./format.js";
import { STATE_WORDS } from "./header.js";
import { historyOf } from "./history.js";
import { compareLink, comparedRuns, runLink } from "./router.js";
import { MAX_COMPARED } from "./runs_page.js";
import { asMeant, comparedKeys, showSetting } from "./settings.js";

const RESULTS = [
  ["state", (run) => STATE_WORDS[run.state] ?? run.state],
  ["rounds", (run) => `${run.rounds_done} of ${run.num_rounds}`],
  ["best", (run) => bestWords(run) || NONE],
  ["trained for", (run) => formatDuration(trainedSeconds(run))],
  ["waited for silos", (run) => formatDuration(waitedSeconds(run))],
  ["time in all", (run) => formatDuration(totalSeconds(run))],
];

/** A row for each test that one of the runs has, as the newest model did in it. */
function testRows(entries) {
  const names = specsOf(entries).tests.map(({ metric }) => metric);
  const newest = entries.map(({ history }) => history.detail?.metrics.at(-1)?.metrics ?? {});
  return names.map((name) => ({ key: `test ${name}`,
    cells: newest.map((metrics) => formatTest(name, metrics[name])) }));
}

/** Two runs of one name are told apart by their id. */
function namesOf(runs) {
  const names = runs.map((run) => run.name);
  return runs.map((run, i) => (names.indexOf(run.name) !== i || names.lastIndexOf(run.name) !== i
    ? run.run_id : run.name));
}

export class ComparePage {
  constructor(host, draw) {
    this.host = host;
    this.draw = draw;
    const charts = h("div", {});
    this.chips = h("ul", { class: "chips", "aria-label": "Runs compared" });
    this.add = h("select", { "aria-label": "Add a run" });
    this.add.addEventListener("change", () => {
      if (this.add.value) location.hash = compareLink([...this.ids, this.add.value], this.board.query);
    });
    this.only = h("input", { type: "checkbox", id: "only-differing", checked: true });
    this.only.addEventListener("change", draw);
    this.none = h("p", { class: "empty" },
      "Pick two runs or more, here or with the ticks in the table of runs.");
    this.head = h("tr", {});
    this.rows = h("tbody", { id: "compared" });
    this.results = h("section", { class: "panel", "aria-label": "Settings" },
      h("div", { class: "row head wrap" }, h("h2", {}, "Results and settings"),
        h("label", { class: "small" }, this.only, " Only settings that differ")),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Settings side by side" },
        h("table", { class: "compared" }, h("thead", {}, this.head), this.rows)));
    this.curves = h("section", { class: "panel", "aria-label": "Curves" },
      h("div", { class: "row head wrap" }, h("h2", {}, "Curves"),
        h("p", { class: "muted small" }, "training loss and update norm: means over silos")), charts);
    host.append(
      h("section", { class: "panel", "aria-label": "Choice of runs" },
        h("div", { class: "row head wrap" }, h("h1", {}, "Compare runs"), this.add),
        this.none, this.chips),
      this.curves,
      this.results,
    );
    this.board = new Board(charts);
  }

  title() {
    return "Compare runs";
  }

  recolour() {
    this.board.recolour();
  }

  update({ runs, run: live }, route) {
    if (runs === null) return;
    const all = runs.map((row) => (row.run_id === live?.run_id ? live : row));
    const wanted = comparedRuns(route).slice(0, MAX_COMPARED);
    const shown = wanted.map((id) => all.find((x) => x.run_id === id)).filter(Boolean);
    this.ids = shown.map((run) => run.run_id);
    const names = namesOf(shown);
    const entries = shown.map((run, i) =>
      ({ run, name: names[i], history: historyOf(run, live, this.draw, false) }));
    this.none.hidden = shown.length > 1;
    this.curves.hidden = this.results.hidden = shown.length === 0;
    this.drawChoice(all, shown, names);
    if (!shown.length) return;
    this.board.showRuns(entries, route.query);
    this.drawTable(entries);
  }

  drawChoice(all, shown, names) {
    keyed(this.chips, shown, (x) => x.run_id, (run) => {
      const button = h("button", { type: "button", "aria-label": `Remove ${run.name}` }, "\u00d7");
      button.addEventListener("click", () => {
        location.hash = compareLink(this.ids.filter((id) => id !== run.run_id), this.board.query);
      });
      return h("li", {}, h("i", {}), h("a", { href: runLink(run.run_id) }),
        h("span", { class: "muted small" }), button);
    }, (item, run) => {
      const [swatch, link, about] = item.children;
      setAttr(swatch, "class", `swatch s${shown.indexOf(run) + 1}`);
      setText(link, names[shown.indexOf(run)]);
      setText(about, `${run.method} on ${run.task}`);
    });
    const others = all.filter((run) => !this.ids.includes(run.run_id));
    const items = [{ run_id: "", name: "Add a run" }, ...others];
    keyed(this.add, items, (x) => x.run_id, (x) => h("option", { value: x.run_id }), (option, x) =>
      setText(option, x.run_id ? `${x.name} \u00b7 ${x.method} \u00b7 ${x.run_id}` : x.name));
    this.add.disabled = !others.length || shown.length >= MAX_COMPARED;
    if (this.ids.includes(this.add.value)) this.add.value = "";
  }

  drawTable(entries) {
    const configs = entries.map(({ history }) => (
      history.detail ? asMeant(history.detail.config, this.draw) : {}));
    const results = RESULTS.map(([key, of]) => ({ key, cells: entries.map(({ run }) => of(run)) }));
    const settings = comparedKeys(configs)
      .filter((row) => row.differs || !this.only.checked)
      .map(({ key, differs }) =>
        ({ key, differs, cells: configs.map((config) => showSetting(config[key])) }));
    keyed(this.head, ["", ...entries.map(({ name }) => name)], (x) => x,
      () => h("th", { scope: "col" }), (cell, name) => setText(cell, name));
    const create = () => h("tr", {}, h("th", { scope: "row" }));
    keyed(this.rows, [...results, ...testRows(entries), ...settings], (row) => row.key, create, (node, row) => {
      setText(node.firstChild, row.key);
      setAttr(node, "class", row.differs ? "differs" : null);
      while (node.children.length > row.cells.length + 1) node.lastChild.remove();
      while (node.children.length < row.cells.length + 1) node.append(h("td", {}));
      row.cells.forEach((text, i) => setText(node.children[i + 1], text));
    });
  }
}
