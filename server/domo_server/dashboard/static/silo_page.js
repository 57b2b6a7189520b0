// One silo: what it is, what it does, its part in the rounds, what was refused or failed.

import { askSilo } from "./actions.js";
import { fields, getJson, h, keyed, setAttr, setText } from "./dom.js";
import { isProblem, renderList } from "./events.js";
import {
  NONE, formatAgo, formatBytes, formatCount, formatLoss, formatNumber, formatSpeed,
} from "./format.js";
import { runLink } from "./router.js";
import { phaseTime } from "./silos.js";

const AGAIN_MS = 2000;

const FACTS = [
  ["Phase", (silo, elapsed) => `${silo.phase} ${phaseTime(silo, elapsed)}`],
  ["Last heard of", (silo, elapsed) =>
    formatAgo(silo.last_seen_s == null ? null : silo.last_seen_s + elapsed)],
  ["Step of the round", (silo) =>
    silo.num_steps ? `${formatCount(silo.step)} of ${formatCount(silo.num_steps)}` : NONE],
  ["Training loss now", (silo) => formatLoss(silo.loss)],
  ["Role", (silo) => (silo.role === "evaluator" ? "evaluator: tests only" : "trainer")],
  ["Device", (silo) => silo.device || NONE],
  ["Version", (silo) => silo.software_version || NONE],
  ["Training samples", (silo) => formatCount(silo.num_samples)],
  ["Test samples", (silo) => formatCount(silo.num_eval_samples)],
  ["Received", (silo) => `${formatBytes(silo.bytes_received)} (${formatSpeed(silo.received_per_s)})`],
  ["Sent", (silo) => `${formatBytes(silo.bytes_sent)} (${formatSpeed(silo.sent_per_s)})`],
];

export class SiloPage {
  constructor(host, draw) {
    this.host = host;
    this.draw = draw;
    this.detail = null;
    const f = (name, tag, attributes = {}, ...children) =>
      (this[name] = h(tag, attributes, ...children));
    f("missing", "p", { class: "panel empty", hidden: true });
    f("body", "div", { class: "view" },
      h("section", { class: "panel", "aria-label": "Silo" },
        h("p", { class: "eyebrow" }, "Silo"),
        h("div", { class: "hero-title" }, f("name", "h1"), f("phase", "span", { class: "badge" }),
          h("span", { class: "grow" }), f("act", "button", { type: "button", class: "admin-only" })),
        f("dropped", "p", { class: "note", hidden: true }),
        f("error", "p", { class: "error", hidden: true }),
        f("said", "p", { class: "only-read", "aria-live": "polite" }),
        f("facts", "dl", { class: "settings" })),
      h("section", { class: "panel", "aria-label": "Rounds" },
        h("div", { class: "row head wrap" }, h("h2", {}, "Rounds"),
          f("sum", "p", { class: "muted small" })),
        f("noRounds", "p", { class: "empty" }, "It has had no part in a round of this run yet."),
        f("table", "div", { class: "scroll tall", tabindex: 0, role: "region",
          "aria-label": "Table of rounds" },
          h("table", {}, h("thead", {}, h("tr", {},
            ...["Round", "In or out", "Steps", "Update norm", "Train loss"].map((x, i) =>
              h("th", { scope: "col", class: i > 1 ? "num" : "" }, x)))),
            f("rounds", "tbody")))),
      h("section", { class: "panel", "aria-label": "Refusals, failures, warnings" },
        h("div", { class: "row head" }, h("h2", {}, "Refusals, failures, warnings")),
        f("noProblems", "p", { class: "empty" }, "None among its last 50 events."),
        f("problems", "ol", { class: "events", tabindex: 0, "aria-label": "Problems, newest first" })),
      h("section", { class: "panel", "aria-label": "Events" },
        h("div", { class: "row head" }, h("h2", {}, "Last events")),
        f("noEvents", "p", { class: "empty" }, "Nothing has happened yet."),
        f("events", "ol", { class: "events", tabindex: 0, "aria-label": "Events, newest first" })),
    );
    host.append(this.missing, this.body);
    this.act.addEventListener("click", () => askSilo(this.silo));
  }

  title(_, { id }) {
    return id;
  }

  enter() {
    this.stamp = null;
    this.detail = null;
  }

  update(state, { id }) {
    const silo = state.status.silos.find((x) => x.silo_id === id);
    this.missing.hidden = Boolean(silo);
    this.body.hidden = !silo;
    setText(this.missing, `No silo named ${id} has ever joined.`);
    if (!silo) return;
    this.silo = silo;
    const elapsed = (performance.now() - state.receivedAt) / 1000;
    const newest = state.events.find((event) => event.silo_id === id)?.event_id;
    this.fetch(id, `${id} ${newest} ${state.run?.run_id} ${state.run?.rounds_done}`);
    const isOut = silo.dropped != null;
    const phase = isOut ? "dropped" : silo.phase;
    setText(this.name, id);
    setText(this.phase, phase);
    setAttr(this.phase, "data-phase", phase);
    setText(this.said, `${id}: ${phase}`);
    setText(this.act, isOut ? "Re-admit" : "Drop");
    setAttr(this.act, "aria-label", `${isOut ? "Re-admit" : "Drop"} ${id}`);
    setAttr(this.act, "class", `admin-only ${isOut ? "primary" : "quiet danger"}`);
    this.dropped.hidden = !isOut;
    setText(this.dropped, `Left out by the admin: ${silo.dropped}`);
    this.error.hidden = !silo.error;
    setText(this.error, silo.error ?? "");
    const create = ([words]) => h("div", {}, h("dt", {}, words), h("dd", {}));
    keyed(this.facts, FACTS, ([words]) => words, create, (row, [, of]) =>
      setText(row.lastChild, of(silo, elapsed)));
    if (this.detail?.silo_id === id) this.drawDetail(this.detail);
  }

  async fetch(id, stamp) {
    if (this.stamp === stamp) return;
    this.stamp = stamp;
    try {
      this.detail = await getJson(`api/v1/silos/${encodeURIComponent(id)}`);
      this.draw();
    } catch {
      setTimeout(() => (this.stamp = null), AGAIN_MS);
    }
  }

  drawDetail({ rounds, rounds_run_id: runId, events }) {
    const inside = rounds.filter((round) => round.took_part).length;
    this.noRounds.hidden = rounds.length > 0;
    this.table.hidden = rounds.length === 0;
    this.sum.replaceChildren(...(runId ? ["of run ", h("a", { href: runLink(runId) }, runId),
      `: in ${inside}, left out of ${rounds.length - inside}`] : []));
    const cell = (name, look) => h("td", { "data-f": name, class: look });
    const create = () => h("tr", {}, h("th", { scope: "row", "data-f": "index" }), cell("part", "breaks"),
      cell("steps", "num"), cell("norm", "num"), cell("loss", "num"));
    keyed(this.rounds, rounds.toReversed(), (x) => x.round_index, create, (row, round) => {
      const part = fields(row);
      setAttr(row, "class", round.took_part ? null : "out");
      setText(part.index, String(round.round_index + 1));
      setText(part.part, round.took_part ? "in" : `out: ${round.left_out}`);
      setText(part.steps, formatCount(round.num_steps));
      setText(part.norm, formatNumber(round.update_norm));
      setText(part.loss, formatLoss(round.train_loss));
    });
    const newest = events.toReversed();
    const problems = newest.filter(isProblem);
    this.noProblems.hidden = problems.length > 0;
    this.problems.hidden = problems.length === 0;
    this.noEvents.hidden = newest.length > 0;
    renderList(this.problems, problems);
    renderList(this.events, newest);
  }
}
