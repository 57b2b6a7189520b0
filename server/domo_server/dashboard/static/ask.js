// One dialog for everything that is asked back before it is done.

import { byId, setAttr, setText } from "./dom.js";

let current = null;

/**
 * Ask, and do it if the answer is yes.
 *
 * `act(reason)` is awaited; what it throws is shown, and the dialog stays. `reason` is the label
 * of a field for one line of text, or missing.
 */
export function ask({ title, text, action, danger = false, reason = null, act }) {
  current = act;
  setText(byId("ask-title"), title);
  setText(byId("ask-text"), text);
  setText(byId("ask-do"), action);
  setAttr(byId("ask-do"), "class", danger ? "primary danger" : "primary");
  setText(byId("ask-reason-label"), reason ?? "");
  byId("ask-reason-field").hidden = reason === null;
  byId("ask-reason").value = "";
  setText(byId("ask-error"), "");
  byId("ask-dialog").showModal();
}

byId("ask-cancel").addEventListener("click", () => byId("ask-dialog").close());

byId("ask-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("ask-do").disabled = true;
  setText(byId("ask-error"), "");
  try {
    await current(byId("ask-reason").value.trim());
    byId("ask-dialog").close();
  } catch (error) {
    setText(byId("ask-error"), error.message);
  } finally {
    byId("ask-do").disabled = false;
  }
});
