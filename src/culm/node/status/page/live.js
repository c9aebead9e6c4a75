// What the node tells by itself: server-sent events.

/** Follow the node. `told(kind, value)` gets "overview" and "changed"; `state` gets "on", "off" in turn. */
export function follow(told, state) {
  let wait = 1000;
  const open = () => {
    const source = new EventSource("/events");
    source.onopen = () => {
      wait = 1000;
      state("on");
    };
    for (const kind of ["overview", "changed"]) {
      source.addEventListener(kind, (event) => told(kind, JSON.parse(event.data)));
    }
    source.onerror = () => {
      state("off");
      if (source.readyState === EventSource.CLOSED) {
        // refused: the browser does not try again by itself
        setTimeout(open, wait);
        wait = Math.min(wait * 2, 30000);
      }
    };
    addEventListener("pagehide", () => source.close(), { once: true });
  };
  open();
}
