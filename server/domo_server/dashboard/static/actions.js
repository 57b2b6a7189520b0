// What only the admin may do, each asked back: pause, resume, stop a run; drop a silo, take it back.

import { ask } from "./ask.js";
import { getJson, h, setAttr } from "./dom.js";
import { hasEnded } from "./header.js";

const post = (url, body) =>
  getJson(url, { method: "POST", body, headers: { "Content-Type": "application/json" } });

const postRun = (run, what) => post(`api/v1/runs/${encodeURIComponent(run.run_id)}/${what}`);
const postSilo = (silo, what, body) =>
  post(`api/v1/silos/${encodeURIComponent(silo.silo_id)}/${what}`, body);

/** Queue a run; gives its summary, or throws an Error with the server's words and `fields`. */
export const startRun = (config) => post("api/v1/runs", JSON.stringify(config));

const ASKED = {
  pause: (run) => ({
    title: `Pause ${run.name}?`,
    text: "No round closes and none begins until you resume it. Silos finish the steps of this " +
      "round, and what they send is kept.",
    action: "Pause",
    act: () => postRun(run, "pause"),
  }),
  resume: (run) => ({
    title: `Resume ${run.name}?`,
    text: `It goes on in round ${Math.min(run.rounds_done + 1, run.num_rounds)} of ${run.num_rounds}.`,
    action: "Resume",
    act: () => postRun(run, "resume"),
  }),
  stop: (run) => ({
    title: `Stop ${run.name} for good?`,
    text: `A stopped run cannot go on. ${keptWords(run)}`,
    action: "Stop run",
    danger: true,
    act: () => postRun(run, "stop"),
  }),
};

function keptWords(run) {
  if (!run.rounds_done) return "No round is committed yet, so there is no model to keep.";
  const rounds = run.rounds_done === 1 ? "1 committed round" : `${run.rounds_done} committed rounds`;
  return `The model of its ${rounds} is kept.`;
}

/** Ask whether to drop a silo, or to take it back. */
export function askSilo(silo) {
  if (silo.dropped == null) {
    ask({
      title: `Drop ${silo.silo_id}?`,
      text: "It is left out from the round that is open on, until you take it back. Its part in " +
        "earlier rounds stays.",
      action: "Drop silo",
      danger: true,
      reason: "Reason, for everybody to read",
      act: (reason) => postSilo(silo, "drop", JSON.stringify({ reason })),
    });
  } else {
    ask({
      title: `Take ${silo.silo_id} back?`,
      text: "It takes part again from the next round on.",
      action: "Take back",
      act: () => postSilo(silo, "undrop"),
    });
  }
}

/** The buttons for what can be done with a run now, in `host`; none for who is not the admin. */
export class RunButtons {
  constructor(host) {
    this.run = null;
    const make = (what, words, look) => {
      const button = h("button", { type: "button", class: look, "data-do": what }, words);
      button.addEventListener("click", () => ask(ASKED[what](this.run)));
      return button;
    };
    this.pause = make("pause", "Pause", "quiet");
    this.resume = make("resume", "Resume", "primary");
    this.stop = make("stop", "Stop run", "quiet danger");
    host.append(this.pause, this.resume, this.stop);
  }

  update(run, isAdmin) {
    this.run = run;
    const state = run?.state;
    this.pause.hidden = !isAdmin || !["OPEN", "CLOSING"].includes(state);
    this.resume.hidden = !isAdmin || state !== "PAUSED";
    this.stop.hidden = !isAdmin || !run || hasEnded(run);
    for (const button of [this.pause, this.resume, this.stop]) {
      setAttr(button, "aria-label", run ? `${button.textContent} ${run.name}` : null);
    }
  }
}
