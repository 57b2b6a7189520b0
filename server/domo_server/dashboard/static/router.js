// Which page is shown: the part of the address after #. One document, so the stream goes on.

const PAGES = [
  ["overview", /^\/?$/],
  ["runs", /^\/runs$/],
  ["run", /^\/runs\/([^/]+)$/],
  ["compare", /^\/compare$/],
  ["silo", /^\/silos\/([^/]+)$/],
  ["new", /^\/new$/],
];

/** The page, what it is of, and the query: {page, id, query}. An unknown address is the overview. */
export function currentRoute() {
  const [path, query] = location.hash.slice(1).split("?");
  for (const [page, pattern] of PAGES) {
    const found = pattern.exec(path);
    if (found) {
      return { page, id: decodeURIComponent(found[1] ?? ""), query: new URLSearchParams(query) };
    }
  }
  return { page: "overview", id: "", query: new URLSearchParams() };
}

export const runLink = (id) => `#/runs/${encodeURIComponent(id)}`;
export const siloLink = (id) => `#/silos/${encodeURIComponent(id)}`;
export const compareLink = (ids) => `#/compare?runs=${ids.map(encodeURIComponent).join(",")}`;
export const newLink = (from) => (from ? `#/new?from=${encodeURIComponent(from)}` : "#/new");

/** The run ids of a comparison. */
export const comparedRuns = (route) =>
  (route.query.get("runs") ?? "").split(",").filter(Boolean);
