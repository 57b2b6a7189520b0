// What lies above a chart: a triangle at the edge for a value beyond it, a line at the best round.

import { h, keyed, setAttr, setText } from "../dom.js";
import { beyond } from "./series.js";

const NAMED = 3;

/** The values that a chart leaves out of its range: {x, y, up, id, name, look}. */
export function farOut({ lines, layers, kind, range, window, isLog }) {
  if (isLog) return [];
  const names = new Map(lines.map(({ id, name }) => [id, name]));
  const from = layers.filter(({ shown, alpha, id }) => shown && names.has(id)
    && (alpha < 1 || !layers.some((other) => other.id === id && other.alpha < 1)));
  const found = from.flatMap(({ id, points, look }) => beyond(points, range)
    .filter(({ x }) => x >= window[0] && x <= window[1])
    .map((mark) => ({ ...mark, id, name: names.get(id), look })));
  if (kind !== "crowd") return found;
  return found.filter((mark, i) => found.findLastIndex((m) => m.id === mark.id && m.x === mark.x) === i);
}

/** The best rounds that a chart marks: {x, y, round, look, words}. */
export function bests({ lines, layers, window, kind }, format) {
  if (kind === "crowd") return [];
  const look = (id) => layers.findLast((layer) => layer.id === id);
  return lines.filter(({ id, best }) => best && look(id)?.shown && best.x >= window[0]
    && best.x <= window[1]).map(({ id, name, best }) => ({ ...best, id, look: look(id).look,
    words: `best of ${name}: ${format(best.y)}, round ${best.round}` }));
}

/** What is beyond a chart, in words; empty: nothing. */
export function farOutWords(marks, below, { format }, axis) {
  const one = ({ up, y, name, x }) => `${up ? "\u25b2" : "\u25bc"} ${format(y)} (${name}, ${axis.when(x)})`;
  const more = marks.length > NAMED ? `, and ${marks.length - NAMED} more` : "";
  return [
    marks.length ? `Beyond the edge: ${marks.slice(0, NAMED).map(one).join("; ")}${more}.` : "",
    below ? `${below} ${below === 1 ? "value is" : "values are"} 0 or below, which a logarithmic axis cannot show.` : "",
  ].filter(Boolean).join(" ");
}

export class Overlay {
  constructor() {
    this.node = h("div", { class: "overlay" });
  }

  moveInto(over) {
    over.append(this.node);
  }

  /** Put all marks where they belong on a chart that has been drawn. */
  place(plot, chart) {
    const { format } = chart.spec;
    const far = chart.marks.map((mark) => ({ ...mark, key: `far ${mark.id} ${mark.x}`,
      class: `far ${mark.up ? "up" : "down"} ${mark.look}`,
      title: `${mark.name}: ${format(mark.y)}, ${chart.axis.when(mark.x)}` }));
    const best = bests(chart, format).map((mark) => ({ ...mark, key: `best ${mark.id}`,
      class: `best ${mark.look}`, title: mark.words }));
    keyed(this.node, [...best, ...far], ({ key }) => key, () => h("i", {}), (node, mark) => {
      setAttr(node, "class", mark.class);
      setAttr(node, "title", mark.title);
      setText(node, mark.key.startsWith("best") ? "\u2605" : "");
      node.style.left = `${plot.valToPos(mark.x, "x")}px`;
      if (mark.up === undefined) node.style.top = `${plot.valToPos(mark.y, "y")}px`;
    });
  }
}
