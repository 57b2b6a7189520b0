// The settings of runs, as lists and as a table of what differs.

import { getJson, h, keyed, setAttr, setText } from "./dom.js";

const AGAIN_MS = 2000;

let asked = null;
let options = null;

/** The schema, methods and tasks; null until they are here, and then `onChange` is called. */
export function runOptions(onChange) {
  asked ??= getJson("api/v1/run-options").then(
    (found) => (options = found),
    () => setTimeout(() => (asked = null), AGAIN_MS),
  );
  if (!options) asked.then(onChange);
  return options;
}

/** A setting in words. */
export function showSetting(value) {
  if (value == null) return "\u2013";
  if (Array.isArray(value)) return value.length ? value.map(showSetting).join(", ") : "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const sameAs = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/**
 * A config with what it means where it says nothing: the default of a setting that is left out, or
 * that an older version did not know; and of one without a value what that stands for.
 */
export function asMeant(config, onChange) {
  const known = runOptions(onChange)?.config_schema.properties;
  if (!known) return config;
  const meant = { ...config };
  for (const [key, { default: fallback, unset, unless = [] }] of Object.entries(known)) {
    meant[key] ??= fallback ?? null;
    if (meant[key] === null && unset !== undefined && unless.every((other) => config[other] == null)) {
      meant[key] = unset;
    }
  }
  return meant;
}

/** A list of all settings of one run; those that are not at their default stand out. */
export function settingRows(host, given, onChange) {
  const known = runOptions(onChange)?.config_schema.properties ?? {};
  const [config, plain] = [asMeant(given, onChange), asMeant({}, onChange)];
  const create = (key) => h("div", {}, h("dt", {}, key), h("dd", {}));
  keyed(host, Object.keys(config), (key) => key, create, (row, key) => {
    setText(row.lastChild, showSetting(config[key]));
    const own = key in known && !sameAs(config[key], plain[key]);
    setAttr(row, "class", own ? "own" : null);
  });
}

/** Keys in the order of the first config, each with whether its values differ. */
export function comparedKeys(configs) {
  const keys = [...new Set(configs.flatMap((config) => Object.keys(config)))];
  return keys.map((key) => ({
    key, differs: configs.some((config) => !sameAs(config[key], configs[0][key])),
  }));
}
