// One round: a row for each silo, a bar for each phase, the slowest on top; below them the coordinator.

import { closedByWords } from "./durations.js";
import { fields, h, keyed, setAttr, setText } from "./dom.js";
import { NONE, formatSeconds } from "./format.js";
import { siloLink } from "./router.js";
import { niceStep } from "./charts/scale.js";
import { PARTS, WORDS, bySpeed, partsOf, partsWords, remarks, stretches } from "./times.js";

const NUM_FIRST = 16;
const COLUMNS = PARTS.slice(0, 5);

/** What the coordinator itself did: [{part, from, to}]. */
function coordinatorStretches(times) {
  const { span_s: span, commit_s: commit, fold_s: fold, pauses = [] } = times;
  return [
    ...(commit > 0 ? [{ part: "commit", from: 0, to: Math.min(commit, span) }] : []),
    ...pauses.map(([from, to]) => ({ part: "paused", from, to })),
    ...(fold > 0 ? [{ part: "fold", from: Math.max(0, span - fold), to: span }] : []),
  ];
}

function coordinatorWords({ span_s: span, commit_s: commit, fold_s: fold, paused_s: paused,
  stalled_s: stalled, collect_s: collect }) {
  const told = [
    [collect, "the last update that counts was in after"], [commit, "committing the round before took"],
    [fold, "folding took"], [paused || null, "the admin held it for"],
    [stalled || null, "it was known to be stalled for"],
  ];
  const words = told.filter(([x]) => x != null).map(([x, text]) => `${text} ${formatSeconds(x)}`);
  return [`${formatSeconds(span)} in all`, ...words].join("; ");
}

/** A bar of stretches, in percent of the round; `unfinished`: which part was cut. */
function drawBar(bar, stretched, span, unfinished = null) {
  const share = (x) => `${((100 * x) / (span || 1)).toFixed(3)}%`;
  keyed(bar, stretched.map((x, i) => ({ ...x, i })), (x) => x.i, () => h("i", {}), (piece, x) => {
    setAttr(piece, "class", `part part-${x.part}`);
    setAttr(piece, "data-cut", x.part === unfinished ? "" : null);
    piece.style.left = share(x.from);
    piece.style.width = share(x.to - x.from);
  });
}

