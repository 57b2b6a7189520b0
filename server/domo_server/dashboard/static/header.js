// The top of the page: which run, how far, what it waits for, and what to do when there is none.

import { formatTest, mainTest } from "./charts/specs.js";
import { byId, setAttr, setText } from "./dom.js";
import { besideTraining, trainedSeconds, waitedSeconds } from "./durations.js";
import {
  formatClock, formatCount, formatDay, formatDuration, formatLoss,
} from "./format.js";

export const STATE_WORDS = {
  QUEUED: "Queued", WAITING: "Waiting for silos", OPEN: "Training", CLOSING: "Closing round",
  EVALUATING: "Evaluating", PAUSED: "Paused", FINISHED: "Finished", FAILED: "Failed",
  STOPPED: "Stopped",
};

const HALF_A_DAY_S = 43200;
const ENDED = new Set(["FINISHED", "FAILED", "STOPPED"]);
const WILDCARDS = new Set(["0.0.0.0", "[::]", "::", "*", ""]);

export const hasEnded = (run) => ENDED.has(run.state);

/** The address that a silo dials: the coordinator's, or this page's name if it listens on all. */
const LOOPBACK = new Set(["localhost", "[::1]", "::1"]);

const isLoopback = (host) => LOOPBACK.has(host) || /^127\./.test(host);

/** Whether silos of other machines cannot reach it: it listens on this one only. */
export const isLocalOnly = (grpcAddress) =>
  isLoopback(grpcAddress.slice(0, grpcAddress.lastIndexOf(":")));

export function dialAddress(grpcAddress) {
  const colon = grpcAddress.lastIndexOf(":");
  const [host, port] = [grpcAddress.slice(0, colon), grpcAddress.slice(colon + 1)];
  if (!WILDCARDS.has(host)) return grpcAddress;
  return `${isLoopback(location.hostname) ? "HOST" : location.hostname}:${port}`;
}

export function roundWords(run) {
  const unit = run.num_rounds === 1 ? "round" : "rounds";
  if (run.state === "QUEUED") return `${run.num_rounds} ${unit}, not begun`;
  const working = ["OPEN", "CLOSING", "PAUSED"].includes(run.state);
  if (working) return `Round ${Math.min(run.rounds_done + 1, run.num_rounds)} of ${run.num_rounds}`;
  return `${run.rounds_done} of ${run.num_rounds} ${unit} done`;
}

/** Who holds the round up by being away, unless the others go on without. */
function missing(run, silos) {
  if (run.detail.includes("grace left")) return [];
  return silos.filter((x) => x.phase === "offline" && run.waiting_for?.includes(x.silo_id));
}

/** The estimate in words; none while the run is paused. */
export function timeLeft(run, elapsed, silos) {
  if (hasEnded(run)) return run.finished_at ? `ended at ${formatClock(run.finished_at, false)}` : "";
  if (run.remaining_s == null || run.state === "PAUSED") return "";
  const left = Math.max(0, run.remaining_s - (run.stalled ? 0 : elapsed));
  const away = missing(run, silos).map((x) => x.silo_id);
  if (away.length) {
    return `about ${formatDuration(left)} more, once ${away.length > 1 ? `${away.length} silos are`
      : `${away[0]} is`} back`;
  }
  const end = new Date(Date.now() + 1000 * left).toISOString();
  const until = left > HALF_A_DAY_S ? formatDay(end) : formatClock(end, left < 600);
  return `about ${formatDuration(left)} left, until ${until}`;
}

export function aboutWords(run) {
  const size = run.num_params == null ? [] : [`${formatCount(run.num_params)} parameters`];
  return [`${run.method} on ${run.task}`, ...size, `run ${run.run_id}`].join(" \u00b7 ");
}

function renderRun(run, status, elapsed) {
  const current = status.current_run?.run_id === run.run_id;
  const queued = status.num_queued ? `, ${status.num_queued} queued` : "";
  setText(byId("run-eyebrow"), (current ? "Current run" : "Last run") + queued);
  setText(byId("run-name"), run.name);
  setText(byId("run-about"), aboutWords(run));
  setText(byId("run-state"), STATE_WORDS[run.state] ?? run.state);
  setAttr(byId("run-state"), "data-state", run.state);
  setText(byId("run-round"), roundWords(run));
  setText(byId("run-left"), timeLeft(run, elapsed, status.silos));
  setAttr(byId("run-progress"), "data-state", run.state);
  byId("run-progress").value = run.num_rounds ? run.rounds_done / run.num_rounds : 0;
  setText(byId("run-detail"), run.detail || "\u00a0");
  setAttr(byId("run-detail"), "title", run.detail || null);
  const { metric, title } = mainTest(run);
  setText(byId("tile-accuracy-name"), title);
  setText(byId("tile-accuracy"), formatTest(metric, metric === "accuracy" ? run.accuracy : run.latest?.[metric]));
  setText(byId("tile-loss"), formatLoss(run.loss));
  const waits = run.state === "WAITING";
  setText(byId("tile-time-name"), waits ? "Waiting for" : hasEnded(run) ? "Trained for" : "Training for");
  setText(byId("tile-time"), formatDuration(waits ? waitedSeconds(run) : trainedSeconds(run, elapsed)));
  setAttr(byId("tile-time"), "title", besideTraining(run) || null);
  // only what a listener wants to hear: not every step
  setText(byId("said"), `${run.name}: ${STATE_WORDS[run.state] ?? run.state}. ${roundWords(run)}.`);
}

function renderNoRun() {
  setText(byId("run-eyebrow"), "Ready");
  setText(byId("run-name"), "No run yet");
  setText(byId("run-about"), "The coordinator is up and waits for a run.");
  for (const id of ["run-round", "run-detail"]) setText(byId(id), "\u00a0");
  setText(byId("run-left"), "");
  setText(
    byId("start-command"),
    `curl -X POST ${new URL("api/v1/runs", location.href)} ` +
      `-H "Authorization: Bearer $DOMO_TOKEN" ` +
      `-d '{"task": "digits", "method": "DOMO", "num_rounds": 15, "num_silos": 2}'`,
  );
}

/** Draw the header and the empty state of "no run". */
export function renderHeader({ status, run, receivedAt }) {
  const elapsed = (performance.now() - receivedAt) / 1000;
  setText(byId("tile-silos"), `${status.num_silos_online} of ${status.silos.length}`);
  byId("run-state").hidden = run === null;
  byId("run-stalled").hidden = !run?.stalled;
  byId("no-run").hidden = run !== null;
  byId("curves").hidden = run === null;
  document.querySelector(".hero").classList.toggle("idle", run === null);
  byId("run-detail").classList.toggle("calm", run !== null && !hasEnded(run));
  if (run) renderRun(run, status, elapsed);
  else renderNoRun();
}
