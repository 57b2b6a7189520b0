// How uPlot is to draw a chart.

import { alone } from "./series.js";

const DASHES = [[], [6, 4], [2, 3]];

/** A colour with so much of it; a plot that is replaced may draw once more, of colours that are gone. */
const faded = (colour = "transparent", alpha = 1) =>
  (alpha < 1 ? colour.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`) : colour);

function series(chart, { look, dash, width, alpha }) {
  const stroke = () => faded(chart.colours[look], alpha);
  const dots = { size: 6, fill: stroke, filter: (plot, i, all) => (all ? null : alone(plot.data[i])) };
  const points = chart.kind === "crowd" || alpha < 1 || width === 0 ? { show: false } : dots;
  return { stroke, width, dash: DASHES[dash % DASHES.length], points };
}

/** uPlot's options for a chart with its `layers`, `range`, `window`, `axis`, `colours`, `frame`. */
export function uPlotOptions(chart) {
  const muted = () => chart.colours.muted;
  const grid = { stroke: () => chart.colours.line, width: 1 };
  const em = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const font = `${Math.round(0.8 * em)}px system-ui, sans-serif`;
  const at = (look) => chart.layers.findIndex((layer) => layer.look === look) + 1;
  const host = chart.frame.plot;
  return {
    width: host.clientWidth,
    height: host.clientHeight,
    padding: [10, chart.isLater ? 28 : 14, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false, dist: 5, setScale: false },
      sync: { key: chart.board.sync, setSeries: false },
      points: chart.kind === "crowd" ? { show: false } : {} },
    focus: { alpha: 0.25 },
    bands: chart.band ? [{ series: [at("upper"), at("lower")], fill: () => chart.colours.band }] : [],
    scales: {
      x: { time: false, range: () => chart.window },
      y: { distr: chart.isLog ? 3 : 1, range: () => [chart.range.low, chart.range.high] },
    },
    axes: [
      { stroke: muted, font, grid: { show: false }, ticks: { show: false }, incrs: chart.axis.steps,
        size: 2 * em, space: (chart.isLater ? 5 : 3.2) * em, values: (_, xs) => xs.map(chart.axis.tick) },
      { stroke: muted, font, grid, ticks: { show: false }, size: 4.1 * em, gap: 6, filter: (_, ys) => ys,
        splits: () => chart.splits(), values: (_, ys) => ys.map((y) => chart.tickWords(y)) },
    ],
    series: [{}, ...chart.layers.map((layer) => series(chart, layer)),
      { stroke: () => chart.colours.lit, width: 3, points: { show: false } }],
    hooks: {
      setCursor: [() => chart.showValues()],
      setSelect: [(plot) => chart.frame.select(plot)],
      draw: [(plot) => chart.overlay.place(plot, chart)],
    },
  };
}
