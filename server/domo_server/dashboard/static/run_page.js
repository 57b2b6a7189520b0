// One run: what can be done with it, its curves, settings and rounds.

import { RunButtons } from "./actions.js";
import { renderBest } from "./charts/best.js";
import { Board } from "./charts/board.js";
import { formatTest, mainTest } from "./charts/specs.js";
import { Tables } from "./charts/tables.js";
import { fields, h, keyed, setAttr, setText } from "./dom.js";
import { closedByWords } from "./durations.js";
import { editRun, renderTags } from "./edit_run.js";
import { formatClock, formatLoss, formatNumber, formatSeconds } from "./format.js";
import { STATE_WORDS, aboutWords, roundWords, timeLeft } from "./header.js";
import { historyOf, showsChange } from "./history.js";
import { newLink } from "./router.js";
import { fileLinks } from "./runs_page.js";
import { settingRows } from "./settings.js";
import { TimesPanel } from "./times_panel.js";

const NUM_ROUNDS_SHOWN = 200;

export class RunPage {
  constructor(host, draw) {
    this.host = host;
    this.draw = draw;
    this.runId = null;
    this.missing = h("p", { class: "panel empty", hidden: true });
    this.body = h("div", { class: "view" });
    host.append(this.missing, this.body);
  }

  title({ runs }, { id }) {
    return runs?.find((x) => x.run_id === id)?.name ?? "Run";
  }

  recolour() {
    this.board?.recolour();
    this.times?.recolour();
  }

