// What only the admin sees: stop the run, start another.

import { byId, getJson, setText } from "./dom.js";
import { hasEnded } from "./header.js";

const EXAMPLE = {
  name: "domo-digits", task: "digits", method: "DOMO", num_rounds: 15, num_silos: 2,
};
const READ_ONLY = "Read-only. To start or stop runs, open the log-in link of the coordinator.";

const post = (url, body) =>
  getJson(url, { method: "POST", body, headers: { "Content-Type": "application/json" } });

/** Wire the buttons; `getState` gives what the coordinator said last. */
export function setUpAdmin(getState) {
  let isAdmin = false;
  const dialog = byId("run-dialog");

  getJson("api/v1/session").then(
    (session) => {
      isAdmin = session.admin;
      setText(byId("role"), isAdmin ? "Logged in as admin" : READ_ONLY);
      byId("new-run").hidden = !isAdmin;
      update();
    },
    () => {},
  );

  function update() {
    const { run } = getState();
    byId("stop-run").hidden = !isAdmin || !run || hasEnded(run);
  }

  byId("stop-run").addEventListener("click", async () => {
    const { run } = getState();
    if (!confirm(`Stop ${run.name} for good? Its last model is kept.`)) return;
    try {
      await post(`api/v1/runs/${encodeURIComponent(run.run_id)}/stop`);
    } catch (error) {
      alert(error.message);
    }
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
