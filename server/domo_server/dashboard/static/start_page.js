// The form that starts a run. The server checks it; what it says stands at the field it is about.

import { startRun } from "./actions.js";
import { byId, getJson, h, keyed, setAttr, setText } from "./dom.js";
import { AS_JSON, GROUPS } from "./form_fields.js";
import { runLink } from "./router.js";
import { faultOf, ruleOf, textOf, valueOf } from "./schema.js";
import { runOptions } from "./settings.js";

const KINDS = { paper: "Compared in the paper", variant: "Variants that average", preset: "Presets" };
const FIRST = { task: "digits", num_rounds: "15" };

export class StartPage {
  constructor(host, draw) {
    this.host = host;
    this.draw = draw;
    this.fields = new Map(); // key -> {input, error, rule, row}
  }

  title() {
    return "New run";
  }

  enter(route) {
    this.from = route.query.get("from");
    this.filled = null;
  }

  update(state) {
    const options = runOptions(this.draw);
    if (!options) return;
    this.options = options;
    if (!this.form) this.make(options);
    byId("form-login").hidden = state.isAdmin;
    this.submit.disabled = !state.isAdmin || this.busy;
    const silos = state.status.silos.filter((x) => x.role === "trainer");
    keyed(byId("list-silos"), silos, (x) => x.silo_id, (x) => h("option", { value: x.silo_id }), () => {});
    if (this.filled === null) this.fill(silos.filter((x) => x.phase !== "offline").length);
  }

  make({ tasks }) {
    const groups = GROUPS.map((group) => this.group(group));
    this.other = h("textarea", { id: "f-other", rows: 4, spellcheck: "false", autocomplete: "off",
      "aria-describedby": "e-other", placeholder: '{"weights": {"site-a": 2, "site-b": 1}}' });
    this.otherError = h("p", { class: "error small", id: "e-other" });
    this.preview = h("pre", { tabindex: 0, "aria-label": "Config that is sent" });
    this.problem = h("p", { class: "error", role: "alert", id: "form-error" });
    this.submit = h("button", { type: "submit", class: "primary" }, "Start run");
    this.form = h("form", { class: "start", novalidate: true, "aria-labelledby": "start-title" },
      ...groups,
      h("details", { class: "panel" }, h("summary", {}, h("h2", {}, "As JSON")),
        h("label", { for: "f-other", class: "block" },
          `Other settings (${AS_JSON.join(", ")}; weights as a table); they win over the fields above`),
        this.other, this.otherError, h("p", { class: "muted small" }, "What is sent:"), this.preview),
      h("div", { class: "panel send" }, this.problem, h("p", { class: "muted", id: "form-login" },
        "To start a run, log in with the role admin first."),
        h("div", { class: "row end" },
          h("button", { type: "button", class: "quiet", id: "form-reset" }, "Defaults"), this.submit)));
    const list = (id, items) => h("datalist", { id }, ...items);
    this.host.append(
      h("section", { class: "panel", "aria-label": "About" }, h("h1", { id: "start-title" }, "New run"),
        h("p", { class: "muted" }, "Defaults are the paper's best on its data. Where a run falls apart, a fifth " +
          "of the step size and milestones often hold. A field that the method does not look at is greyed out.")),
      this.form, list("list-silos", []),
      list("list-tasks", tasks.map((x) => h("option", { value: x.name }, x.description))));
    for (const kind of ["input", "change"]) this.form.addEventListener(kind, () => this.changed());
    this.form.addEventListener("focusout", (event) => this.check(event.target.name));
    this.form.addEventListener("submit", (event) => this.send(event));
    byId("form-reset").addEventListener("click", () => {
      this.from = null;
      this.filled = null;
      this.draw();
    });
  }

  group({ title, fields, folded }) {
    const rows = h("div", { class: "fields" }, ...fields.map((field) => this.field(field)));
    if (!folded) return h("fieldset", { class: "panel" }, h("legend", {}, title), rows);
    const legend = h("legend", { class: "only-read" }, title);
    return h("details", { class: "panel" }, h("summary", {}, h("h2", {}, title)),
      h("fieldset", {}, legend, rows));
  }

  field({ key, label, help, unit, list, choice, wide, placeholder, lines }) {
    const rule = ruleOf(this.options.config_schema, key);
    const attributes = { id: `f-${key}`, name: key, "aria-describedby": `h-${key} e-${key}` };
    let input;
    if (choice || rule.choices) {
      input = h("select", attributes, ...(choice ? this.methods() : this.choices(rule)));
    } else if (lines) {
      input = h("textarea", { ...attributes, rows: lines, autocomplete: "off" });
    } else {
      const isNumber = rule.type === "integer" || rule.type === "number";
      const mode = rule.type === "integer" ? "numeric" : isNumber ? "decimal" : null;
      input = h("input", { ...attributes, type: "text", autocomplete: "off", spellcheck: "false",
        inputmode: mode, list: list ? `list-${list}` : null, "aria-required": rule.required || null,
        placeholder: placeholder ?? null });
    }
    const error = h("p", { class: "error small", id: `e-${key}` });
    const told = [unit, help].filter(Boolean).join(". ");
    const row = h("div", { class: wide ? "field wide-field" : "field" },
      h("label", { for: `f-${key}` }, label, rule.required ? h("span", { class: "muted" }, " (needed)") : ""),
      input, h("p", { class: "muted small", id: `h-${key}` }, told), error);
    this.fields.set(key, { input, error, rule, row });
    return row;
  }

