// The last events, newest first; refusals and failures stand out, also without colours.

import { byId, h, keyed } from "./dom.js";
import { formatClock } from "./format.js";

const BAD = /fail|error|lost|abort|refus|diverg|disk/;
const WARN = /unusual|declin|drop|paus/;

function create(event) {
  const about = [event.silo_id, event.run_id].filter(Boolean).join(" \u00b7 ");
  const tone = BAD.test(event.kind) ? "bad" : WARN.test(event.kind) ? "warn" : null;
  return h(
    "li",
    { "data-tone": tone },
    h("time", { datetime: event.at, title: event.at }, formatClock(event.at)),
    h("span", { title: `${event.kind}${about ? ` \u00b7 ${about}` : ""}` },
      ...(tone === "bad" ? [h("span", { class: "only-read" }, "Problem: ")] : []), event.text),
  );
}

/** Draw the events; those that are there already never change. */
export function renderEvents({ events }) {
  byId("no-events").hidden = events.length > 0;
  byId("events").hidden = events.length === 0;
  keyed(byId("events"), events, (event) => event.event_id, create, () => {});
}
