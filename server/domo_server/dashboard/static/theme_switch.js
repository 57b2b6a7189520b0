// The button that goes from the system's colours to light to dark.

import { byId, setAttr, setText } from "./dom.js";

const NEXT = { auto: "light", light: "dark", dark: "auto" };
const WORDS = { auto: "Colours: as the system", light: "Colours: light", dark: "Colours: dark" };
const SIGNS = { auto: "\u25D0", light: "\u2600", dark: "\u263E" };

const root = document.documentElement;

function show() {
  const now = root.dataset.theme in NEXT ? root.dataset.theme : "auto";
  setText(byId("theme"), SIGNS[now]);
  setAttr(byId("theme"), "aria-label", `${WORDS[now]}. Change`);
  setAttr(byId("theme"), "title", WORDS[now]);
}

/** Wire the button; `onChange` is called whenever colours have changed, by whatever. */
export function setUpTheme(onChange) {
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = NEXT[root.dataset.theme] ?? "light";
    show();
    onChange();
    try {
      localStorage.setItem("domo-theme", root.dataset.theme);
    } catch {
      // the browser keeps nothing: the choice holds for this page
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", onChange);
  show();
}
