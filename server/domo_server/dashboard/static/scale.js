// Axes: round steps, and a range that rarely changes.

/** A step of 1, 2 or 5 times a power of ten that gives about `wanted` steps over `span`. */
export function niceStep(span, wanted) {
  const raw = span / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = [1, 2, 5, 10].find((f) => f * power >= raw * 0.999) ?? 10;
  return factor * power;
}

/** Multiples of `step` from `low` to `high`. */
export function ticks(low, high, step) {
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step);
}

/** Whole multiples of the step around the values; from 0 where 0 is near; at most `ceiling`. */
export function niceRange(values, wanted, ceiling = Infinity, fromZero = false) {
  if (values.length === 0) return { low: 0, high: 1, step: 0.2 };
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low >= 0 && (fromZero || low < 0.5 * high)) low = 0;
  const span = high - low || Math.abs(high) || 1;
  const step = niceStep(span, wanted);
  low = Math.floor(low / step + 1e-9) * step;
  high = Math.min(ceiling, Math.ceil(high / step - 1e-9) * step);
  return { low, high: high > low ? high : low + step, step };
}

/** The last round on an axis: all of them, or for a young run a round number that is not far. */
export function lastRound(done, planned) {
  const wanted = Math.max(10, 1.25 * done);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const nice = [1, 1.5, 2, 3, 5, 7.5, 10].find((f) => f * power >= wanted) * power;
  return Math.min(planned, Math.ceil(nice));
}