  methods() {
    return Object.entries(KINDS).map(([kind, words]) => h("optgroup", { label: words },
      ...this.options.methods.filter((x) => x.kind === kind).map((x) =>
        h("option", { value: x.name, title: x.source }, x.name))));
  }

  choices(rule) {
    return rule.choices.map((value) => h("option", { value },
      value === textOf(rule.fallback) ? `${value} (default)` : value));
  }

  /** Defaults, or the settings of another run. */
  async fill(numOnline) {
    const from = this.filled = this.from ?? "";
    let given = { ...FIRST, num_silos: numOnline || "" };
    let problem = "";
    if (from) {
      try {
        const run = await getJson(`api/v1/runs/${encodeURIComponent(from)}`);
        given = { ...run.config, name: null };
      } catch (error) {
        problem = `These are the defaults; the settings of run ${from} could not be fetched: ` +
          error.message;
      }
      if (this.filled !== from) return; // the reader has gone on
    }
    for (const [key, { input, rule }] of this.fields) {
      const value = given[key] ?? rule.fallback;
      const isTable = value !== null && typeof value === "object" && !Array.isArray(value);
      input.value = isTable ? rule.choices[0] : textOf(value);
    }
    const isTable = typeof given.weights === "object" && given.weights !== null;
    const others = [...AS_JSON, ...(isTable ? ["weights"] : [])].filter((key) => given[key] != null);
    this.other.value = others.length
      ? JSON.stringify(Object.fromEntries(others.map((key) => [key, given[key]])), null, 2) : "";
    this.say({}, problem);
    this.changed();
  }

  /** The config that the form means: what is empty or at its default is left out. */
  config() {
    const unused = this.unused();
    const config = {};
    for (const [key, { input, rule }] of this.fields) {
      const text = input.value.trim();
      const isDefault = text === textOf(rule.fallback) && key !== "method";
      if (text && !isDefault && !unused.has(key)) config[key] = valueOf(rule, text);
    }
    const other = this.other.value.trim();
    return other ? { ...config, ...JSON.parse(other) } : config;
  }

  /** Settings that the method does not look at, or that another one takes the place of. */
  unused() {
    const text = (key) => this.fields.get(key).input.value.trim();
    const method = this.options.methods.find((x) => x.name === text("method"));
    const unused = new Set(method?.unused ?? []);
    if (text("roster")) unused.add("num_silos");
    if (text("local_steps")) unused.add("local_epochs");
    return unused;
  }

  changed() {
    const unused = this.unused();
    for (const [key, { input, row }] of this.fields) {
      input.disabled = unused.has(key);
      setAttr(row, "data-unused", unused.has(key) ? "" : null);
    }
    const method = this.options.methods.find((x) => x.name === this.fields.get("method").input.value);
    const about = method?.source ? `${method.row} with tied constants: ${method.source}` : "";
    setText(byId("h-method"), about);
    try {
      setText(this.preview, JSON.stringify(this.config(), null, 2));
      setText(this.otherError, "");
    } catch (error) {
      setText(this.otherError, `not JSON: ${error.message}`);
    }
  }

  /** A first look at one field, by the server's schema. */
  check(key) {
    const field = this.fields.get(key);
    if (!field) return;
    this.mark(field, faultOf(field.rule, field.input.value.trim()));
  }

  mark({ input, error, row }, text) {
    setText(error, text);
    setAttr(input, "aria-invalid", text ? "true" : null);
    if (text && row.closest("details")) row.closest("details").open = true;
  }

  /** Put what the server said at the fields; what is about none of them at the end. */
  say(faults, message = "") {
    const rest = [];
    for (const [key, texts] of Object.entries(faults)) {
      if (!this.fields.has(key)) rest.push(...texts);
    }
    for (const [key, field] of this.fields) this.mark(field, (faults[key] ?? []).join("\n"));
    const marked = [...this.fields.values()].filter((x) => x.error.textContent);
    if (marked.length) rest.unshift(marked.length === 1 ? "One field needs another value."
      : `${marked.length} fields need another value.`);
    setText(this.problem, rest.join("\n") || message);
    marked[0]?.input.focus();
  }

  async send(event) {
    event.preventDefault();
    let config;
    try {
      config = this.config();
    } catch {
      this.other.closest("details").open = true;
      this.other.focus();
      return;
    }
    this.busy = this.submit.disabled = true;
    try {
      const run = await startRun(config);
      this.say({});
      this.filled = null;
      location.hash = runLink(run.run_id);
    } catch (error) {
      this.say(error.fields ?? {}, error.message);
    } finally {
      this.busy = this.submit.disabled = false;
    }
  }
}
