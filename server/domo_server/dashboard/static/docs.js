// The routes, read from the OpenAPI document.

import { byId, getJson, h } from "./dom.js";

function exampleOf(content) {
  const [type, media] = Object.entries(content ?? {})[0] ?? [];
  if (!media || media.example === undefined) return [];
  const { example } = media;
  const text = typeof example === "string" ? example : JSON.stringify(example, null, 2);
  return [h("p", { class: "muted small" }, type), h("pre", { tabindex: 0 }, text)];
}

/** Text in which `this` is code. */
const prose = (text) =>
  (text ?? "").split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

function parameterRow(parameter) {
  return h("li", {}, h("code", {}, parameter.name),
    ` in ${parameter.in}${parameter.required ? ", required" : ""}. ${parameter.description ?? ""}`);
}

function operation(path, method, spec) {
  const parameters = (spec.parameters ?? []).map(parameterRow);
  const body = spec.requestBody
    ? [h("h3", {}, "Body"), ...exampleOf(spec.requestBody.content)] : [];
  const answers = Object.entries(spec.responses).map(([status, answer]) =>
    h("details", {}, h("summary", {}, `${status}: `, ...prose(answer.description)),
      ...exampleOf(answer.content)));
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, h("code", {}, `${method.toUpperCase()} ${path}`)),
    h("p", {}, ...prose(spec.description)),
    spec.security ? h("p", { class: "muted" }, `Needs the role ${spec["x-role"]}.`) : "",
    parameters.length ? h("ul", {}, ...parameters) : "",
    ...body,
    h("h3", {}, "Answers"),
    ...answers,
  );
}

try {
  const document_ = await getJson("/api/v1/openapi.json");
  byId("about").replaceChildren(...prose(document_.info.description));
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, spec] of Object.entries(methods)) {
      byId("main").append(operation(path, method, spec));
    }
  }
} catch (error) {
  byId("about").textContent = error.message;
}
