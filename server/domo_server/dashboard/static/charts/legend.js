// What the lines of a chart are: of a few all of them, of many the middle and who is at either end.

import { ends } from "./crowd.js";
import { fields, h, keyed, setAttr, setText } from "../dom.js";
import { NONE } from "../format.js";
import { valueAt } from "./series.js";

const NUM_COLOURS = 8;

export const colourClass = (slot) => `s${((slot - 1) % NUM_COLOURS) + 1}`;
export const dashOf = (slot) => Math.floor((slot - 1) / NUM_COLOURS);

/** The rows for a few lines: each with its value at x, the newest if x is null. */
function fewRows({ lines, board, isLater }, x) {
  return lines.map((line) => {
    const hidden = board.view.hide.includes(line.id);
    return { key: line.id, id: line.id, name: line.name, look: colourClass(line.slot),
      dash: dashOf(line.slot), y: valueAt(line.raw, x, isLater), pressed: !hidden,
      title: `${hidden ? "Show" : "Hide"} ${line.name}`, act: () => board.toggle(line.id) };
  });
}

/** The rows for a line and the silos around it: how far these lie apart, and who is at which end. */
function spreadRows(plot, x) {
  const at = x ?? plot.band.low.at(-1)?.[0];
  const there = plot.silos.map((line) => ({ line, y: valueAt(line.raw, at, plot.isLater) }))
    .filter(({ y }) => y !== undefined).sort((a, b) => a.y - b.y);
  const [low, high] = [there[0], there.at(-1)];
  const end = (key, found) => ({ key, look: "s1 half", name: `${key}: ${found?.line.name ?? NONE}`,
    y: found?.y });
  if (!plot.better) return [...fewRows(plot, x), end("lowest", low), end("highest", high)];
  return [...fewRows(plot, x), { key: "silos", name: "silos", look: "s1 half", y: low?.y, to: high?.y },
    end("worst", plot.better === "higher" ? low : high)];
}

/** The rows for many lines; who is picked and at an end is not named twice. */
function crowdRows({ lines, board, band, isLater }, x) {
  const at = x ?? band.middle.at(-1)?.[0];
  const { high, low } = ends(lines.map((line) => ({ ...line, points: line.raw })), at);
  const row = (key, found, words, sign) => {
    const id = found?.line.id;
    const picked = board.picked.has(id);
    return { key, id, sign, words, name: found?.line.name ?? NONE, y: found?.y,
      look: picked ? colourClass(board.picked.get(id)) : "thin", pressed: picked,
      title: id && `${picked ? "Highlight no more" : "Highlight"} ${id}`,
      act: () => id && board.pick(id) };
  };
  const named = new Set([...high, ...low].map(({ line }) => line.id));
  const picked = lines.filter(({ id }) => board.picked.has(id) && !named.has(id)).map((line) =>
    row(`picked ${line.id}`, { line, y: valueAt(line.raw, at, isLater) }));
  return [
    { key: "median", name: "median", look: "s1", y: valueAt(band.middle, at) },
    { key: "half", name: "quartiles", look: "s1 half", y: valueAt(band.low, at),
      to: valueAt(band.high, at) },
    ...[0, 1, 2].flatMap((i) => [row(`high ${i}`, high[i], "highest", "\u25b2"),
      row(`low ${i}`, low[i], "lowest", "\u25bc")]),
    ...picked,
  ];
}

const ROWS = { few: fewRows, spread: spreadRows, crowd: crowdRows };

export class Legend {
  /** `plot` has `lines`, `board`, `spec`, `kind`, and perhaps `band` and `silos`. */
  constructor(plot) {
    this.plot = plot;
    this.node = h("ul", { class: "legend", "aria-label": `Lines of ${plot.spec.title}` });
    this.rows = new Map();
    const lit = (event) => {
      const item = event.target.closest("li");
      plot.board.focus(this.rows.get(item?.dataset.key)?.id ?? null);
    };
    this.node.addEventListener("pointerover", lit);
    this.node.addEventListener("focusin", lit);
    this.node.addEventListener("pointerleave", () => plot.board.focus(null));
    this.node.addEventListener("focusout", (event) => {
      if (this.node.contains(event.relatedTarget)) return;
      queueMicrotask(() => plot.board.focus(null)); // an entry may be on its way out of the list
    });
  }

  show(x) {
    this.node.classList.toggle("crowd", this.plot.kind === "crowd");
    const rows = ROWS[this.plot.kind](this.plot, x);
    this.rows = new Map(rows.map((row) => [row.key, row]));
    const { format } = this.plot.spec;
    const create = (row) => {
      const parts = [h("i", { "data-f": "swatch" }),
        h("span", { class: "name" }, h("span", { "aria-hidden": "true", "data-f": "sign" }),
          h("span", { class: "only-read", "data-f": "words" }), h("span", { "data-f": "name" })),
        h("b", { "data-f": "value" })];
      if (!row.act) return h("li", {}, h("span", { class: "entry" }, ...parts));
      const button = h("button", { type: "button", class: "entry" }, ...parts);
      button.addEventListener("click", () => this.rows.get(row.key)?.act());
      return h("li", {}, button);
    };
    keyed(this.node, rows, (row) => row.key, create, (item, row) => {
      const part = fields(item);
      setAttr(part.swatch, "class", `swatch ${row.look}`);
      setAttr(part.swatch, "data-dash", row.dash || null);
      if (row.act) {
        setAttr(item.firstChild, "aria-pressed", String(row.pressed));
      }
      setAttr(item.firstChild, "title", row.title ?? row.name);
      setText(part.sign, row.sign ? `${row.sign} ` : "");
      setText(part.words, row.words ? `${row.words}: ` : "");
      setText(part.name, row.name);
      setText(part.value, row.to === undefined ? format(row.y)
        : `${format(row.y)} \u2013 ${format(row.to)}`);
    });
  }

  /** All of it in words, for who cannot see it. */
  words() {
    return [...this.node.children].map((item) => {
      const part = fields(item);
      return `${part.words.textContent}${part.name.textContent} ${part.value.textContent}`;
    }).join(", ");
  }
}
