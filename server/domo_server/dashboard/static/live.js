// The event stream: connects again by itself, and says whether it is connected.

const AGAIN_MS = 2000;
const SILENT_MS = 4500; // the coordinator says something every 2 s
const LOOK_MS = 500;

/**
 * Listen for `status` events.
 *
 * The browser connects again after a broken connection; after an answer that is an error it
 * gives up, and then a new EventSource is made here. So it is where nothing comes any more although
 * the connection seems to be whole: the coordinator hangs, or the network is cut. `onRefused` is
 * called after each answer that is an error: perhaps nobody is logged in any more.
 */
export function live(url, onMessage, onState, onRefused) {
  let source;
  let heardAt;
  let openedAt;
  const hear = () => {
    heardAt = performance.now();
    onState("live");
  };
  const open = () => {
    source?.close();
    const mine = (source = new EventSource(url));
    openedAt = performance.now();
    mine.addEventListener("open", hear);
    mine.addEventListener("alive", hear);
    mine.addEventListener("status", (event) => {
      hear();
      onMessage(JSON.parse(event.data));
    });
    mine.addEventListener("error", () => {
      if (mine !== source) return;
      onState("lost");
      if (mine.readyState !== EventSource.CLOSED) return;
      setTimeout(open, AGAIN_MS);
      onRefused();
    });
  };
  open();
  heardAt = openedAt;
  // a page that the browser keeps for its back button would hold one of its few connections
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => event.persisted && open());
  setInterval(() => {
    const now = performance.now();
    if (now - heardAt < SILENT_MS) return;
    onState("lost");
    if (now - openedAt > 2 * SILENT_MS) open();
  }, LOOK_MS);
}
