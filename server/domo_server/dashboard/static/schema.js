// What a JSON schema says of one setting, and a text as the value that it means.

/** {type, min, max, choices, fallback, required} of a setting; type as in JSON schema. */
export function ruleOf(schema, key) {
  const own = schema.properties[key] ?? {};
  const all = [own, ...(own.anyOf ?? [])].map((x) => (x.$ref ? resolve(schema, x.$ref) : x));
  const rule = { type: "string", choices: null, fallback: own.default ?? null,
    required: (schema.required ?? []).includes(key) };
  for (const part of all) {
    if (part.type && part.type !== "null" && part.type !== "object") rule.type = part.type;
    if (part.enum) rule.choices = part.enum;
    if (part.type === "boolean") rule.choices = ["false", "true"];
    if (part.items) rule.items = part.items.type;
    for (const bound of ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "pattern"]) {
      if (part[bound] !== undefined) rule[bound] = part[bound];
    }
  }
  return rule;
}

const resolve = (schema, ref) => schema.$defs?.[ref.split("/").at(-1)] ?? {};

const BOUNDS = [
  ["minimum", (x, b) => x >= b, "at least"],
  ["exclusiveMinimum", (x, b) => x > b, "more than"],
  ["maximum", (x, b) => x <= b, "at most"],
  ["exclusiveMaximum", (x, b) => x < b, "less than"],
];

/** What is wrong with a text for a setting; "" if nothing is. */
export function faultOf(rule, text) {
  if (!text) return rule.required ? "needed" : "";
  if (rule.pattern && !new RegExp(rule.pattern).test(text)) {
    return `letters, digits, ${rule.pattern.includes(":") ? ". : _ -" : ". _ -"} only`;
  }
  if (rule.type !== "integer" && rule.type !== "number") return "";
  const value = Number(text);
  if (!Number.isFinite(value)) return "must be a number";
  if (rule.type === "integer" && !Number.isInteger(value)) return "must be a whole number";
  const broken = BOUNDS.find(([name, holds]) => rule[name] !== undefined && !holds(value, rule[name]));
  return broken ? `must be ${broken[2]} ${rule[broken[0]]}` : "";
}

/** The value that a text means; what is no number stays a text, for the server to refuse. */
export function valueOf(rule, text) {
  const number = (x) => (x.trim() !== "" && Number.isFinite(Number(x)) ? Number(x) : x);
  if (rule.type === "integer" || rule.type === "number") return number(text);
  if (rule.type === "boolean") return text === "true";
  if (rule.type !== "array") return text;
  const parts = text.split(",").map((part) => part.trim()).filter(Boolean);
  return rule.items === "number" ? parts.map(number) : parts;
}

/** A value as the text of its field. */
export const textOf = (value) => (Array.isArray(value) ? value.join(", ") : String(value ?? ""));