export class Timeline {
  /** `onPick(round_index)` is told which round is asked for. */
  constructor(onPick) {
    this.onPick = onPick;
    this.all = false;
    this.number = h("input", { type: "number", min: 1, step: 1, "aria-label": "Round" });
    this.number.addEventListener("change", () => this.ask(Number(this.number.value) - 1));
    const step = (by, words, sign) => {
      const button = h("button", { type: "button", class: "quiet", "aria-label": words }, sign);
      button.addEventListener("click", () => this.step(by));
      return button;
    };
    this.said = h("p", { class: "breaks", role: "status" });
    this.own = h("p", { class: "muted small breaks" });
    this.axis = h("div", { class: "time-axis", "aria-hidden": "true" });
    this.rows = h("tbody", {});
    this.bar = h("div", { class: "time-bar", role: "img" });
    this.more = h("button", { type: "button", class: "quiet", hidden: true });
    this.more.addEventListener("click", () => {
      this.all = !this.all;
      this.draw();
    });
    this.node = h("div", { class: "timeline" },
      h("div", { class: "row head wrap" }, h("h3", {}, "One round"), h("span", { class: "actions" },
        step(-1, "The round before", "\u2039"), this.number, step(1, "The next round", "\u203a"))),
      this.said,
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Timeline of one round" },
        h("table", { class: "times" },
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Silo, slowest first"),
            h("th", { scope: "col", class: "time-cell" }, h("span", { class: "only-read" }, "Phases"),
              this.axis),
            ...COLUMNS.map((name) => h("th", { scope: "col", class: "num wide" }, WORDS[name])))),
          this.rows,
          h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, "Coordinator"),
            h("td", { class: "time-cell" }, this.bar),
            h("td", { class: "wide", colspan: COLUMNS.length }))))),
      this.more,
      h("ul", { class: "time-legend small" }, ...[["commit", "committing the round before"],
        ["fold", "folding the updates"], ["paused", "held by the admin"]].map(([part, words]) =>
        h("li", {}, h("i", { class: `swatch-box part-${part}` }), words)),
      h("li", {}, h("i", { class: "swatch-box part-train", "data-cut": "" }), "not finished")),
      this.own);
  }

  /** Show one of the rounds that have times. */
  update(rounds, index) {
    this.rounds = rounds;
    this.record = rounds.find((x) => x.round_index === index) ?? rounds.at(-1);
    this.draw();
  }

  ask(index) {
    const nearest = this.rounds?.findLast((x) => x.round_index <= index) ?? this.rounds?.[0];
    if (nearest) this.onPick(nearest.round_index);
  }

  step(by) {
    const at = this.rounds.indexOf(this.record) + by;
    if (this.rounds[at]) this.onPick(this.rounds[at].round_index);
  }

  draw() {
    const { record } = this;
    if (!record) return;
    const { times } = record;
    const span = times.span_s;
    const number = record.round_index + 1;
    if (document.activeElement !== this.number) this.number.value = number;
    setAttr(this.number, "max", this.rounds.at(-1).round_index + 1);
    const began = times.interrupted
      ? " The coordinator was started again within it: times count from then." : "";
    setText(this.said, `Round ${number} took ${formatSeconds(record.duration_s)}. Closed by `
      + `${closedByWords(record)}.${began}`);
    setText(this.own, `Coordinator: ${coordinatorWords(times)}.`);
    this.drawAxis(span);
    const silos = bySpeed(record);
    const shown = this.all ? silos : silos.slice(0, NUM_FIRST);
    this.more.hidden = silos.length <= NUM_FIRST;
    setText(this.more, this.all ? `Show the ${NUM_FIRST} slowest` : `Show all ${silos.length} silos`);
    keyed(this.rows, shown, (x) => x.id, (x) => this.create(x), (row, x) => this.drawRow(row, x));
    drawBar(this.bar, coordinatorStretches(times), span);
    setAttr(this.bar, "aria-label", `Coordinator: ${coordinatorWords(times)}`);
  }

  drawAxis(span) {
    const step = niceStep(span || 1, 5);
    const marks = Array.from({ length: Math.floor(span / step + 1e-9) + 1 }, (_, i) => i * step);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    this.node.style.setProperty("--time-step", `${(100 * step) / (span || 1)}%`);
    keyed(this.axis, marks, (x) => x, () => h("span", {}), (mark, x) => {
      mark.style.left = `${(100 * x) / (span || 1)}%`;
      setText(mark, `${x.toFixed(digits)} s`);
    });
  }

  create({ id }) {
    return h("tr", {}, h("th", { scope: "row" }, h("a", { href: siloLink(id) }, id),
      h("span", { class: "muted small block breaks", "data-f": "note" })),
    h("td", { class: "time-cell" }, h("div", { class: "time-bar", role: "img", "data-f": "bar" })),
    ...COLUMNS.map((name) => h("td", { class: "num wide", "data-f": name })));
  }

  drawRow(row, { id, times }) {
    const { record } = this;
    const part = fields(row);
    const span = record.times.span_s;
    const parts = partsOf(times, span);
    const closed = record.closed_by === "silo" && record.closed_by_silo === id;
    const out = record.left_out[id] == null ? "" : `left out: ${record.left_out[id]}`;
    const note = [closed ? "closed the round" : "", out, remarks(times)].filter(Boolean).join("; ");
    setAttr(row, "data-closer", closed ? "" : null);
    setText(part.note, note);
    drawBar(part.bar, stretches(times, span), span, times.unfinished);
    setAttr(part.bar, "aria-label", `${id}: ${partsWords(parts)}`);
    setAttr(part.bar, "title", partsWords(parts));
    for (const name of COLUMNS) {
      setText(part[name], times[`${name}_s`] == null ? NONE : formatSeconds(parts[name]));
    }
  }
}
