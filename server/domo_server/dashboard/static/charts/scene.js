// A chart as shapes, for a picture: {width, height, back, box, inside, outside}.
//
// A shape is {line: [[x, y], ...], colour, width, dash, alpha, fill} or {text, x, y, size, colour,
// bold, anchor, room}; `inside` is cut off at the `box` {x, y, width, height}.

import { bests } from "./overlay.js";

const PAD = 16;
const ROW = 20;
const COLUMN = 220;
const DASHES = [[], [6, 4], [2, 3]];
const LABEL = 12;
const TRIANGLE = 5;

/** What the legend shows, without lines that are hidden: {words, colour, alpha}. */
function entries(legend) {
  const shown = [...legend.children].filter((item) => item.querySelector(".swatch.thin")
    || item.firstChild.getAttribute("aria-pressed") !== "false");
  return shown.map((item) => {
    const parts = [...item.firstChild.children].slice(1).map((part) => part.innerText.trim());
    const { color, opacity } = getComputedStyle(item.querySelector(".swatch"));
    return { words: parts.join("  "), colour: color, alpha: Number(opacity) };
  });
}

/** The pieces of a column that are drawn in one go: broken where it is null. */
function pieces(xs, values) {
  const found = [[]];
  xs.forEach((x, i) => {
    if (values[i] === null) found.push([]);
    else if (values[i] !== undefined) found.at(-1).push([x, values[i]]);
  });
  return found.filter((piece) => piece.length);
}

function layerShapes(chart, { x, y }) {
  const { layers, data, colours, xs } = chart;
  const at = (piece) => piece.map(([px, py]) => [x(px), y(py)]);
  const drawn = layers.map((layer, i) => ({ ...layer, pieces: pieces(xs, data[i + 1]).map(at) }));
  const edge = (look) => drawn.find((layer) => layer.look === look)?.pieces.flat() ?? [];
  const band = chart.band ? [{ line: [...edge("upper"), ...edge("lower").toReversed()],
    colour: colours.band, fill: true }] : [];
  const lines = drawn.filter(({ shown, width }) => shown && width).flatMap((layer) =>
    layer.pieces.map((line) => (line.length > 1
      ? { line, colour: colours[layer.look], width: layer.width, dash: DASHES[layer.dash % 3],
        alpha: layer.alpha }
      : { line: dot(line[0]), colour: colours[layer.look], alpha: layer.alpha, fill: true })));
  return [...band, ...lines];
}

const dot = ([x, y]) => [[x - 3, y], [x, y - 3], [x + 3, y], [x, y + 3]];

function triangle(x, y, up) {
  const tip = up ? y + 1 : y - 1;
  const foot = up ? tip + 1.6 * TRIANGLE : tip - 1.6 * TRIANGLE;
  return [[x, tip], [x + TRIANGLE, foot], [x - TRIANGLE, foot]];
}

/** A chart that has been drawn, with its title, `about` below it, and its legend. */
export function sceneOf(chart, about) {
  const { plot, colours, spec, range } = chart;
  const figure = chart.node;
  const { color } = getComputedStyle(figure);
  const legend = entries(figure.querySelector(".legend"));
  const width = plot.width + 2 * PAD;
  const perRow = Math.max(1, Math.floor((width - 2 * PAD) / COLUMN));
  const top = PAD + 2 * ROW;
  const [left, inner] = [PAD + plot.over.offsetLeft, top + plot.over.offsetTop];
  const box = { x: left, y: inner, width: plot.over.clientWidth, height: plot.over.clientHeight };
  const at = { x: (value) => left + plot.valToPos(value, "x"), y: (value) => inner + plot.valToPos(value, "y") };
  const text = (words, x, y, more = {}) => ({ text: words, x, y, size: LABEL, colour: color, ...more });
  const bottom = box.y + box.height;

  const grid = chart.splits().map((y) => ({ line: [[box.x, at.y(y)], [box.x + box.width, at.y(y)]],
    colour: colours.line, width: 1 }));
  const yLabels = chart.splits().map((y) => text(chart.tickWords(y), box.x - 6, at.y(y),
    { colour: colours.muted, anchor: "end" }));
  const xLabels = (plot.axes[0]._splits ?? []).map((x) => text(chart.axis.tick(x), at.x(x), bottom + ROW / 2,
    { colour: colours.muted, anchor: "middle" }));
  const marks = chart.marks.map(({ x, up, look }) => ({ colour: colours[look], fill: true,
    line: triangle(at.x(x), up ? box.y : bottom, up) }));
  const best = bests(chart, spec.format).flatMap(({ x, y, look }) => [
    { line: [[at.x(x), box.y], [at.x(x), bottom]], colour: colours[look], width: 1, dash: DASHES[2] },
    text("\u2605", at.x(x), at.y(Math.min(y, range.high)), { colour: colours[look], size: 15, anchor: "middle" })]);
  const legendTop = top + plot.height + ROW;
  const height = legendTop + Math.ceil(legend.length / perRow) * ROW + PAD / 2;
  const title = [spec.title, figure.querySelector(".unit").textContent].filter(Boolean).join(", ");
  return {
    width, height, box,
    back: getComputedStyle(figure.closest(".panel") ?? document.body).backgroundColor,
    inside: [...grid, ...layerShapes(chart, at), ...best, ...marks],
    outside: [
      text(title, PAD, PAD + ROW / 2, { size: 15, bold: true, room: width - 2 * PAD }),
      text(about, PAD, PAD + 1.4 * ROW, { room: width - 2 * PAD }),
      ...yLabels, ...xLabels,
      ...legend.flatMap(({ words, colour, alpha }, i) => {
        const [x, y] = [PAD + (i % perRow) * COLUMN, legendTop + Math.floor(i / perRow) * ROW];
        return [{ line: [[x, y], [x + 14, y]], colour, alpha, width: alpha < 1 ? 10 : 4 },
          text(words, x + 22, y, { room: COLUMN - 34 })];
      }),
    ],
  };
}
