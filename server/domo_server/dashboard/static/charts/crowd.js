// Many silos at once: what most of them do, and who is at either end.

/** With more silos than this a line for each tells nothing apart. */
export const CROWD = 12;

const ENDS = 3;

/** The value below which the share `p` of sorted `values` lies; between two, in proportion. */
function quantile(values, p) {
  const at = p * (values.length - 1);
  const below = Math.floor(at);
  const above = values[Math.min(below + 1, values.length - 1)];
  return values[below] + (at - below) * (above - values[below]);
}

/** Lower quartile, median and upper quartile of all lines by x: {low, middle, high}, points each. */
export function spread(lines) {
  const byX = new Map();
  for (const { points } of lines) {
    for (const [x, y] of points) {
      if (!byX.has(x)) byX.set(x, []);
      byX.get(x).push(y);
    }
  }
  const columns = [...byX].sort((a, b) => a[0] - b[0]);
  for (const [, values] of columns) values.sort((a, b) => a - b);
  const at = (p) => columns.map(([x, values]) => [x, quantile(values, p)]);
  return { low: at(0.25), middle: at(0.5), high: at(0.75) };
}

/** The highest and the lowest lines at x: {high, low}, up to three {line, y} each, outermost first. */
export function ends(lines, x) {
  const there = lines.flatMap((line) => {
    const point = line.points.find(([px]) => px === x);
    return point ? [{ line, y: point[1] }] : [];
  });
  there.sort((a, b) => b.y - a.y);
  const high = there.slice(0, ENDS);
  return { high, low: there.slice(high.length).slice(-ENDS).reverse() };
}
