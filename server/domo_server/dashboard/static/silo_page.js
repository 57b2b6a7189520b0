// One silo: what it does, its machine, its part in the rounds, its log, what was refused or failed.

import { askSilo } from "./actions.js";
import { validity } from "./certificate.js";
import { empty, fields, getJson, h, keyed, setAttr, setText } from "./dom.js";
import { isProblem, renderList } from "./events.js";
import {
  NONE, formatAgo, formatBytes, formatCount, formatLoss, formatNumber, formatPercent, formatSpeed,
} from "./format.js";
import { LogTail } from "./log_tail.js";
import { runLink } from "./router.js";
import { phaseTime, phaseWord } from "./silos.js";
import { StackedTimes } from "./stacked_times.js";

const AGAIN_MS = 2000;
const NUM_ROUNDS = 300; // of a longer run the coordinator tells the last ones only

/** A fact is {text}, and perhaps {part}: the share of a bar, {warn}, {href}. */
const text = (of) => (...given) => ({ text: of(...given) });

/** So much of a whole is used: "3.1 of 8.0 GB, 39 %". */
function used(bytes, whole, warnFrom) {
  if (bytes == null || !whole) return { text: bytes == null ? NONE : formatBytes(bytes) };
  const part = bytes / whole;
  return { text: `${formatBytes(bytes)} of ${formatBytes(whole)}`, part, warn: part >= warnFrom };
}

function certificate(silo, { tls }) {
  if (silo.certificate_end) {
    const { words, isSoon } = validity(silo.certificate_end);
    return { text: words, warn: isSoon };
  }
  if (silo.last_seen_s == null && silo.phase === "offline") return { text: NONE };
  return { text: tls ? "none of its own; the coordinator's is checked" : "no TLS" };
}

const NOW = [
  ["Phase", text((silo, _, elapsed) => `${silo.dropped == null ? phaseWord(silo) : silo.phase} ${phaseTime(silo, elapsed)}`)],
  ["At", text((silo) => silo.doing ?? NONE)],
  ["Run", (silo) => (silo.run_id ? { text: silo.run_id, href: runLink(silo.run_id) } : { text: NONE })],
  ["Round", text((silo) => (silo.round_index == null ? NONE : formatCount(silo.round_index + 1)))],
  ["Step of the round", (silo) => (silo.num_steps
    ? { text: `${formatCount(silo.step)} of ${formatCount(silo.num_steps)}`,
      part: silo.step / silo.num_steps } : { text: NONE })],
  ["Training loss now", text((silo) => formatLoss(silo.loss))],
  ["Last heard of", text((silo, _, elapsed) => {
    const ago = formatAgo(silo.last_seen_s == null ? null : silo.last_seen_s + elapsed);
    return silo.away ? `${ago}; ${silo.away}` : ago;
  })],
  ["Received", text((silo) =>
    `${formatBytes(silo.bytes_received)}, ${formatSpeed(silo.received_per_s)}`)],
  ["Sent", text((silo) => `${formatBytes(silo.bytes_sent)}, ${formatSpeed(silo.sent_per_s)}`)],
];

const MACHINE = [
  ["Training data", text((silo) => samples(silo.num_samples))],
  ["Test data", text((silo) => samples(silo.num_eval_samples))],
  ["Device", text((silo) => silo.device || NONE)],
  ["GPU memory", ({ resources: r }) =>
    used(r?.gpu_memory_used_bytes, r?.gpu_memory_total_bytes, 0.95)],
  ["GPU busy", ({ resources: r }) => ({ text: formatPercent(r?.gpu_busy), part: r?.gpu_busy })],
  ["Memory of the machine", ({ resources: r }) => used(r?.memory_available_bytes == null ? null
    : r.memory_total_bytes - r.memory_available_bytes, r?.memory_total_bytes, 0.95)],
  ["Memory of domo-client", text(({ resources: r }) => formatBytes(r?.process_memory_bytes))],
  ["Disk free", text(({ resources: r }) => formatBytes(r?.disk_free_bytes))],
  ["Certificate", certificate],
  ["Version", text((silo) => silo.software_version || NONE)],
  ["Role", text((silo) => (silo.role === "evaluator" ? "evaluator: tests only" : "trainer"))],
];