  /** The page of another run is made anew. */
  make(run) {
    this.runId = run.run_id;
    this.part = {};
    const f = (name, tag = "span", attributes = {}) =>
      (this.part[name] = h(tag, attributes));
    const charts = h("div", {});
    this.times = new TimesPanel();
    const actions = h("span", { class: "actions" });
    this.tables = new Tables(this.draw);
    const files = h("p", { class: "links" }, ...fileLinks(run));
    [this.part.model, this.part.card] = files.children;
    this.body.replaceChildren(
      h("section", { class: "panel", "aria-label": "Run" },
        h("div", { class: "hero-title" }, f("name", "h1"), f("stalled", "span",
          { class: "badge", "data-state": "STALLED", hidden: true }), f("state", "span", { class: "badge" }),
          h("span", { class: "grow" }), actions),
        f("about", "p", { class: "muted" }),
        f("meaning", "p", { class: "muted breaks" }),
        f("tags", "ul", { class: "tags", "aria-label": "Tags", hidden: true }),
        f("notes", "p", { class: "notes", hidden: true }),
        h("div", { class: "row wrap" }, f("round", "span", { class: "strong" }),
          f("left", "span", { class: "muted" })),
        f("progress", "progress", { max: 1, value: 0, "aria-label": "Rounds done" }),
        f("detail", "p", { class: "breaks", role: "status" }),
        f("best", "p", { class: "best-line", hidden: true }),
        h("div", { class: "row wrap" }, files,
          h("span", { class: "row admin-only" }, f("edit", "button", { type: "button", class: "quiet" }),
            f("again", "a", {})))),
      h("section", { class: "panel", "aria-label": "Curves" },
        h("div", { class: "row head" }, h("h2", {}, "Curves")), charts),
      this.tables.node,
      this.times.node,
      h("section", { class: "panel", "aria-label": "Settings" },
        h("div", { class: "row head" }, h("h2", {}, "Settings"),
          h("p", { class: "muted small" }, "those that differ from the defaults are bold")),
        f("settings", "dl", { class: "settings" })),
      h("section", { class: "panel", "aria-label": "Rounds" },
        h("div", { class: "row head" }, h("h2", {}, "Rounds"), f("sum", "p", { class: "muted small" })),
        f("none", "p", { class: "empty" }, ),
        h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Table of rounds" },
          h("table", {}, h("thead", {}, h("tr", {},
            ...["Round", "Committed", "Took", "Silos", "Train loss", null, "Closed by", "Left out"]
              .map((x, i) => (x === null ? f("tested", "th", { scope: "col", class: "num" })
                : h("th", { scope: "col", class: i > 1 && i < 5 ? "num" : "" }, x))))),
          f("rounds", "tbody")))),
    );
    setText(this.part.none, "No round is committed yet.");
    setText(this.part.stalled, "Stalled");
    setText(this.part.edit, "Edit tags and notes");
    this.part.edit.addEventListener("click", () => editRun(this.run));
    setText(this.part.again, "Start again with these settings");
    setAttr(this.part.again, "href", newLink(run.run_id));
    this.board = new Board(charts);
    this.buttons = new RunButtons(actions);
  }

  update(state, { id, query }) {
    const { runs, run: live } = state;
    const run = live?.run_id === id ? live : runs?.find((x) => x.run_id === id);
    this.missing.hidden = Boolean(run) || runs === null;
    setText(this.missing, `There is no run ${id}.`);
    this.body.hidden = !run;
    if (!run) return;
    if (this.runId !== id) this.make(run);
    const history = historyOf(run, live, this.draw);
    const { part } = this;
    const elapsed = (performance.now() - state.receivedAt) / 1000;
    setText(part.name, run.name);
    setText(part.state, STATE_WORDS[run.state] ?? run.state);
    setAttr(part.state, "data-state", run.state);
    this.run = run;
    part.stalled.hidden = !run.stalled;
    setAttr(part.stalled, "title", run.stalled);
    renderTags(part.tags, run.tags);
    part.notes.hidden = !run.notes && !run.archived;
    setText(part.notes, [run.archived ? "Archived." : "", run.notes].filter(Boolean).join("\n"));
    setText(part.about, aboutWords({ num_params: history.detail?.num_params, ...run }));
    setText(part.meaning, (run.meaning ?? history.detail?.meaning ?? []).join("; "));
    setText(part.round, roundWords(run));
    setText(part.left, timeLeft(run, elapsed, state.status.silos));
    part.progress.value = run.num_rounds ? run.rounds_done / run.num_rounds : 0;
    setText(part.detail, run.detail || "\u00a0");
    renderBest(part.best, run);
    this.tables.update(run);
    part.model.hidden = part.card.hidden = run.rounds_done === 0;
    this.buttons.update(run, state.isAdmin);
    if (history.detail) settingRows(part.settings, history.detail.config, this.draw);
    if (!showsChange(this.board, run, history, query)) return;
    this.board.showRun(run, history, history.detail?.roster ?? [], query);
    this.times.update(history.rounds);
    this.rounds(history, mainTest(run));
  }

  rounds({ rounds, detail }, { metric, title }) {
    const { part } = this;
    setText(part.tested, title);
    const tests = new Map((detail?.metrics ?? []).map((m) => [m.model_index, m.metrics]));
    const newest = rounds.toReversed().slice(0, NUM_ROUNDS_SHOWN);
    part.none.hidden = rounds.length > 0;
    part.rounds.closest(".scroll").hidden = rounds.length === 0;
    const total = (newest[0]?.round_index ?? -1) + 1;
    setText(part.sum, total > newest.length
      ? `the newest ${newest.length} of ${total}; the files have all` : "newest first");
    const cell = (name, look) => h("td", { "data-f": name, class: look });
    const create = () => h("tr", {}, h("th", { scope: "row", "data-f": "index" }), cell("at"),
      cell("took", "num"), cell("silos", "num"), cell("loss", "num"), cell("test", "num"),
      cell("closed", "breaks"), cell("out", "breaks"));
    keyed(part.rounds, newest, (x) => x.round_index, create, (row, round) => {
      const to = fields(row);
      const norms = round.participants.map((p) => `${p.silo_id}: update norm ${formatNumber(p.update_norm)}`);
      setText(to.index, String(round.round_index + 1));
      setText(to.at, round.state === "COMMITTED" ? formatClock(round.closed_at) : "closing");
      setText(to.took, formatSeconds(round.duration_s));
      setText(to.silos, String(round.participants.length));
      setAttr(to.silos, "title", norms.join("\n"));
      setText(to.loss, formatLoss(round.train_loss));
      setText(to.test, formatTest(metric, tests.get(round.round_index + 1)?.[metric]));
      setText(to.closed, closedByWords(round));
      setText(to.out, Object.entries(round.left_out).map(([id, why]) => `${id}: ${why}`).join("; "));
    });
  }
}
