// A scene as a PNG: drawn here, nothing leaves the browser.

import { h } from "../dom.js";

const SCALE = 2; // sharp on paper and on fine screens, whatever this screen is

function paintText(to, { text, x, y, size, colour, bold, anchor, room }) {
  to.globalAlpha = 1;
  to.fillStyle = colour;
  to.font = `${bold ? "600 " : ""}${size}px system-ui, sans-serif`;
  to.textAlign = anchor === "middle" ? "center" : anchor ?? "start";
  to.fillText(text, x, y, room);
}

function paintShape(to, shape) {
  if (shape.text !== undefined) {
    paintText(to, shape);
    return;
  }
  to.globalAlpha = shape.alpha ?? 1;
  to.beginPath();
  shape.line.forEach(([x, y], i) => (i ? to.lineTo(x, y) : to.moveTo(x, y)));
  if (shape.fill) {
    to.fillStyle = shape.colour;
    to.fill();
    return;
  }
  to.strokeStyle = shape.colour;
  to.lineWidth = shape.width;
  to.setLineDash(shape.dash ?? []);
  to.stroke();
}

/** The scene as a blob, twice as fine as it is on the screen. */
export function paintPng({ width, height, back, box, inside, outside }) {
  const canvas = h("canvas", { width: width * SCALE, height: height * SCALE });
  const to = canvas.getContext("2d");
  to.scale(SCALE, SCALE);
  to.textBaseline = "middle";
  to.lineJoin = "round";
  to.fillStyle = back;
  to.fillRect(0, 0, width, height);
  outside.forEach((shape) => paintShape(to, shape));
  to.beginPath();
  to.rect(box.x, box.y, box.width, box.height);
  to.clip();
  inside.forEach((shape) => paintShape(to, shape));
  return new Promise((done) => {
    canvas.toBlob(done);
  });
}
