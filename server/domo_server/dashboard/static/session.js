// Who is logged in, in the header: the admin, who can log out, or a reader, who can log in.

import { byId, getJson, setAttr, setText } from "./dom.js";

/** Ask who this is; what is not there for a reader is hidden by the class of the body. */
export async function whoIAm() {
  const { admin } = await getJson("api/v1/session").catch(() => ({ admin: false }));
  setText(byId("role"), admin ? "Admin" : "Read-only");
  setAttr(byId("role"), "title", admin ? "Logged in with the admin token"
    : "Everything can be looked at. To change anything, log in with the admin token");
  byId("logout").hidden = !admin;
  byId("login").hidden = admin;
  document.body.classList.toggle("admin", admin);
  return admin;
}

/** The page that is open now is the one that comes back after the log-in or log-out. */
export function keepAddress() {
  setAttr(byId("login"), "href", `login${location.hash}`);
  setAttr(byId("logout"), "action", `logout${location.hash}`);
}
