// A scene as SVG, for papers and slides.

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const short = (x) => String(Math.round(x * 100) / 100);

/** Colour and opacity apart: not every program reads them as one. */
function paint(name, colour, alpha = 1) {
  const parts = colour.match(/[\d.]+/g) ?? [0, 0, 0];
  const opacity = alpha * Number(parts[3] ?? 1);
  const solid = `rgb(${parts.slice(0, 3).join(",")})`;
  return `${name}="${solid}"${opacity < 1 ? ` ${name}-opacity="${short(opacity)}"` : ""}`;
}

function element({ text, x, y, size, colour, bold, anchor, line, width, dash, alpha, fill }) {
  if (text !== undefined) {
    return `<text x="${short(x)}" y="${short(y)}" dominant-baseline="central" font-size="${size}"` +
      `${bold ? ' font-weight="600"' : ""}${anchor ? ` text-anchor="${anchor}"` : ""} ` +
      `${paint("fill", colour)}>${escaped(text)}</text>`;
  }
  const points = line.map(([px, py]) => `${short(px)},${short(py)}`).join(" ");
  if (fill) return `<polygon points="${points}" ${paint("fill", colour, alpha)}/>`;
  const dashes = dash?.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
  return `<polyline points="${points}" fill="none" stroke-width="${width}"${dashes} ` +
    `stroke-linejoin="round" ${paint("stroke", colour, alpha)}/>`;
}

/** The scene as the text of an SVG file. */
export function writeSvg({ width, height, back, box, inside, outside }) {
  const rect = ({ x, y, width: w, height: t }) =>
    `<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(t)}"`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
      `viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif">`,
    `<clipPath id="box">${rect(box)}/></clipPath>`,
    `${rect({ x: 0, y: 0, width, height })} ${paint("fill", back)}/>`,
    ...outside.map(element),
    '<g clip-path="url(#box)">', ...inside.map(element), "</g>", "</svg>", "",
  ].join("\n");
}
