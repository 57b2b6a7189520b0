// Numbers for people: with units, with a fixed number of digits, in one place.

export const NONE = "\u2013"; // en dash

const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
const count = new Intl.NumberFormat("en");

/** 1437 -> "1,437". */
export const formatCount = (x) => (isNumber(x) ? count.format(x) : NONE);

/** 0.912 -> "91.2 %". */
export const formatPercent = (x) => (isNumber(x) ? `${(100 * x).toFixed(1)} %` : NONE);

/** Loss with four significant digits or so; large and tiny values in powers of ten. */
export function formatLoss(x) {
  if (!isNumber(x)) return NONE;
  if (Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 1e-3)) return x.toExponential(1);
  return x.toFixed(Math.abs(x) < 10 ? 3 : 1);
}

/** 1530000 -> "1.5 MB". */
export function formatBytes(x) {
  if (!isNumber(x)) return NONE;
  if (x < 1000) return `${x} B`;
  const units = ["kB", "MB", "GB", "TB", "PB"];
  let unit = -1;
  do {
    x /= 1000;
    unit += 1;
  } while (x >= 999.95 && unit < units.length - 1);
  return `${x.toFixed(1)} ${units[unit]}`;
}

/** 75 -> "1 min 15 s". */
export function formatDuration(x) {
  if (!isNumber(x)) return NONE;
  const whole = Math.max(0, Math.round(x));
  const [days, hours] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24];
  const [minutes, seconds] = [Math.floor(whole / 60) % 60, whole % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  if (minutes) return `${minutes} min ${String(seconds).padStart(2, "0")} s`;
  return `${seconds} s`;
}

/** 0.4213 -> "0.421 s"; from ten minutes on in minutes. */
export function formatSeconds(x) {
  if (!isNumber(x)) return NONE;
  if (x >= 600) return formatDuration(x);
  return `${x.toFixed(x < 1 ? 3 : x < 10 ? 2 : 1)} s`;
}

/** Any number, with three or four digits that count. */
export function formatNumber(x) {
  if (!isNumber(x)) return NONE;
  const size = Math.abs(x);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return x.toExponential(2);
  return x.toFixed(size < 10 ? 3 : size < 1000 ? 1 : 0);
}

/** 3050 -> "3.1 kB/s". */
export const formatSpeed = (x) => (isNumber(x) ? `${formatBytes(Math.round(x))}/s` : NONE);

/** How long ago, for something heard of `x` seconds ago. */
export function formatAgo(x) {
  if (!isNumber(x)) return "not since start";
  return x < 2 ? "now" : `${formatDuration(x)} ago`;
}

/** The time of day of an ISO instant, here. */
export function formatClock(iso, seconds = true) {
  const when = new Date(iso ?? Number.NaN); // null would be 1970
  if (Number.isNaN(when.getTime())) return NONE;
  const options = { hour: "2-digit", minute: "2-digit", hour12: false };
  return when.toLocaleTimeString("en-GB", seconds ? { ...options, second: "2-digit" } : options);
}

/** Day and time of an ISO instant, here. */
export function formatDay(iso) {
  const when = new Date(iso ?? Number.NaN); // null would be 1970
  if (Number.isNaN(when.getTime())) return NONE;
  const day = when.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return `${day}, ${formatClock(iso, false)}`;
}

/** Seconds between two ISO instants; to now if the second is missing. */
export function secondsBetween(from, to) {
  if (!from) return null;
  const seconds = ((to ? new Date(to) : new Date()) - new Date(from)) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}
