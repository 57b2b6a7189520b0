// One card for each silo, the line above counts them by phase. Those that hold the run up come first;
// else a few stay where they are, and of many those that need somebody come first.

import { CROWD } from "./charts/crowd.js";
import { byId, fields, h, keyed, setAttr, setText } from "./dom.js";
import {
  NONE, formatBytes, formatClock, formatCount, formatDuration, formatLoss, formatSpeed,
} from "./format.js";
import { dialAddress, isLocalOnly } from "./header.js";
import { Order } from "./order.js";
import { siloLink } from "./router.js";
import { holdWords, holders } from "./stalled.js";

const PHASES = [
  "training", "evaluating", "downloading", "uploading", "waiting", "enrolled", "preparing", "idle",
  "failed", "offline", "dropped",
];
const NUM_FIRST = 6; // of many, on a narrow screen: so many at least,
const NUM_NEEDY = 12; // and so many at most of those that need somebody, until all are asked for
const order = new Order();
let showsAll = false;

function create(silo) {
  const cell = (name, label) => h("div", {}, h("dt", {}, label), h("dd", { "data-f": name }));
  return h(
    "li",
    { class: "silo" },
    h("div", { class: "row" },
      h("h3", {}, h("a", { "data-f": "id", href: siloLink(silo.silo_id) })),
      h("span", { class: "badge", "data-f": "phase" })),
    h("p", { class: "muted small one-line about", "data-f": "about" }),
    h("p", { class: "small note", "data-f": "dropped", hidden: true }),
    h("p", { class: "error small hold", "data-f": "hold", hidden: true }),
    h("p", { class: "error small", "data-f": "error", hidden: true }),
    h("progress", { max: 1, value: 0, "data-f": "bar" }),
    h("p", { class: "small row wrap step-row" }, h("span", { "data-f": "step" }),
      h("span", { class: "muted", "data-f": "seen" })),
    h("p", { class: "small muted one-line flow" },
      h("span", { "aria-hidden": "true" }, "\u2193 "), h("span", { class: "only-read" }, "received "),
      h("span", { "data-f": "in" }), " \u00a0 ",
      h("span", { "aria-hidden": "true" }, "\u2191 "), h("span", { class: "only-read" }, "sent "),
      h("span", { "data-f": "out" })),
    h("dl", {}, cell("samples", "Samples"), cell("loss", "Train loss"),
      cell("received", "Received"), cell("down", "Down"), cell("sent", "Sent"), cell("up", "Up")),
    h("p", { class: "admin-only row end" }, h("button", { type: "button", "data-f": "act" })),
  );
}

function stepWords(silo, numRounds) {
  if (silo.phase === "training" && silo.num_steps) return `step ${silo.step} of ${silo.num_steps}`;
  if (silo.phase === "offline" || silo.round_index == null) return "\u00a0";
  return `round ${silo.round_index + 1}${numRounds ? ` of ${numRounds}` : ""}`;
}

/** What its badge says: one that loads its data for a run is not idle. */
export function phaseWord(silo) {
  if (silo.dropped != null) return "dropped";
  return silo.phase === "idle" && silo.doing ? "preparing" : silo.phase;
}

/** How long it has been in its phase; of one that is away, since when. */
export function phaseTime(silo, elapsed) {
  if (silo.phase === "offline" && silo.last_seen_s == null) return "not seen since the start";
  if (silo.phase === "offline") {
    const seconds = silo.last_seen_s + elapsed;
    const since = new Date(Date.now() - 1000 * seconds).toISOString();
    return `since ${formatClock(since, false)} (${formatDuration(seconds)})`;
  }
  return silo.phase_s == null ? "" : `for ${formatDuration(silo.phase_s + elapsed)}`;
}

const flowWords = (bytes, speed) =>
  `${formatBytes(bytes)}${speed >= 1 ? `, ${formatSpeed(speed)}` : ""}`;

