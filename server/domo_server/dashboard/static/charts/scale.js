// Axes: round steps, and a range that rarely changes.

const FACTORS = [1, 2, 5, 10];
const EVEN = 1e-9; // what is closer, by its size, is the same: a mean of 1.5 and 1.5 is off by a rounding

/** A step of 1, 2 or 5 times a power of ten that gives about `wanted` steps over `span`. */
export function niceStep(span, wanted) {
  const raw = span / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = FACTORS.find((f) => f * power >= raw * 0.999) ?? 10;
  return factor * power;
}

/** Multiples of `step` from `low` to `high`. */
export function ticks(low, high, step) {
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step);
}

function ends(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high];
}

/** Whole multiples of the step around the values; from 0 where 0 is near; at most `ceiling`. */
export function niceRange(values, wanted, ceiling = Infinity, fromZero = false) {
  if (values.length === 0) return { low: 0, high: 1, step: 0.2 };
  let [low, high] = ends(values);
  if (low >= 0 && (fromZero || low < 0.5 * high)) low = 0;
  const size = Math.max(Math.abs(low), Math.abs(high));
  const span = high - low > EVEN * size ? high - low : size || 1;
  const step = niceStep(span, wanted);
  low = Math.floor(low / step + 1e-9) * step;
  high = Math.min(ceiling, Math.ceil(high / step - 1e-9) * step);
  return { low, high: high > low ? high : low + step, step };
}

/** 1, 2 or 5 times a power of ten at or below y, and the next above that one. */
function around(y) {
  const power = 10 ** Math.floor(Math.log10(y) + 1e-9);
  const i = FACTORS.findLastIndex((f) => f * power <= y * (1 + 1e-9));
  return [FACTORS[i] * power, FACTORS[i + 1] * power];
}

/** The range of a logarithmic axis around the values above 0. */
export function logRange(values) {
  const known = values.filter((y) => y > 0);
  if (known.length === 0) return { low: 0.1, high: 1 };
  const [min, max] = ends(known);
  const [low] = around(min);
  const [below, above] = around(max);
  const high = max > below * (1 + 1e-9) ? above : below;
  return { low, high: high > low ? high : around(low)[1] };
}

/** Where such an axis is marked: powers of ten, of a long one not all, of a short one others too. */
export function logTicks(low, high) {
  const [first, last] = [low, high].map((y) => Math.log10(y));
  const every = Math.ceil((last - first) / 6);
  const factors = last - first > 2 ? [1] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(first + 1e-9); power <= last + 1e-9; power += 1) {
    if (power % every) continue;
    for (const factor of factors) found.push(Number(`${factor}e${power}`));
  }
  return found.filter((y) => y >= low * (1 - 1e-9) && y <= high * (1 + 1e-9));
}
