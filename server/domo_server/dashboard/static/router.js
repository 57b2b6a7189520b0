// Which page is shown: the part of the address after #. One document, so the stream goes on.

import { VIEW_WORDS, badValues } from "./charts/view.js";

const PAGES = [
  ["overview", /^\/?$/],
  ["runs", /^\/runs$/],
  ["run", /^\/runs\/([^/]+)$/],
  ["compare", /^\/compare$/],
  ["silo", /^\/silos\/([^/]+)$/],
  ["new", /^\/new$/],
];

/** What a query of a page may say. */
export const KNOWN = {
  overview: VIEW_WORDS, run: VIEW_WORDS, compare: ["runs", ...VIEW_WORDS], silo: [], new: ["from"],
  runs: ["text", "state", "method", "task", "tag", "archived", "sort"],
};

/** Part of an address in its own letters; null: it is cut or mangled. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

/** What is wrong with a query, in words; null: nothing. */
function unknownIn(page, query) {
  const words = [...new Set(query.keys())].filter((word) => !KNOWN[page].includes(word));
  if (KNOWN[page].includes("zoom")) words.push(...badValues(query));
  if (!words.length) return null;
  const known = KNOWN[page].length ? `Known here: ${KNOWN[page].join(", ")}.` : "This page takes none.";
  return `This address has ${words.join(", ")}, which means nothing here and is passed over. ${known}`;
}

/**
 * The page, what it is of, the query, and what is wrong with the address in words:
 * {page, id, query, unknown}. An unknown address is the overview.
 */
export function currentRoute() {
  const [path, text] = location.hash.slice(1).split("?");
  const query = new URLSearchParams(text);
  for (const [page, pattern] of PAGES) {
    const found = pattern.exec(path);
    const id = decoded(found?.[1] ?? "");
    if (found && id !== null) return { page, id, query, unknown: unknownIn(page, query) };
  }
  const unknown = `There is no page ${path}. This is the overview.`;
  return { page: "overview", id: "", query: new URLSearchParams(), unknown };
}

export const runLink = (id) => `#/runs/${encodeURIComponent(id)}`;
export const siloLink = (id) => `#/silos/${encodeURIComponent(id)}`;

/** Of these runs; `query` may say how their curves are looked at. */
export function compareLink(ids, query = new URLSearchParams()) {
  const rest = new URLSearchParams(query);
  rest.delete("runs");
  const more = rest.size ? `&${rest}` : "";
  return `#/compare?runs=${ids.map(encodeURIComponent).join(",")}${more}`;
}

export const newLink = (from) => (from ? `#/new?from=${encodeURIComponent(from)}` : "#/new");

/** The same page with another query; `isSmall`: no step that Back goes to. */
export function setQuery(query, isSmall) {
  const [path] = location.hash.slice(1).split("?");
  const address = `#${path || "/"}${query ? `?${query}` : ""}`;
  if (address === (location.hash || "#/")) return;
  if (isSmall) {
    history.replaceState(null, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}

/** The run ids of a comparison. */
export const comparedRuns = (route) =>
  (route.query.get("runs") ?? "").split(",").filter(Boolean);
