// The last lines of a silo's log, where its operator shares them: newest at the bottom.

import { empty, getJson, h, keyed, setText } from "./dom.js";
import { formatClock } from "./format.js";

const AGAIN_MS = 2000;
const MAX_LINES = 200;
const NOT_SHARED = "This silo keeps its log lines to itself. Its operator can show them here: " +
  "domo-client --share-log";

export class LogTail {
  constructor() {
    this.none = h("p", { class: "empty" });
    this.list = h("ol", { class: "log", tabindex: 0,
      "aria-label": "Log lines, newest last" });
    this.node = h("section", { class: "panel whole", "aria-label": "Log" },
      h("div", { class: "row head wrap" }, h("h2", {}, "Log"),
        h("p", { class: "muted small" }, "domo's own lines; kept in memory only")),
      this.none, this.list);
    this.forget(null);
  }

  forget(id) {
    this.id = id;
    this.lines = [];
    this.beganAt = null;
    this.askedAt = -Infinity;
    empty(this.list);
    this.none.hidden = this.list.hidden = true;
  }

  /** Ask for what is new, if it is time for that. */
  async update(id) {
    if (id !== this.id) this.forget(id);
    const now = performance.now();
    if (document.hidden || now - this.askedAt < AGAIN_MS) return;
    this.askedAt = now;
    const { lines } = this;
    const last = lines.at(-1)?.number ?? 0;
    const log = await getJson(`api/v1/silos/${encodeURIComponent(id)}/log?after=${last}`)
      .catch(() => null);
    if (log === null || lines !== this.lines) return; // another visit, or another answer was quicker
    if (lines.length && log.began_at !== this.beganAt) { // the coordinator counts from 1 again
      this.forget(id);
      await this.update(id);
      return;
    }
    this.beganAt = log.began_at;
    this.lines = log.shared ? [...lines, ...log.lines].slice(-MAX_LINES) : [];
    this.draw(log.shared);
  }

  draw(isShared) {
    this.none.hidden = this.lines.length > 0;
    setText(this.none, isShared ? "Nothing yet." : NOT_SHARED);
    this.list.hidden = this.lines.length === 0;
    const { scrollTop, scrollHeight, clientHeight } = this.list;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < 8;
    const create = (line) => h("li", { "data-level": line.level },
      h("time", { datetime: line.at, title: line.at }, formatClock(line.at)),
      h("span", { class: "level" }, line.level), h("span", {}, line.text));
    keyed(this.list, this.lines, (line) => `${line.number} ${line.at}`, create, () => {});
    if (isAtEnd) this.list.scrollTop = this.list.scrollHeight;
  }
}
