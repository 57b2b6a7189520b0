// Who is logged in, in the header, and the way to the log-in of whoever may not even read.

import { byId, getJson, setAttr, setText } from "./dom.js";

const WORDS = { viewer: "Viewer", auditor: "Auditor", admin: "Admin" };
const MAY = {
  viewer: "May look at everything",
  auditor: "May look at everything, and take models",
  admin: "May look at everything, take models, and change what goes on",
};
const OPERATOR = "the admin"; // whoever has the file admin-token: a role more than a name

let leaving = false;

/** To the log-in; the page that is open now is the one that comes back after it. */
export function toLogin() {
  if (leaving) return;
  leaving = true;
  location.assign(`login${location.hash}`);
}

/**
 * Ask who this is; null: nobody says it for now. What a role may not do is hidden by the classes of
 * the body.
 */
export async function whoIAm() {
  const found = await getJson("api/v1/session").catch(() => null);
  if (found === null) return null;
  const { admin, role, name } = found;
  if (role === null) toLogin();
  const shown = name === OPERATOR ? null : name;
  setText(byId("person"), shown ?? "");
  setAttr(byId("person"), "title", shown);
  byId("person").hidden = shown === null;
  setText(byId("role"), name === null ? "Read-only" : WORDS[role] ?? "");
  setAttr(byId("role"), "title", name === null
    ? "Everything can be looked at. To do more, log in" : MAY[role]);
  byId("logout").hidden = name === null;
  byId("login").hidden = name !== null;
  document.body.classList.toggle("admin", admin);
  document.body.classList.toggle("auditor", admin || role === "auditor");
  return found;
}

/** The page that is open now is the one that comes back after the log-in or log-out. */
export function keepAddress() {
  setAttr(byId("login"), "href", `login${location.hash}`);
  setAttr(byId("logout"), "action", `logout${location.hash}`);
}
