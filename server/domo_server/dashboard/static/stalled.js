// Trouble first: which run makes no progress, which silos hold it up, and the button that helps.

import { askSilo } from "./actions.js";
import { byId, fields, h, keyed, setAttr, setText } from "./dom.js";
import { siloLink } from "./router.js";

let silos = [];

/** By name, what is known of each silo that holds the run up. */
export function holders(run) {
  const groups = run?.stalled ? run.held_up_by : [];
  return new Map(groups.flatMap((group) => group.silo_ids.map((id) => [id, group])));
}

/** Why, in one sentence. */
export const holdWords = ({ why, last }) => (last ? `${why} (last: ${last})` : why);

function drop(id) {
  const button = h("button", { type: "button", class: "quiet danger admin-only",
    "aria-label": `Drop ${id}` }, "Drop");
  button.addEventListener("click", () => {
    const silo = silos.find((x) => x.silo_id === id);
    if (silo) askSilo(silo);
  });
  return button;
}

const one = (id) => h("li", { class: "row held" }, h("a", { href: siloLink(id) }, id), drop(id));

function create({ silo_ids: ids }) {
  if (ids.length === 1) {
    return h("li", { class: "row held" }, h("span", {}, h("a", { class: "strong", href: siloLink(ids[0]) }, ids[0]),
      ": ", h("span", { "data-f": "why" }), h("span", { class: "block", "data-f": "help" })), drop(ids[0]));
  }
  return h("li", {}, h("details", {}, h("summary", {}, h("span", { class: "strong", "data-f": "count" }),
    ": ", h("span", { "data-f": "why" }), h("span", { class: "block", "data-f": "help" })),
  h("ul", { "data-f": "list" })));
}

function update(item, group) {
  const part = fields(item);
  setText(part.why, holdWords(group));
  setText(part.help, `${group.help}.`);
  if (!part.list) return;
  setText(part.count, `${group.silo_ids.length} silos`);
  keyed(part.list, group.silo_ids, (id) => id, one, () => {});
}

/** Draw what nobody must overlook of a run, on every page. */
export function renderStalled({ run, status }) {
  silos = status.silos;
  const groups = run?.stalled ? run.held_up_by : [];
  byId("alert-stalled").hidden = !run?.stalled;
  const [sentence] = (run?.stalled ?? "").split(". ");
  setText(byId("stalled-text"), run?.stalled
    ? `${run.name} is stalled: ${groups.length ? `${sentence}.` : run.stalled}` : "");
  const key = ({ silo_ids: ids, why }) => (ids.length === 1 ? `${ids[0]} ${why}` : why);
  keyed(byId("stalled-by"), groups, key, create, update);
  setAttr(byId("stalled-by"), "aria-label", "What holds it up");
}
