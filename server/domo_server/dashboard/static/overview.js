// The page that stays open: the current run, its silos, its curves, what has happened.

import { RunButtons, askSilo } from "./actions.js";
import { renderBest } from "./charts/best.js";
import { Board } from "./charts/board.js";
import { byId, setAttr } from "./dom.js";
import { renderEvents, setUpEvents } from "./events.js";
import { renderHeader } from "./header.js";
import { historyOf, showsChange } from "./history.js";
import { compareLink } from "./router.js";
import { renderSilos, setUpSilos } from "./silos.js";

const cardOf = (event) => event.target.closest("[data-key]");

/** Mark the card of the silo whose line is pointed at. */
function lightCard(id) {
  for (const card of byId("silos").children) {
    setAttr(card, "data-lit", card.dataset.key === id ? "" : null);
  }
}

export class Overview {
  constructor(host, draw) {
    this.host = host;
    this.draw = draw;
    const grid = byId("silos");
    this.board = new Board(byId("curves-charts"), lightCard);
    for (const begin of ["pointerover", "focusin"]) {
      grid.addEventListener(begin, (event) => this.board.focus(cardOf(event)?.dataset.key ?? null));
    }
    for (const end of ["pointerleave", "focusout"]) {
      grid.addEventListener(end, () => this.board.focus(null));
    }
    this.buttons = new RunButtons(byId("hero-actions"));
    setUpEvents(draw);
    setUpSilos(draw);
    grid.addEventListener("click", (event) => {
      const id = event.target.closest("button") && cardOf(event).dataset.key;
      const silo = this.state?.status.silos.find((x) => x.silo_id === id);
      if (silo) askSilo(silo);
    });
  }

  title({ run }) {
    if (!run) return "Overview";
    return `${Math.round((100 * run.rounds_done) / run.num_rounds)} % ${run.name}`;
  }

  recolour() {
    this.board.recolour();
  }

  update(state, { query }) {
    this.state = state;
    const { run, runs } = state;
    renderHeader(state);
    renderSilos(state);
    renderEvents(state);
    this.buttons.update(run, state.isAdmin);
    if (!run) return;
    renderBest(byId("run-best"), run);
    const history = historyOf(run, run, this.draw);
    if (showsChange(this.board, run, history, query)) this.board.showRun(run, history, run.roster, query);
    const before = runs?.find((x) => x.run_id !== run.run_id && x.rounds_done > 0);
    byId("curves-compare").hidden = !before;
    if (before) setAttr(byId("curves-compare"), "href", compareLink([run.run_id, before.run_id]));
  }
}
