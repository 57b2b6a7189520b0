// What is done with points before they are drawn: smoothed, cut off where one is far out, put in columns.

const END_SHARE = 0.05;
const MOST_SHARE = 0.1;
const FAR = 20;
const FEW = 5;

/**
 * An exponential mean of [x, y, ...] points, 0 <= weight < 1; 0 leaves them as they are.
 *
 * It is divided by the weight that it has so far, so that its start is not drawn to 0.
 */
export function smoothed(points, weight) {
  if (!weight) return points;
  let [sum, share] = [0, 0];
  return points.map(([x, y, ...rest]) => {
    sum = weight * sum + (1 - weight) * y;
    share = weight * share + (1 - weight);
    return [x, sum / share, ...rest];
  });
}

/**
 * The values of so many lines that an axis has to show: all but the few that would squeeze the rest.
 *
 * A value is left out that lies further from the bulk than twenty times the bulk's span. The bulk is
 * without a twentieth at either end, or one value of each line, but without a tenth at the most.
 */
export function withoutFarOut(values, numLines = 1) {
  if (values.length < FEW) return values;
  const sorted = values.toSorted((a, b) => a - b);
  const cut = Math.min(Math.max(numLines, Math.floor(END_SHARE * sorted.length)),
    Math.ceil(MOST_SHARE * sorted.length));
  const [low, high] = [sorted[cut], sorted.at(-1 - cut)];
  const size = Math.max(high - low, 0.1 * Math.abs(sorted[sorted.length >> 1]));
  if (size === 0) return values;
  return values.filter((y) => y <= high + FAR * size && y >= low - FAR * size);
}

/** Points that lie beyond the range [low, high]: {x, y, up} each. */
export function beyond(points, { low, high }) {
  return points.filter(([, y]) => y > high || y < low).map(([x, y]) => ({ x, y, up: y > high }));
}

/**
 * The y of points for each of `xs`: undefined where a line goes on, null where it is broken.
 *
 * `gaps` are the x at which something is missing; between the points around one nothing is drawn.
 */
export function column(points, gaps, xs) {
  const known = new Map(points.map(([x, y]) => [x, y]));
  const missing = new Set(gaps);
  const values = xs.map((x) => (known.has(x) ? known.get(x) : undefined));
  let [last, broken] = [-1, false];
  xs.forEach((x, i) => {
    if (known.has(x)) {
      if (broken) values.fill(null, last + 1, i);
      [last, broken] = [i, false];
    } else if (missing.has(x)) {
      broken = true;
    }
  });
  if (broken) values.fill(null, last + 1);
  return values;
}

/** The points at which a line has no neighbour on either side: they are drawn as dots. */
export function alone(values) {
  const near = (i, step) => {
    let at = i + step;
    while (values[at] === undefined && at >= 0 && at < values.length) at += step;
    return values[at] ?? null;
  };
  return values.flatMap((y, i) =>
    (y != null && near(i, -1) === null && near(i, 1) === null ? [i] : []));
}

/** The y of a line at x: there, or where `before` is set the last one that is not later. */
export function valueAt(points, x, before = false) {
  if (x == null) return points.at(-1)?.[1];
  const found = before ? points.findLast(([px]) => px <= x) : points.find(([px]) => px === x);
  return found?.[1];
}
