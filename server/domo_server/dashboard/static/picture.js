// A chart as a PNG, with its title and its legend: drawn here, nothing leaves the browser.

import { h } from "./dom.js";

const PAD = 16;
const LINE = 20;
const COLUMN = 220;

/** What the legend shows, without lines that are hidden: {words, colour}. */
function entries(legend) {
  const shown = [...legend.children].filter((item) => item.querySelector(".swatch.thin")
    || item.firstChild.getAttribute("aria-pressed") !== "false");
  return shown.map((item) => {
    const parts = [...item.firstChild.children].slice(1).map((part) => part.innerText.trim());
    return { words: parts.join("  "), colour: getComputedStyle(item.querySelector(".swatch")).color };
  });
}

/** The chart of a figure on a canvas of its own. */
function draw(figure, about) {
  const chart = figure.querySelector("canvas");
  const scale = chart.width / chart.clientWidth;
  const legend = entries(figure.querySelector(".legend"));
  const width = chart.clientWidth + 2 * PAD;
  const perLine = Math.max(1, Math.floor((width - 2 * PAD) / COLUMN));
  const top = PAD + 2 * LINE;
  const legendTop = top + chart.clientHeight + LINE;
  const height = legendTop + Math.ceil(legend.length / perLine) * LINE + PAD / 2;
  const canvas = h("canvas", { width: width * scale, height: height * scale });
  const to = canvas.getContext("2d");
  to.scale(scale, scale);
  const { color } = getComputedStyle(figure);
  to.fillStyle = getComputedStyle(figure.closest(".panel") ?? document.body).backgroundColor;
  to.fillRect(0, 0, width, height);
  to.textBaseline = "middle";
  const write = (text, x, y, font, room) => {
    to.fillStyle = color;
    to.font = `${font} system-ui, sans-serif`;
    to.fillText(text, x, y, room);
  };
  const title = figure.querySelector("h3").textContent;
  const unit = figure.querySelector(".unit").textContent;
  write([title, unit].filter(Boolean).join(", "), PAD, PAD + LINE / 2, "600 15px", width - 2 * PAD);
  write(about, PAD, PAD + 1.4 * LINE, "12px", width - 2 * PAD);
  to.drawImage(chart, PAD, top, chart.clientWidth, chart.clientHeight);
  legend.forEach(({ words, colour }, i) => {
    const x = PAD + (i % perLine) * COLUMN;
    const y = legendTop + Math.floor(i / perLine) * LINE;
    to.fillStyle = colour;
    to.fillRect(x, y - 2, 14, 4);
    write(words, x + 22, y, "12px", COLUMN - 34);
  });
  return canvas;
}

const plainName = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

/** A button that saves the chart of a figure. */
export function pictureButton(title, figure) {
  const button = h("button", { type: "button", class: "hint", title: "Save as PNG",
    "aria-label": `Save ${title} as PNG` }, "\u2193");
  button.addEventListener("click", () => {
    const node = figure();
    if (!node.querySelector("canvas")) return; // nothing was measured yet
    draw(node, document.title).toBlob((blob) => {
      const url = URL.createObjectURL(blob);
      h("a", { href: url, download: `${plainName(`${document.title} ${title}`)}.png` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    });
  });
  return button;
}
