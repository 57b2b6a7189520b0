// Entry: keeps what the coordinator said last, and hands it to each part of the page.

import { setUpAdmin } from "./admin.js";
import { Curves } from "./curves.js";
import { byId, getJson, setAttr, setText } from "./dom.js";
import { renderEvents, setUpEvents } from "./events.js";
import { renderHeader } from "./header.js";
import { live } from "./live.js";
import { renderRuns } from "./runs.js";
import { renderSilos } from "./silos.js";

const NUM_EVENTS = 100;
const LINK_WORDS = { live: "Live", lost: "Connection lost, trying again", wait: "Connecting" };

const state = { status: null, run: null, runs: [], events: [], receivedAt: 0, link: "wait" };
const curves = new Curves();
const admin = setUpAdmin(() => state);
let drawn = true;
let knownRuns = "";

/** Draw at most once per frame, and not at all in a hidden tab. */
function draw() {
  if (!drawn) return;
  drawn = false;
  requestAnimationFrame(() => {
    drawn = true;
    if (state.status === null) return;
    renderHeader(state);
    renderSilos(state);
    renderRuns(state);
    renderEvents(state);
    curves.update(state);
    admin.update();
  });
}

function setLink(link) {
  state.link = link;
  setAttr(byId("link"), "data-state", link);
  setText(byId("link"), LINK_WORDS[link]);
  document.body.classList.toggle("stale", link === "lost");
}

/** The table of runs is asked for only when something in it has changed. */
async function refreshRuns() {
  const { run, status, events } = state;
  const stamp = JSON.stringify([
    run && [run.run_id, run.state, run.rounds_done, run.accuracy],
    status.num_queued,
    events.at(0)?.event_id,
  ]);
  if (stamp === knownRuns) return;
  knownRuns = stamp;
  try {
    state.runs = await getJson("api/v1/runs");
    draw();
  } catch {
    knownRuns = ""; // the next message tries again
  }
}

function receive(message) {
  const known = new Set(state.events.map((event) => event.event_id));
  const fresh = message.events.filter((event) => !known.has(event.event_id));
  state.events = [...fresh.reverse(), ...state.events].slice(0, NUM_EVENTS);
  state.status = message.status;
  state.run = message.run;
  state.receivedAt = performance.now();
  refreshRuns();
  draw();
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(byId(button.dataset.copy));
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
}

document.addEventListener("click", (event) => {
  if (!event.target.closest("#picker")) byId("picker").open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && byId("picker").open) {
    byId("picker").open = false;
    byId("picker").querySelector("summary").focus();
  }
});

setUpEvents(draw);
setInterval(draw, 1000); // "last seen" and the time left go on between messages
live("api/v1/stream", receive, setLink);
