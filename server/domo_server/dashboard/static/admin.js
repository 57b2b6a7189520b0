// What only the admin sees: pause, resume, stop and start runs; drop and re-admit silos.

import { ask } from "./ask.js";
import { byId, getJson, setText } from "./dom.js";
import { hasEnded } from "./header.js";

const EXAMPLE = {
  name: "domo-digits", task: "digits", method: "DOMO", num_rounds: 15, num_silos: 2,
};
const READ_ONLY = "Read-only. To change anything, open the log-in link of the coordinator.";

const post = (url, body) =>
  getJson(url, { method: "POST", body, headers: { "Content-Type": "application/json" } });

const postRun = (run, what) => post(`api/v1/runs/${encodeURIComponent(run.run_id)}/${what}`);
const postSilo = (silo, what, body) =>
  post(`api/v1/silos/${encodeURIComponent(silo.silo_id)}/${what}`, body);

function askPause(run) {
  ask({
    title: `Pause ${run.name}?`,
    text: "No round closes and none begins until you resume it. Silos finish the steps of this " +
      "round, and what they send is kept.",
    action: "Pause",
    act: () => postRun(run, "pause"),
  });
}

function askResume(run) {
  ask({
    title: `Resume ${run.name}?`,
    text: `It goes on in round ${Math.min(run.rounds_done + 1, run.num_rounds)} of ${run.num_rounds}.`,
    action: "Resume",
    act: () => postRun(run, "resume"),
  });
}

function askStop(run) {
  const rounds = run.rounds_done === 1 ? "1 committed round" : `${run.rounds_done} committed rounds`;
  const kept = run.rounds_done
    ? `The model of its ${rounds} is kept.`
    : "No round is committed yet, so there is no model to keep.";
  ask({
    title: `Stop ${run.name} for good?`,
    text: `A stopped run cannot go on. ${kept}`,
    action: "Stop run",
    danger: true,
    act: () => postRun(run, "stop"),
  });
}

function askDrop(silo) {
  ask({
    title: `Drop ${silo.silo_id}?`,
    text: "It is left out from the round that is open on, until you re-admit it. Its part in " +
      "earlier rounds stays.",
    action: "Drop silo",
    danger: true,
    reason: "Reason, for everybody to read",
    act: (reason) => postSilo(silo, "drop", JSON.stringify({ reason })),
  });
}

function askReadmit(silo) {
  ask({
    title: `Re-admit ${silo.silo_id}?`,
    text: "It takes part again from the next round on.",
    action: "Re-admit",
    act: () => postSilo(silo, "readmit"),
  });
}

/** Wire the buttons; `getState` gives what the coordinator said last. */
export function setUpAdmin(getState) {
  let isAdmin = false;
  const dialog = byId("run-dialog");

  getJson("api/v1/session").then(
    (session) => {
      isAdmin = session.admin;
      setText(byId("role"), isAdmin ? "Logged in as admin" : READ_ONLY);
      document.body.classList.toggle("admin", isAdmin);
      byId("new-run").hidden = !isAdmin;
      update();
    },
    () => {},
  );

  function update() {
    const { run } = getState();
    const inRounds = ["OPEN", "CLOSING", "PAUSED"].includes(run?.state);
    byId("pause-run").hidden = !isAdmin || !inRounds;
    setText(byId("pause-run"), run?.state === "PAUSED" ? "Resume" : "Pause");
    byId("stop-run").hidden = !isAdmin || !run || hasEnded(run);
  }

  byId("pause-run").addEventListener("click", () => {
    const { run } = getState();
    if (run.state === "PAUSED") askResume(run);
    else askPause(run);
  });

  byId("stop-run").addEventListener("click", () => askStop(getState().run));

  byId("silos").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const id = button?.closest("[data-key]").dataset.key;
    const silo = getState().status?.silos.find((x) => x.silo_id === id);
    if (!silo) return;
    if (silo.dropped == null) askDrop(silo);
    else askReadmit(silo);
  });

  byId("new-run").addEventListener("click", () => {
    byId("run-config").value = JSON.stringify(getState().run?.config ?? EXAMPLE, null, 2);
    setText(byId("run-error"), "");
    dialog.showModal();
  });

  byId("run-cancel").addEventListener("click", () => dialog.close());

  byId("run-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("api/v1/runs", byId("run-config").value);
      dialog.close();
    } catch (error) {
      setText(byId("run-error"), error.message);
    }
  });

  return { update };
}
