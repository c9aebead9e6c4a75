// What the node tells by itself: server-sent events.

const LONGEST_PRESS = 5000;

// An element that is made anew between press and release gets no click: news wait for the release.
function betweenPresses(told) {
  let pressed = null;
  let late = {};
  const released = () => {
    clearTimeout(pressed);
    pressed = null;
    const news = Object.entries(late);
    late = {};
    for (const [kind, value] of news) told(kind, value);
  };
  addEventListener("pointerdown", () => (pressed ??= setTimeout(released, LONGEST_PRESS)), true);
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(released), true); // after the click
  return (kind, value) => {
    if (pressed === null) told(kind, value);
    else late[kind] = kind === "changed" && late.changed ? { logs: [], more: true } : value;
  };
}

/** Follow the node. `told(kind, value)` gets "overview" and "changed"; `state` gets "on", "off" in turn. */
export function follow(told, state) {
  const tell = betweenPresses(told);
  let wait = 1000;
  const open = () => {
    const source = new EventSource("/events");
    source.onopen = () => {
      wait = 1000;
      state("on");
    };
    for (const kind of ["overview", "changed"]) {
      source.addEventListener(kind, (event) => tell(kind, JSON.parse(event.data)));
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
