// What is drawn of lines, from the bottom to the top: bands, raw values, smoothed ones, colours.

import { spread } from "./crowd.js";
import { colourClass, dashOf } from "./legend.js";
import { smoothed, withoutFarOut } from "./series.js";

const FAINT = 0.3;

const layer = (line, look, more = {}) =>
  ({ id: line.id, points: line.points, gaps: line.gaps ?? [], look, dash: 0, width: 2, alpha: 1,
    shown: true, ...more });

/** Lines as they are drawn, with what was measured kept aside as `raw`; far out ones move no mean. */
export function smoothLines(lines, weight) {
  if (!weight) return lines.map((line) => ({ ...line, raw: line.points }));
  const kept = new Set(withoutFarOut(lines.flatMap(({ points }) => points.map(([, y]) => y)),
    lines.length));
  return lines.map((line) => ({ ...line, raw: line.points,
    points: smoothed(line.points.filter(([, y]) => kept.has(y)), weight) }));
}

const rawLayer = (line, look) => layer({ ...line, points: line.raw }, look, { width: 1, alpha: FAINT });

/** A few lines: each in its colour, what was measured faintly behind what is smoothed. */
function fewLayers(lines, { smooth, hide }) {
  return lines.flatMap((line) => {
    const [look, shown] = [colourClass(line.slot), !hide.includes(line.id)];
    const main = layer(line, look, { dash: dashOf(line.slot), shown });
    return smooth ? [{ ...rawLayer(line, look), shown }, main] : [main];
  });
}

const edges = (low, high) => [layer({ id: "upper", points: high }, "upper", { width: 0 }),
  layer({ id: "lower", points: low }, "lower", { width: 0 })];

/** Many lines: all in grey, the middle half as a band, the median, and what is picked in colours. */
function crowdLayers(lines, band, { smooth }, picked) {
  const chosen = lines.filter(({ id }) => picked.has(id));
  return [
    ...lines.map((line) => layer(line, "thin", { width: 1 })),
    ...edges(band.low, band.high),
    layer({ id: "median", points: band.middle }, "s1", { width: 3 }),
    ...chosen.flatMap((line) => {
      const look = colourClass(picked.get(line.id));
      return smooth ? [rawLayer(line, look), layer(line, look)] : [layer(line, look)];
    }),
  ];
}

/** The lowest and the highest of the silos' lines by x. */
function extent(lines) {
  const byX = new Map();
  for (const { points } of lines) {
    for (const [x, y] of points) {
      const [low, high] = byX.get(x) ?? [y, y];
      byX.set(x, [Math.min(low, y), Math.max(high, y)]);
    }
  }
  const columns = [...byX].sort((a, b) => a[0] - b[0]);
  return { low: columns.map(([x, [low]]) => [x, low]), high: columns.map(([x, [, high]]) => [x, high]) };
}

/** {layers, band, kind} of a chart; `kind` is few, crowd, or spread: one line and the silos around it. */
export function layersOf({ lines, crowd, silos }, view, picked) {
  if (crowd) {
    const band = spread(lines);
    return { kind: "crowd", band, layers: crowdLayers(lines, band, view, picked) };
  }
  const layers = fewLayers(lines, view);
  if (!silos) return { kind: "few", band: null, layers };
  const band = extent(silos);
  return { kind: "spread", band, layers: [...edges(band.low, band.high), ...layers] };
}
