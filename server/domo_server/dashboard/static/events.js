// The last events, newest first; refusals and failures stand out, also without colours.

import { byId, changed, getJson, h, keyed } from "./dom.js";
import { formatClock, formatDay } from "./format.js";

const TONES = { red: "bad", yellow: "warn" };
const NUM_SHOWN = 100;
const DAY_MS = 86400e3;

/** Whether something was refused, declined or has failed. */
export const isProblem = (event) => event.level === "problem";
const problems = new Map(); // by id; they outlive the last events of all kinds

function create(event) {
  const about = [event.silo_id, event.run_id].filter(Boolean).join(" \u00b7 ");
  const problem = isProblem(event) ? [h("span", { class: "only-read" }, "Problem: ")] : [];
  const isOld = Date.now() - new Date(event.at) > DAY_MS;
  return h(
    "li",
    { "data-tone": TONES[event.colour] ?? null },
    h("time", { datetime: event.at, title: event.at },
      isOld ? formatDay(event.at) : formatClock(event.at)),
    h("span", { title: `${event.kind}${about ? ` \u00b7 ${about}` : ""}` }, ...problem, event.text),
  );
}

/** Wire the choice of problems only; `draw` draws the page again. */
export function setUpEvents(draw) {
  byId("only-problems").addEventListener("change", async (change) => {
    draw();
    if (!change.target.checked) return;
    remember(await getJson(`api/v1/events?limit=${NUM_SHOWN}&level=problem`).catch(() => []));
    draw();
  });
}

function remember(events) {
  for (const event of events) if (isProblem(event)) problems.set(event.event_id, event);
}

function chosen(events) {
  if (!byId("only-problems").checked) return events;
  const newest = [...problems.values()].sort((a, b) => b.event_id - a.event_id);
  return newest.slice(0, NUM_SHOWN);
}

/** A list of events; those that are there already never change. */
export function renderList(host, events) {
  if (!changed(host, ...events.map((event) => event.event_id))) return;
  keyed(host, events, (event) => event.event_id, create, () => {});
}

/** Draw the last events, or the last problems. */
export function renderEvents({ events }) {
  remember(events);
  const shown = chosen(events);
  byId("no-events").hidden = shown.length > 0;
  byId("no-events").textContent = events.length
    ? "Nothing was refused, and nothing failed." : "Nothing has happened yet.";
  byId("events").hidden = shown.length === 0;
  renderList(byId("events"), shown);
}
