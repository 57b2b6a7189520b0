// The last events, newest first.

import { byId, h, keyed } from "./dom.js";
import { formatClock } from "./format.js";

const BAD = /fail|error|lost|abort|refus|diverg/;

function create(event) {
  const about = [event.silo_id, event.run_id].filter(Boolean).join(" \u00b7 ");
  return h(
    "li",
    { "data-bad": BAD.test(event.kind) },
    h("time", { datetime: event.at, title: event.at }, formatClock(event.at)),
    h("span", { title: `${event.kind}${about ? ` \u00b7 ${about}` : ""}` }, event.text),
  );
}

/** Draw the events; those that are there already never change. */
export function renderEvents({ events }) {
  byId("no-events").hidden = events.length > 0;
  byId("events").hidden = events.length === 0;
  keyed(byId("events"), events, (event) => event.event_id, create, () => {});
}
