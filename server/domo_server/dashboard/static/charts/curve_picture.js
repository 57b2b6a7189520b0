// A curve from 0 to 1 over 0 to 1: ROC, precision and recall, reliability.

import { h } from "../dom.js";
import { formatCount } from "../format.js";
import { colourClass } from "./legend.js";

const SIDE = 200;
const LEFT = 42;
const BOTTOM = 34;
const MOST_CURVES = 8;
const SHADE = 40; // the height of the fullest bin

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const px = (x) => LEFT + SIDE * x;
const py = (y) => 8 + SIDE * (1 - y);
const isPoint = ([x, y]) => Number.isFinite(x) && Number.isFinite(y) && x !== null && y !== null;

function frame(xWords, yWords) {
  const marks = [0, 0.5, 1];
  const text = (words, x, y, more = {}) => svg("text", { x, y, class: "mark", ...more }, words);
  return [
    svg("rect", { x: px(0), y: py(1), width: SIDE, height: SIDE, class: "edge" }),
    ...marks.map((x) => text(String(x), px(x), py(0) + 14, { "text-anchor": "middle" })),
    ...marks.map((y) => text(String(y), px(0) - 6, py(y) + 4, { "text-anchor": "end" })),
    text(xWords, px(0.5), py(0) + 28, { "text-anchor": "middle" }),
    text(yWords, 0, 0, { "text-anchor": "middle", transform: `translate(9 ${py(0.5)}) rotate(-90)` }),
  ];
}

/** How many samples each bin has, as low bars at the foot. */
function bars(counts) {
  const most = Math.max(1, ...counts);
  const width = SIDE / counts.length;
  return counts.map((n, i) => svg("rect", { class: "count", x: px(0) + i * width,
    y: py(0) - (SHADE * n) / most, width: Math.max(1, width - 1), height: (SHADE * n) / most },
  svg("title", {}, formatCount(n))));
}

/** The picture of a table with `curves` by label, and of reliability with `counts`. */
export function curvePicture({ kind, name, curves, counts }, xWords, yWords) {
  const shown = Object.entries(curves).slice(0, MOST_CURVES);
  const lines = shown.flatMap(([, points], i) => {
    const known = points.filter(isPoint);
    const line = svg("polyline", { class: `curve ${colourClass(i + 1)}`,
      points: known.map(([x, y]) => `${px(x)},${py(y)}`).join(" ") });
    if (kind !== "calibration") return [line];
    return [line, ...known.map(([x, y]) => svg("circle", { class: `dot ${colourClass(i + 1)}`,
      cx: px(x), cy: py(y), r: 3 }))];
  });
  const even = kind === "average_precision" ? []
    : [svg("line", { class: "even", x1: px(0), y1: py(0), x2: px(1), y2: py(1) })];
  const [width, height] = [LEFT + SIDE + 10, SIDE + BOTTOM + 12];
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "curve-picture",
    "aria-label": `${name}: ${yWords} over ${xWords}` },
  ...frame(xWords, yWords), ...bars(counts ?? []), ...even, ...lines);
  const names = shown.map(([label]) => label).filter(Boolean);
  const more = Object.keys(curves).length - shown.length;
  const legend = h("ul", { class: "legend" }, ...names.map((label, i) => h("li", {}, h("span", { class: "entry" },
    h("i", { class: `swatch ${colourClass(i + 1)}` }), h("span", { class: "name" }, label)))),
  ...(more > 0 ? [h("li", { class: "muted" }, `and ${more} more`)] : []));
  return h("div", {}, picture, ...(names.length ? [legend] : []));
}
