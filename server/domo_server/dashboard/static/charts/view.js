// How charts are looked at, as a part of the address: a link shows the same, and Back goes back.

import { AXES } from "./axis.js";

const MOST_SMOOTH = 0.99;
/** What the query of a page with charts may say of them. */
export const VIEW_WORDS = ["x", "smooth", "log", "zoom", "chart", "silos", "hide", "pick"];

function range(text) {
  const [from, to, ...more] = text.split(",").map(Number);
  return Number.isFinite(from) && Number.isFinite(to) && from < to && !more.length ? [from, to] : null;
}

const CHECKS = {
  x: (value) => Object.hasOwn(AXES, value),
  smooth: (value) => Number(value) >= 0 && Number(value) < 1,
  zoom: (value) => range(value) !== null,
  silos: (value) => value === "each",
};

/** What of a query cannot be shown: "x=foo" each. */
export const badValues = (query) => Object.entries(CHECKS)
  .filter(([key, fits]) => query.has(key) && !fits(query.get(key)))
  .map(([key]) => `${key}=${query.get(key)}`);

/**
 * What the query of an address says; what is missing or makes no sense is as it is at first.
 *
 * `x` names an axis, `smooth` is a weight, `log` has the charts with a logarithmic y axis, `zoom` is
 * [from, to] in x, `charts` the charts that are shown (null: the usual ones), `each` whether tests
 * have a line for each silo, `hide` and `pick` ids of lines.
 */
export function readView(query) {
  const known = (key) => (query.has(key) && CHECKS[key](query.get(key)) ? query.get(key) : null);
  const charts = query.getAll("chart");
  return {
    x: known("x") ?? "round",
    smooth: Math.min(MOST_SMOOTH, Number(known("smooth") ?? 0)),
    log: query.getAll("log"),
    zoom: range(known("zoom") ?? ""),
    charts: charts.length ? charts : null,
    each: known("silos") !== null,
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
