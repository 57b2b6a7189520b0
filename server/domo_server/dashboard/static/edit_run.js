// What people say of a run, and the dialog in which the admin changes it: tags, notes, archived.

import { getJson, h, keyed, setText } from "./dom.js";

const MOST_NOTES = 4000;
const part = {};
let current = null;

/** Draw the tags of a run in a list; `onPick(tag)` is what a click on one does, or null. */
export function renderTags(host, tags, onPick = null) {
  host.hidden = tags.length === 0;
  keyed(host, tags, (tag) => tag, (tag) => {
    if (!onPick) return h("li", { class: "tag" }, tag);
    const button = h("button", { type: "button", class: "tag", title: `Only runs with ${tag}` }, tag);
    button.addEventListener("click", () => onPick(tag));
    return h("li", {}, button);
  }, () => {});
}

/** "a, b" as tags. */
const tagsOf = (text) => text.split(",").map((tag) => tag.trim()).filter(Boolean);

function make() {
  const f = (name, tag, attributes = {}, ...children) =>
    (part[name] = h(tag, attributes, ...children));
  f("dialog", "dialog", { id: "edit-dialog", "aria-labelledby": "edit-title" },
    f("form", "form", { method: "dialog" },
      f("title", "h2", { id: "edit-title" }),
      h("div", {}, h("label", { for: "edit-tags" }, "Tags, with commas between them"),
        f("tags", "input", { type: "text", id: "edit-tags", autocomplete: "off" })),
      h("div", {}, h("label", { for: "edit-notes" }, "Notes, for everybody to read"),
        f("notes", "textarea", { id: "edit-notes", rows: 6, maxlength: MOST_NOTES })),
      h("label", {}, f("archived", "input", { type: "checkbox", id: "edit-archived" }),
        " Archived: left out of the list; nothing is deleted"),
      f("error", "p", { class: "error", role: "alert" }),
      h("div", { class: "row end" },
        f("cancel", "button", { type: "button", class: "quiet" }, "Cancel"),
        f("save", "button", { type: "submit", class: "primary" }, "Save"))));
  part.cancel.addEventListener("click", () => part.dialog.close());
  part.form.addEventListener("submit", save);
  document.body.append(part.dialog);
}

async function save(event) {
  event.preventDefault();
  part.save.disabled = true;
  setText(part.error, "");
  const change = { tags: tagsOf(part.tags.value), notes: part.notes.value,
    archived: part.archived.checked };
  try {
    await getJson(`api/v1/runs/${encodeURIComponent(current.run_id)}`, { method: "PATCH",
      body: JSON.stringify(change), headers: { "Content-Type": "application/json" } });
    part.dialog.close();
    document.dispatchEvent(new Event("runs-changed"));
  } catch (error) {
    setText(part.error, error.message);
  } finally {
    part.save.disabled = false;
  }
}

/** Let the admin change what is said of a run. */
export function editRun(run) {
  if (!part.dialog) make();
  current = run;
  setText(part.title, `Tags and notes of ${run.name}`);
  part.tags.value = run.tags.join(", ");
  part.notes.value = run.notes;
  part.archived.checked = run.archived;
  setText(part.error, "");
  part.dialog.showModal();
}
