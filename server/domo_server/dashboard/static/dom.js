// Small helpers around the DOM. Text from outside only ever becomes text nodes and attributes.

export const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** An HTML element. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Set the text if it differs, so that selections and screen readers are left in peace. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set or remove an attribute if it differs. */
export function setAttr(node, name, value) {
  if (value == null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/**
 * Make the children of `parent` match `items`, keeping the element of each key.
 * `create(item)` returns an element; `update(element, item)` is called for old and new alike.
 */
export function keyed(parent, items, key, create, update) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  items.forEach((item, index) => {
    const id = String(key(item));
    let node = old.get(id);
    old.delete(id);
    if (!node) {
      node = create(item);
      node.dataset.key = id;
    }
    if (parent.children[index] !== node) parent.insertBefore(node, parent.children[index] ?? null);
    update(node, item);
  });
  for (const node of old.values()) node.remove();
}

/** The elements below `node` that carry data-f, by that name. */
export function fields(node) {
  node._fields ??= Object.fromEntries(
    [...node.querySelectorAll("[data-f]")].map((part) => [part.dataset.f, part]),
  );
  return node._fields;
}

/** Whether `values` are others than when `owner` was asked last; by identity. */
export function changed(owner, ...values) {
  const before = owner._values;
  owner._values = values;
  return before?.length !== values.length || values.some((value, i) => value !== before[i]);
}

/** Take everything out of a list that is drawn by `keyed`, perhaps only where it has `changed`. */
export function empty(host) {
  host.replaceChildren();
  delete host._values;
}

/**
 * GET JSON; throws an Error with the server's own words, its `fields` and the `status`. Where it
 * needs somebody who is logged in, the window hears `log-in-needed` too.
 */
export async function getJson(url, options) {
  const answer = await fetch(url, options);
  const body = await answer.json().catch(() => null);
  if (answer.status === 401) dispatchEvent(new Event("log-in-needed"));
  if (!answer.ok) {
    const words = body?.error?.message ?? `the coordinator answered ${answer.status}`;
    throw Object.assign(new Error(words), { fields: body?.error?.fields ?? null, status: answer.status });
  }
  return body;
}
