// Which runs are on the axes, and their numbers.

import { LineChart } from "./chart.js";
import { byId, fields, getJson, h, keyed, setText } from "./dom.js";
import { formatLoss, formatPercent } from "./format.js";
import { hasEnded } from "./header.js";

const NUM_SLOTS = 6; // as many colours as can be told apart

const finite = (points) => points.filter(([, y]) => typeof y === "number" && Number.isFinite(y));
const decimals = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));

/** The newest run, and the run before it of the same task. */
function defaultRuns(runs, run) {
  const newest = run ?? runs[0];
  if (!newest) return [];
  const at = runs.findIndex((x) => x.run_id === newest.run_id);
  const before = runs.slice(at + 1).find((x) => x.task === newest.task && x.rounds_done > 0);
  return before ? [newest.run_id, before.run_id] : [newest.run_id];
}

/** Two runs of one name are told apart by their id. */
function labels(runs) {
  const names = runs.map((run) => run.name);
  return new Map(runs.map((run) => [
    run.run_id, names.filter((name) => name === run.name).length > 1 ? run.run_id : run.name,
  ]));
}

export class Curves {
  constructor() {
    this.picked = null; // what the user chose; null: the default
    this.slots = new Map(); // run_id -> colour, kept while it is shown
    this.cache = new Map(); // run_id -> {stamp, metrics, rounds}
    const onHover = (x, speaker) => {
      for (const chart of this.charts) chart.hover(x, chart === speaker);
    };
    const percent = (y, step) => `${(100 * y).toFixed(decimals(100 * step))} %`;
    const plain = (y, step) => (y >= 1e5 ? y.toExponential(0) : y.toFixed(decimals(step)));
    const accuracy = { title: "Test accuracy", format: formatPercent, tick: percent, ceiling: 1 };
    const loss = { format: formatLoss, tick: plain };
    this.charts = [
      new LineChart(byId("chart-accuracy"), { ...accuracy, onHover }),
      new LineChart(byId("chart-loss"), { ...loss, title: "Test loss", onHover }),
      new LineChart(byId("chart-train"), { ...loss, title: "Training loss", onHover }),
    ];
  }

  /** Draw what is selected; numbers that are missing are asked for and drawn when they come. */
  update(state) {
    this.state = state;
    const rows = state.runs.map((x) => (x.run_id === state.run?.run_id ? state.run : x));
    if (state.run && !rows.includes(state.run)) rows.unshift(state.run);
    const ids = new Set(this.picked ?? defaultRuns(rows, state.run));
    const shown = rows.filter((x) => ids.has(x.run_id)).slice(0, NUM_SLOTS);
    this.takeSlots(shown);
    this.names = labels(rows);
    for (const run of shown) this.fetch(run);
    this.drawPicker(rows, shown);
    this.drawLegend(shown);
    this.drawCharts(shown);
  }

  takeSlots(shown) {
    const ids = new Set(shown.map((run) => run.run_id));
    for (const id of this.slots.keys()) if (!ids.has(id)) this.slots.delete(id);
    for (const run of shown) {
      if (this.slots.has(run.run_id)) continue;
      const taken = new Set(this.slots.values());
      const free = Array.from({ length: NUM_SLOTS }, (_, i) => i + 1).find((i) => !taken.has(i));
      this.slots.set(run.run_id, free);
    }
  }

  /** The rounds of a run, and its metrics unless the stream brings them; once per new round. */
  async fetch(run) {
    const id = run.run_id;
    const stamp = `${run.state} ${run.rounds_done} ${run.accuracy}`;
    const entry = this.cache.get(id) ?? { metrics: [], rounds: [] };
    if (entry.stamp === stamp) return;
    entry.stamp = stamp;
    this.cache.set(id, entry);
    const url = `api/v1/runs/${encodeURIComponent(id)}`;
    try {
      const [detail, rounds] = await Promise.all([
        id === this.state.run?.run_id ? this.state.run : getJson(url),
        getJson(`${url}/rounds`),
      ]);
      Object.assign(entry, { metrics: detail.metrics, rounds });
      this.update(this.state);
    } catch {
      setTimeout(() => (entry.stamp = null), 2000); // the next message tries again
    }
  }

  drawPicker(rows, shown) {
    const ids = new Set(shown.map((run) => run.run_id));
    const create = (run) => {
      const box = h("input", { type: "checkbox", "data-f": "box" });
      box.addEventListener("change", () => {
        const now = new Set(this.slots.keys());
        if (box.checked) now.add(run.run_id);
        else now.delete(run.run_id);
        this.picked = now;
        this.update(this.state);
      });
      return h("label", {}, box, h("span", { "data-f": "text" }));
    };
    keyed(byId("picker-list"), rows, (run) => run.run_id, create, (label, run) => {
      const { box, text } = fields(label);
      box.checked = ids.has(run.run_id);
      box.disabled = !box.checked && ids.size >= NUM_SLOTS;
      setText(text, `${run.name} \u00b7 ${run.method} \u00b7 ${run.run_id}`);
    });
  }

  drawLegend(shown) {
    const create = () => h("li", {}, h("i", { "data-f": "swatch" }), h("span", { "data-f": "name" }),
      h("span", { class: "muted", "data-f": "method" }), h("b", { "data-f": "value" }));
    keyed(byId("legend"), shown, (run) => run.run_id, create, (item, run) => {
      const part = fields(item);
      part.swatch.className = `swatch s${this.slots.get(run.run_id)}`;
      setText(part.name, this.names.get(run.run_id));
      setText(part.method, run.method);
      setText(part.value, formatPercent(run.accuracy));
    });
  }

  drawCharts(shown) {
    const xMax = Math.max(1, ...shown.map((run) => run.num_rounds));
    const line = (run, points) => ({
      id: run.run_id,
      name: this.names.get(run.run_id),
      slot: this.slots.get(run.run_id),
      points: finite(points),
    });
    // the newest is drawn last, on top
    const all = shown.toReversed().map((run) => {
      const { metrics, rounds } = this.cache.get(run.run_id);
      const tests = run.metrics && !hasEnded(run) ? run.metrics : metrics;
      const test = (key) => line(run, tests.map((m) => [m.model_index, m.metrics[key]]));
      const train = line(run, rounds.map((r) => [r.round_index + 1, r.train_loss]));
      return [test("accuracy"), test("loss"), train];
    });
    this.charts.forEach((chart, i) => chart.update(all.map((lines) => lines[i]), xMax));
  }
}
