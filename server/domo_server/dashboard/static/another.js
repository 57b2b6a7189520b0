// Whether another coordinator, or one with another database, answers at the address by now: then
// nothing that the page knows holds any more.

/** Of a message of the stream: what it tells of a known run or event is otherwise. */
export function isAnother({ run, runs, events }, message) {
  const made = new Map([...(runs ?? []), ...(run ? [run] : [])].map((x) => [x.run_id, x.created_at]));
  const { run_id: id, created_at: at } = message.run ?? {};
  if (made.has(id) && made.get(id) !== at) return true;
  const happened = new Map(events.map((event) => [event.event_id, event.at]));
  const newest = events.at(0)?.event_id ?? 0;
  return message.events.some((event) =>
    event.event_id <= newest && happened.get(event.event_id) !== event.at);
}

/** Of the table of runs: one that was there has gone, or was made at another time. */
export function isOtherTable(before, runs) {
  const made = new Map(runs.map((run) => [run.run_id, run.created_at]));
  return (before ?? []).some((run) => made.get(run.run_id) !== run.created_at);
}