function update(card, silo, { run, elapsed, isMany, holding }) {
  const part = fields(card);
  const isOut = silo.dropped != null;
  const shown = phaseWord(silo);
  const awaited = run?.waiting_for?.includes(silo.silo_id) ?? false;
  const training = !isOut && silo.phase === "training" && silo.num_steps > 0;
  const done = !isOut && (silo.phase === "uploading" || silo.phase === "waiting");
  const numRounds = run?.run_id === silo.run_id ? run.num_rounds : null;
  setAttr(card, "data-phase", silo.phase);
  setText(part.id, silo.silo_id);
  setAttr(part.id, "title", silo.silo_id);
  setAttr(card, "data-dropped", isOut ? "" : null);
  setText(part.phase, shown);
  setAttr(part.phase, "data-phase", shown);
  const awaits = awaited && !isOut ? "the run waits for it" : "";
  const role = silo.role === "evaluator" ? "evaluator" : "";
  const about = isMany
    ? [role, silo.away, silo.doing, awaits && "awaited", silo.num_samples == null ? "" : `${formatCount(silo.num_samples)} samples`,
      silo.loss == null ? "" : `loss ${formatLoss(silo.loss)}`]
    : [silo.away, silo.doing, role, silo.device, silo.software_version && `v${silo.software_version}`,
      isOut ? silo.phase : "", awaits];
  setText(part.about, about.filter(Boolean).join(" \u00b7 ") || "\u00a0");
  part.bar.value = training ? silo.step / silo.num_steps : Number(done);
  setAttr(part.bar, "aria-label", `Local steps of ${silo.silo_id}`);
  setText(part.step, stepWords(silo, numRounds));
  const seen = silo.last_seen_s == null ? null : silo.last_seen_s + elapsed;
  const silent = silo.phase !== "offline" && seen > 10 ? `silent for ${formatDuration(seen)}` : "";
  const phase = isMany ? "" : `${isOut ? silo.phase : shown} `; // the badge says it
  setText(part.seen, phase + [phaseTime(silo, elapsed), silent].filter(Boolean).join(", "));
  setText(part.loss, formatLoss(silo.loss));
  setText(part.samples, formatCount(silo.num_samples ?? silo.num_eval_samples));
  setText(part.sent, formatBytes(silo.bytes_sent));
  setText(part.received, formatBytes(silo.bytes_received));
  const isOff = silo.phase === "offline";
  setText(part.down, isOff ? NONE : formatSpeed(silo.received_per_s));
  setText(part.up, isOff ? NONE : formatSpeed(silo.sent_per_s));
  setText(part.in, flowWords(silo.bytes_received, isOff ? 0 : silo.received_per_s));
  setText(part.out, flowWords(silo.bytes_sent, isOff ? 0 : silo.sent_per_s));
  part.dropped.hidden = !isOut;
  setText(part.dropped, `Left out by the admin${silo.dropped ? `: ${silo.dropped}` : ""}`);
  setText(part.act, isOut ? "Take back" : "Drop");
  setAttr(part.act, "class", isOut ? "quiet" : "quiet danger");
  setAttr(part.act, "aria-label", `${isOut ? "Take back" : "Drop"} ${silo.silo_id}`);
  const hold = isOut ? null : holding.get(silo.silo_id) ?? null;
  const held = hold ? `Holds the run up: ${holdWords(hold)}. ${hold.help}.` : "";
  setAttr(card, "data-holds", hold ? "" : null);
  part.hold.hidden = !hold;
  setText(part.hold, held);
  setAttr(part.hold, "title", held || null);
  part.error.hidden = !silo.error || Boolean(hold);
  setText(part.error, silo.error ?? "");
  setAttr(part.error, "title", silo.error);
}

/** Wire the button that narrow screens have under many silos; `draw` draws the page again. */
export function setUpSilos(draw) {
  const button = byId("silos-all");
  button.addEventListener("click", () => {
    showsAll = !showsAll;
    markFirst();
    if (showsAll) byId("silos").querySelector("[data-more] a").focus({ preventScroll: true });
    else button.scrollIntoView({ block: "center" });
    draw();
  });
}

/** Tell those that a narrow screen shows of many from the rest. */
function markFirst() {
  const grid = byId("silos");
  const isMany = grid.classList.contains("many");
  const first = isMany ? Math.min(Math.max(order.numNeedy, NUM_FIRST), NUM_NEEDY) : Infinity;
  [...grid.children].forEach((card, i) => setAttr(card, "data-more", i < first ? null : ""));
  grid.classList.toggle("short", !showsAll);
  byId("silos-all").hidden = !isMany;
  setText(byId("silos-all"), showsAll ? "Show fewer silos" : `Show all ${grid.children.length} silos`);
}

/** Draw all silos, or the command that makes one. */
export function renderSilos({ status, run, receivedAt }) {
  const { silos } = status;
  const elapsed = (performance.now() - receivedAt) / 1000;
  byId("no-silos").hidden = silos.length > 0;
  const isLocal = isLocalOnly(status.grpc_address);
  setText(byId("join-where"), isLocal
    ? "Silos of this machine can join, and no others: the coordinator listens on it only. Run here:"
    : "On each machine that holds data, run:");
  setText(byId("join-command"), `domo-client --server ${dialAddress(status.grpc_address)}`);
  setText(
    byId("join-note"),
    isLocal
      ? "For silos of other machines: listen and [server.tls] in the coordinator's configuration."
      : status.tls
        ? "This coordinator speaks TLS: give each silo its CA with --tls-ca, if it is your own."
        : "",
  );
  const phases = silos.map(phaseWord);
  const counts = PHASES.map((phase) => [phases.filter((x) => x === phase).length, phase]);
  const words = counts.filter(([n]) => n > 0).map(([n, phase]) => `${n} ${phase}`);
  setText(byId("silos-sum"), words.join(" \u00b7 "));
  const grid = byId("silos");
  const isMany = silos.length > CROWD;
  grid.classList.toggle("many", isMany);
  const isHeld = grid.matches(":hover") || grid.contains(document.activeElement);
  const holding = holders(run);
  const first = (silo) => Number(silo.dropped != null || !holding.has(silo.silo_id));
  const shown = isMany ? order.sort(silos, run, performance.now(), isHeld)
    : silos.toSorted((a, b) => first(a) - first(b));
  keyed(grid, shown, (x) => x.silo_id, create, (card, x) =>
    update(card, x, { run, elapsed, isMany, holding }));
  markFirst();
}
