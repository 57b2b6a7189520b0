// How long a run waited, trained and took in all; and what closed its rounds, in words.

import { formatDuration, secondsBetween } from "./format.js";

const ENDED = new Set(["FINISHED", "FAILED", "STOPPED"]);

/** Seconds for which a run was open for silos before it had them; of one that still is, so far. */
export function waitedSeconds(run) {
  if (run.waiting_s != null) return run.waiting_s;
  return run.state === "WAITING" ? secondsBetween(run.started_at, null) : null;
}

/** Seconds from a run's start to its end, or to now. */
export function totalSeconds(run) {
  if (ENDED.has(run.state) && !run.finished_at) return null;
  return secondsBetween(run.started_at, ENDED.has(run.state) ? run.finished_at : null);
}

/** Seconds of its rounds; those of one that goes on have gone on since the message. */
export function trainedSeconds(run, elapsed = 0) {
  if (run.training_s == null) return null;
  const goesOn = ["OPEN", "CLOSING"].includes(run.state);
  return run.training_s + (goesOn ? elapsed : 0);
}

/** What time there is beside training, for a tooltip. */
export function besideTraining(run) {
  const [waited, total] = [waitedSeconds(run), totalSeconds(run)];
  const words = [waited == null ? "" : `waited for silos: ${formatDuration(waited)}`,
    total == null ? "" : `in all: ${formatDuration(total)}`];
  return words.filter(Boolean).join("; ");
}

/** What closed a round. */
export function closedByWords({ closed_by: what, closed_by_silo: silo }) {
  return {
    silo: `${silo}, the last update`,
    grace: "the end of the grace",
    deadline: "the deadline",
    lost: "nothing more would have come",
    admin: silo ? `the admin: ${silo} was dropped` : "the admin, who resumed the run",
  }[what] ?? "not known";
}