const samples = (count) => (count == null ? NONE : `${formatCount(count)} samples`);

/** Rows of name, value and bar; each has its place, whatever is known. */
function renderFacts(host, facts, ...given) {
  const create = ([words]) => h("div", {}, h("dt", {}, words),
    h("dd", {}, h("span", { "data-f": "text" }), h("progress", { max: 1, value: 0, "data-f": "bar",
      "aria-label": words, hidden: true })));
  keyed(host, facts, ([words]) => words, create, (row, [, of]) => {
    const fact = of(...given);
    const part = fields(row);
    if (fact.href) {
      if (part.text.firstElementChild?.getAttribute("href") !== fact.href) {
        part.text.replaceChildren(h("a", { href: fact.href }, fact.text));
      }
    } else {
      setText(part.text, fact.text);
    }
    setAttr(part.text, "class", fact.warn ? "note" : null);
    part.bar.hidden = fact.part == null;
    part.bar.value = fact.part ?? 0;
    setAttr(part.bar, "data-warn", fact.warn ? "" : null);
  });
}

export class SiloPage {
  constructor(host, draw) {
    this.host = host;
    this.draw = draw;
    this.detail = null;
    const f = (name, tag, attributes = {}, ...children) =>
      (this[name] = h(tag, attributes, ...children));
    this.log = new LogTail();
    f("missing", "p", { class: "panel empty", hidden: true });
    f("body", "div", { class: "view halves" },
      h("section", { class: "panel whole", "aria-label": "Silo" },
        h("p", { class: "eyebrow" }, "Silo"),
        h("div", { class: "hero-title" }, f("name", "h1"), f("phase", "span", { class: "badge" }),
          h("span", { class: "grow" }), f("act", "button", { type: "button", class: "admin-only" })),
        f("dropped", "p", { class: "note", hidden: true }),
        f("trouble", "div", { class: "trouble", hidden: true },
          f("error", "p", { class: "error" }), f("advice", "p", {})),
        f("said", "p", { class: "only-read", "aria-live": "polite" }),
        f("now", "dl", { class: "settings" })),
      h("section", { class: "panel", "aria-label": "Silo and machine" },
        h("div", { class: "row head" }, h("h2", {}, "Silo and machine")),
        f("machine", "dl", { class: "settings" })),
      h("section", { class: "panel", "aria-label": "Rounds" },
        h("div", { class: "row head wrap" }, h("h2", {}, "Rounds"),
          f("sum", "p", { class: "muted small" })),
        f("noRounds", "p", { class: "empty" }, "It has had no part in a round of this run yet."),
        (this.times = new StackedTimes()).node,
        f("table", "div", { class: "scroll tall", tabindex: 0, role: "region",
          "aria-label": "Table of rounds" },
          h("table", {}, h("thead", {}, h("tr", {},
            ...["Round", "In or out", "Steps", "Update norm", "Train loss"].map((x, i) =>
              h("th", { scope: "col", class: i > 1 ? "num" : "" }, x)))),
            f("rounds", "tbody")))),
      this.log.node,
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

  recolour() {
    if (this.times.plot) this.times.recolour();
  }

  /** Nothing of another silo stays under this one's name. */
  enter({ id }) {
    this.id = id;
    this.stamp = null;
    this.detail = this.resources = null;
    this.measuredAt = -Infinity;
    this.log.forget(null);
    for (const list of [this.rounds, this.problems, this.events, this.sum]) empty(list);
    for (const part of [this.noRounds, this.noProblems, this.noEvents,
      this.table, this.times.node, this.problems, this.events]) part.hidden = true;
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
    this.fetch(id, `${id} ${newest} ${state.run?.run_id} ${state.run?.rounds_done} ${silo.error}`);
    const isOut = silo.dropped != null;
    const phase = phaseWord(silo);
    setText(this.name, id);
    setText(this.phase, phase);
    setAttr(this.phase, "data-phase", phase);
    setText(this.said, `${id}: ${phase}`);
    setText(this.act, isOut ? "Take back" : "Drop");
    setAttr(this.act, "aria-label", `${isOut ? "Take back" : "Drop"} ${id}`);
    setAttr(this.act, "class", `admin-only ${isOut ? "primary" : "quiet danger"}`);
    this.dropped.hidden = !isOut;
    setText(this.dropped, `Left out by the admin: ${silo.dropped}`);
    this.trouble.hidden = !silo.error;
    setText(this.error, silo.error ?? "");
    const known = this.detail?.silo_id === id && this.detail.error === silo.error;
    setText(this.advice, (known && this.detail.advice) || "\u00a0");
    renderFacts(this.now, NOW, silo, state.status, elapsed);
    const resources = this.resources?.id === id ? this.resources : null;
    renderFacts(this.machine, MACHINE, { ...silo, resources }, state.status, elapsed);
    this.log.update(id);
    this.measure(id);
    if (this.detail?.silo_id === id) this.drawDetail(this.detail);
  }

  /** What the stream leaves out: memory, GPU and disk. */
  async measure(id) {
    const now = performance.now();
    if (document.hidden || now - this.measuredAt < AGAIN_MS) return;
    this.measuredAt = now;
    const found = await getJson(`api/v1/silos/${encodeURIComponent(id)}/resources`).catch(() => null);
    if (found === null || id !== this.id) return;
    this.resources = { id, ...found };
    this.draw();
  }

  async fetch(id, stamp) {
    if (this.stamp === stamp) return;
    this.stamp = stamp;
    try {
      const detail = await getJson(`api/v1/silos/${encodeURIComponent(id)}`);
      if (id !== this.id) return;
      this.detail = detail;
      this.draw();
    } catch {
      setTimeout(() => (this.stamp = null), AGAIN_MS);
    }
  }

  drawDetail({ rounds, rounds_run_id: runId, events }) {
    const inside = rounds.filter((round) => round.took_part).length;
    const outside = rounds.filter((round) => round.left_out != null).length;
    this.noRounds.hidden = rounds.length > 0;
    this.times.updateSilo(this.id, rounds);
    this.table.hidden = rounds.length === 0;
    const which = rounds.length < NUM_ROUNDS ? "of run " : `the last ${rounds.length} of run `;
    this.sum.replaceChildren(...(runId ? [which, h("a", { href: runLink(runId) }, runId),
      `: in ${inside}, left out of ${outside}`] : []));
    const cell = (name, look) => h("td", { "data-f": name, class: look });
    const create = () => h("tr", {}, h("th", { scope: "row", "data-f": "index" }), cell("part", "breaks"),
      cell("steps", "num"), cell("norm", "num"), cell("loss", "num"));
    keyed(this.rounds, rounds.toReversed(), (x) => x.round_index, create, (row, round) => {
      const part = fields(row);
      setAttr(row, "class", round.left_out == null ? null : "out");
      setText(part.index, String(round.round_index + 1));
      setText(part.part, round.took_part ? "in" : round.left_out == null ? "tested its model"
        : `out: ${round.left_out}`);
      setText(part.steps, formatCount(round.num_steps));
      setText(part.norm, formatNumber(round.update_norm));
      setText(part.loss, formatLoss(round.train_loss));
    });
    const newest = events.toReversed();
    const problems = newest.filter(isProblem);
    this.noProblems.hidden = problems.length > 0;
    this.problems.hidden = problems.length === 0;
    this.noEvents.hidden = newest.length > 0;
    this.events.hidden = newest.length === 0;
    renderList(this.problems, problems);
    renderList(this.events, newest);
  }
}
