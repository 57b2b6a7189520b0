// Entry: keeps what the coordinator said last, and hands it to the page that is shown.

import { isAnother, isOtherTable } from "./another.js";
import { renderCertificate } from "./certificate.js";
import { ComparePage } from "./compare_page.js";
import { byId, getJson, setAttr, setText } from "./dom.js";
import { formatClock } from "./format.js";
import { live } from "./live.js";
import { Overview } from "./overview.js";
import { currentRoute } from "./router.js";
import { RunPage } from "./run_page.js";
import { RunsPage } from "./runs_page.js";
import { keepAddress, toLogin, whoIAm } from "./session.js";
import { renderStalled } from "./stalled.js";
import { SiloPage } from "./silo_page.js";
import { StartPage } from "./start_page.js";
import { setUpTheme } from "./theme_switch.js";

const NUM_EVENTS = 100;
const DRAW_MS = 1000;
const COPIED_MS = 2000;
const LINK_WORDS = { live: "Live", lost: "Connection lost, trying again", wait: "Connecting" };

const state = {
  status: null, run: null, runs: null, events: [], receivedAt: 0, isAdmin: false, link: "wait",
};
const pages = {
  overview: new Overview(byId("view-overview"), draw),
  runs: new RunsPage(byId("view-runs"), draw),
  run: new RunPage(byId("view-run"), draw),
  compare: new ComparePage(byId("view-compare"), draw),
  silo: new SiloPage(byId("view-silo"), draw),
  new: new StartPage(byId("view-new"), draw),
};
let route = currentRoute();
let waiting = false;
let knownRuns = "";
let heardAt = Date.now();

/** Draw at most once per frame, and not at all in a hidden tab. */
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (state.status === null) return;
    const page = pages[route.page];
    page.update(state, route);
    setText(byId("version"), `coordinator ${state.status.version}`);
    renderCertificate(state.status);
    document.title = `${page.title(state, route)} \u2013 domo`;
  });
}

/** Show the page of the address; where it is another one, a reader's focus goes to its top. */
function go(isFirst) {
  const before = route;
  route = currentRoute();
  keepAddress();
  showAlert("address", route.unknown);
  if (!isFirst && route.page === before.page && route.id === before.id && route.page !== "new") {
    pages[route.page].readAddress?.(route);
    draw();
    return;
  }
  for (const [name, page] of Object.entries(pages)) page.host.hidden = name !== route.page;
  const parts = { run: "runs", compare: "runs", silo: "overview" };
  for (const link of document.querySelectorAll("[data-nav]")) {
    const here = link.dataset.nav === (parts[route.page] ?? route.page);
    setAttr(link, "aria-current", here ? "page" : null);
  }
  pages[route.page].enter?.(route);
  if (!isFirst) {
    scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
  draw();
}

function setLink(link) {
  if (link === "live") heardAt = Date.now();
  if (link === state.link) return;
  state.link = link;
  const since = formatClock(new Date(heardAt).toISOString());
  showAlert("lost", link === "lost"
    ? `The connection to the coordinator is lost since ${since}; trying again. The page shows what was so then.`
    : null);
  setAttr(byId("link"), "data-state", link);
  setText(byId("link"), LINK_WORDS[link]);
  document.body.classList.toggle("stale", link === "lost");
}

/** The table of runs is asked for only when something in it has changed. */
async function refreshRuns() {
  const { run, status, events } = state;
  const stamp = JSON.stringify([
    run && [run.run_id, run.state, run.rounds_done, run.accuracy, Boolean(run.stalled)],
    status.num_queued,
    events.at(0)?.event_id,
  ]);
  if (stamp === knownRuns) return;
  knownRuns = stamp;
  try {
    const runs = await getJson("api/v1/runs");
    if (isOtherTable(state.runs, runs)) location.reload();
    state.runs = runs;
    draw();
  } catch {
    knownRuns = ""; // the next message tries again
  }
}

document.addEventListener("runs-changed", () => {
  knownRuns = "";
  refreshRuns();
});

/** Say something that nobody must overlook, at the top of every page; null: it is over. */
function showAlert(name, text) {
  const place = byId(`alert-${name}`);
  setText(place, text ?? "");
  place.hidden = text === null;
}

/** All test metrics of a run: a message has those that are new or have changed. */
function allMetrics(run) {
  const before = state.run;
  const isSame = before?.run_id === run.run_id && before.created_at === run.created_at;
  const known = isSame ? before.metrics : [];
  if (!run.metrics.length) return known;
  const first = run.metrics[0].model_index;
  return [...known.filter((point) => point.model_index < first), ...run.metrics];
}

function receive(message) {
  if (isAnother(state, message)) {
    location.reload();
    return;
  }
  const known = new Set(state.events.map((event) => event.event_id));
  const fresh = message.events.filter((event) => !known.has(event.event_id));
  if (fresh.length) state.events = [...fresh.reverse(), ...state.events].slice(0, NUM_EVENTS);
  state.status = message.status;
  state.run = message.run && { ...message.run, metrics: allMetrics(message.run) };
  state.receivedAt = performance.now();
  renderStalled(state);
  refreshRuns();
  draw();
}

async function askWhoIAm() {
  const found = await whoIAm();
  if (found === null) return; // the coordinator is away, or busy
  state.isAdmin = found.admin;
  draw();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(byId(button.dataset.copy));
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
});

byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part after # is the page
  byId("main").focus();
});

setUpTheme(() => {
  for (const page of Object.values(pages)) page.recolour?.();
});
addEventListener("hashchange", () => go(false));
addEventListener("log-in-needed", toLogin);
setInterval(draw, DRAW_MS); // seconds in a phase and the time left go on between messages
askWhoIAm();
go(true);
live("api/v1/stream", receive, setLink, askWhoIAm);
