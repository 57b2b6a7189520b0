// The event stream: connects again by itself, and says whether it is connected.

const AGAIN_MS = 2000;

/**
 * Listen for `status` events.
 *
 * The browser connects again after a broken connection; after an answer that is an error it
 * gives up, and then a new EventSource is made here.
 */
export function live(url, onMessage, onState) {
  const open = () => {
    const source = new EventSource(url);
    source.addEventListener("open", () => onState("live"));
    source.addEventListener("status", (event) => {
      onState("live");
      onMessage(JSON.parse(event.data));
    });
    source.addEventListener("error", () => {
      onState("lost");
      if (source.readyState === EventSource.CLOSED) setTimeout(open, AGAIN_MS);
    });
  };
  open();
}
