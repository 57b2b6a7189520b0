// Where the time of a run goes: over its rounds, and within one of them.

import { h, keyed, setText } from "./dom.js";
import { MEAN, SLOWEST, StackedTimes } from "./stacked_times.js";
import { Timeline } from "./timeline.js";

const NAMES = { [MEAN]: "the mean of the silos", [SLOWEST]: "the slowest silo" };

export class TimesPanel {
  constructor() {
    this.picked = null; // round_index; null: the newest
    const pick = (index) => {
      this.picked = index;
      this.timeline.update(this.rounds, index);
    };
    this.stacked = new StackedTimes(pick);
    this.timeline = new Timeline(pick);
    this.choice = h("select", { "aria-label": "Whose time" });
    this.choice.addEventListener("change", () => this.draw());
    this.none = h("p", { class: "empty" }, "No round with times is committed yet.");
    this.body = h("div", { class: "view" }, this.stacked.node, this.timeline.node);
    this.node = h("section", { class: "panel", "aria-label": "Where the time goes" },
      h("div", { class: "row head wrap" }, h("h2", {}, "Where the time goes"), this.choice),
      this.none, this.body);
  }

  update(rounds) {
    this.rounds = rounds.filter((x) => x.times && x.state === "COMMITTED");
    this.none.hidden = this.rounds.length > 0;
    this.body.hidden = this.choice.hidden = this.rounds.length === 0;
    if (!this.rounds.length) return;
    const silos = new Set(this.rounds.flatMap((x) => Object.keys(x.times.silos)));
    const choices = [MEAN, SLOWEST, ...[...silos].sort()];
    keyed(this.choice, choices, (x) => x, (x) => h("option", { value: x }), (option, x) =>
      setText(option, NAMES[x] ?? x));
    this.draw();
  }

  draw() {
    const { value } = this.choice;
    this.stacked.update(this.rounds, value, NAMES[value] ?? value);
    this.timeline.update(this.rounds, this.picked);
  }

  recolour() {
    if (this.stacked.plot) this.stacked.recolour();
  }
}
