// Until when certificates are valid, in words; soon is 14 days, as at the coordinator.

import { byId, setAttr, setText } from "./dom.js";

const DAY_MS = 86400e3;
const SOON_DAYS = 14;

/** {words, isSoon} of the end of a certificate. */
export function validity(end) {
  const when = new Date(end);
  const days = Math.floor((when - Date.now()) / DAY_MS);
  const day = when.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  if (days < 0) return { words: `expired on ${day}`, isSoon: true };
  const left = days === 1 ? "1 day" : `${days} days`;
  return { words: `valid until ${day}, ${left} left`, isSoon: days < SOON_DAYS };
}

/** The coordinator's own: in the footer, and at the top once it ends soon. */
export function renderCertificate({ tls, certificate_end: end }) {
  const { words, isSoon } = end ? validity(end) : { words: "", isSoon: false };
  setText(byId("certificate"), end ? `TLS certificate ${words}` : tls ? "TLS" : "no TLS");
  setAttr(byId("certificate"), "class", isSoon ? "note" : null);
  byId("expiry").hidden = !isSoon;
  setText(byId("expiry"), isSoon ? `The coordinator's certificate: ${words}` : "");
}
