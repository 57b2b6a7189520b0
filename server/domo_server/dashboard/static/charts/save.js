// The chart as a file: PNG, SVG, and its numbers as CSV.

import { h } from "../dom.js";
import { paintPng } from "./paint.js";
import { sceneOf } from "./scene.js";
import { writeSvg } from "./svg.js";

const FREE_MS = 1000; // the download has begun by then
const plainName = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

/** A cell of RFC 4180; a text that a spreadsheet would take for a formula becomes plain text. */
function cell(value) {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** What was measured, a row for each point: [x, y, round] of lines {name, raw}. */
export function tableOf(lines, unit) {
  const own = unit === "round" ? [] : [unit];
  const rows = lines.flatMap(({ name, raw }) => raw.map(([x, y, round]) =>
    [name, round, ...(own.length ? [x] : []), y]));
  return [["line", "round", ...own, "value"], ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

const KINDS = {
  PNG: async (chart) => paintPng(sceneOf(chart, document.title)),
  SVG: async (chart) => new Blob([writeSvg(sceneOf(chart, document.title))], { type: "image/svg+xml" }),
  CSV: async ({ lines, silos, axis }) =>
    new Blob([tableOf([...lines, ...(silos ?? [])], axis.unit)], { type: "text/csv" }),
};

async function save(chart, kind) {
  if (!chart.plot) return; // nothing was drawn yet
  const url = URL.createObjectURL(await KINDS[kind](chart));
  const name = `${plainName(`${document.title} ${chart.spec.title}`)}.${kind.toLowerCase()}`;
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), FREE_MS);
}

/** A button with the kinds of file that a chart can be saved as. */
export function saveMenu(chart) {
  const { title } = chart.spec;
  const menu = h("details", { class: "menu save" },
    h("summary", { class: "hint", title: "Save as PNG, SVG or CSV", "aria-label": `Save ${title}` }, "\u2193"));
  const list = h("div", { class: "menu-list" });
  for (const kind of Object.keys(KINDS)) {
    const button = h("button", { type: "button", class: "quiet", "aria-label": `Save ${title} as ${kind}`,
      title: `Save as ${kind}` }, kind);
    button.addEventListener("click", () => {
      save(chart, kind);
      menu.open = false;
    });
    list.append(button);
  }
  menu.append(list);
  closing(menu);
  return menu;
}

/** A menu closes by Escape, and where the focus or the pointer goes elsewhere. */
export function closing(menu) {
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.firstChild.focus();
  });
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  addEventListener("pointerdown", (event) => {
    if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
}
