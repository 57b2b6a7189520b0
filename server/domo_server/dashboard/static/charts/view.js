// How charts are looked at, as a part of the address: a link shows the same, and Back goes back.

import { AXES } from "./axis.js";

const MOST_SMOOTH = 0.99;
/** What the query of a page with charts may say of them. */
export const VIEW_WORDS = ["x", "smooth", "log", "zoom", "chart", "silos", "hide", "pick"];

/**
 * What the query of an address says; what is missing or makes no sense is as it is at first.
 *
 * `x` names an axis, `smooth` is a weight, `log` has the charts with a logarithmic y axis, `zoom` is
 * [from, to] in x, `charts` the charts that are shown (null: the usual ones), `each` whether tests
 * have a line for each silo, `hide` and `pick` ids of lines.
 */
export function readView(query) {
  const smooth = Number(query.get("smooth") ?? 0);
  const zoom = (query.get("zoom") ?? "").split(",").map(Number);
  const charts = query.getAll("chart");
  return {
    x: Object.hasOwn(AXES, query.get("x") ?? "") ? query.get("x") : "round",
    smooth: smooth >= 0 && smooth < 1 ? Math.min(MOST_SMOOTH, smooth) : 0,
    log: query.getAll("log"),
    zoom: zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1] ? zoom : null,
    charts: charts.length ? charts : null,
    each: query.get("silos") === "each",
    hide: query.getAll("hide"),
    pick: query.getAll("pick"),
  };
}

/** The query with another view in it; what else it says stays. */
export function writeView(query, view) {
  const to = new URLSearchParams(query);
  for (const key of VIEW_WORDS) to.delete(key);
  if (view.x !== "round") to.set("x", view.x);
  if (view.smooth) to.set("smooth", String(view.smooth));
  if (view.zoom) to.set("zoom", view.zoom.join(","));
  if (view.each) to.set("silos", "each");
  for (const [key, values] of [["log", view.log], ["chart", view.charts ?? []],
    ["hide", view.hide], ["pick", view.pick]]) {
    for (const value of values) to.append(key, value);
  }
  return to.toString().replaceAll("%2C", ",").replaceAll("%3A", ":");
}

/** The list without the value, or with it at its end. */
export const toggled = (list, value) =>
  (list.includes(value) ? list.filter((x) => x !== value) : [...list, value]);
