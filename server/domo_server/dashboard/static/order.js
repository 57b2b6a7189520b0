// Which silo comes first where there are many: those that need somebody, and nobody jumps about.

import { holders } from "./stalled.js";

const AGAIN_MS = 5000; // the order changes at most so often
const CALM_MS = 60000; // who needed somebody stays in front for so long
const SLOW_MS = 10000; // how long a silo is among the last of a round before it is slow

/** -1 holds the run up, 0 failed, 1 offline, 2 slow, 3 all is well, 4 left out. */
function need(silo, isSlow, holds) {
  if (silo.dropped != null) return 4;
  if (holds) return -1;
  if (silo.error || silo.phase === "failed") return 0;
  if (silo.phase === "offline") return 1;
  return isSlow || silo.last_seen_s > 10 ? 2 : 3;
}

export class Order {
  constructor() {
    this.known = new Map(); // id -> {rank, until, slowSince}
    this.ids = [];
    this.changedAt = -Infinity;
    this.numNeedy = 0; // how many at the front are not well
  }

  /**
   * The silos in the order to show them in. `now` in milliseconds; while `isHeld`, such as under a
   * pointer, the order stays, and new silos come last.
   */
  sort(silos, run, now, isHeld) {
    const waiting = new Set(run?.waiting_for ?? []);
    const few = waiting.size > 0 && waiting.size <= Math.max(1, (run.roster?.length ?? 0) / 4);
    const holding = holders(run);
    for (const silo of silos) {
      this.look(silo, few && waiting.has(silo.silo_id), holding.has(silo.silo_id), now);
    }
    const places = new Map(this.ids.map((id, i) => [id, i]));
    const isNew = silos.some((silo) => !places.has(silo.silo_id));
    if (isNew || (!isHeld && now - this.changedAt >= AGAIN_MS)) {
      const place = (silo) => places.get(silo.silo_id) ?? Infinity;
      const rank = (silo) => this.known.get(silo.silo_id).rank;
      const sorted = isHeld ? [...silos].sort((a, b) => place(a) - place(b) || 0)
        : [...silos].sort((a, b) => rank(a) - rank(b) || (a.silo_id < b.silo_id ? -1 : 1));
      this.ids = sorted.map((silo) => silo.silo_id);
      if (!isHeld) this.numNeedy = silos.filter((silo) => rank(silo) < 3).length;
      this.changedAt = now;
    }
    const by = new Map(silos.map((silo) => [silo.silo_id, silo]));
    return this.ids.flatMap((id) => (by.has(id) ? [by.get(id)] : []));
  }

  look(silo, isLast, holds, now) {
    const old = this.known.get(silo.silo_id) ?? { rank: 3, until: 0, slowSince: null };
    const slowSince = isLast ? old.slowSince ?? now : null;
    const rank = need(silo, slowSince !== null && now - slowSince >= SLOW_MS, holds);
    const calms = rank === 3 && old.rank < 3 && now < old.until;
    this.known.set(silo.silo_id, {
      rank: calms ? old.rank : rank,
      until: rank < 3 ? now + CALM_MS : old.until,
      slowSince,
    });
  }
}
