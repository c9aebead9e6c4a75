// The words and signs for what is held, the same everywhere.

import { h, s } from "/dom.js";

/** What a cell's letter means: a class for its looks, and words. */
export const CELLS = {
  f: ["full", "entries and payloads are here"],
  b: ["bare", "entries are here, payloads are missing"],
  p: ["part", "some entries are here"],
  w: ["waiting", "held, but cannot be verified yet"],
  x: ["invalid", "not trusted: at or after a fork"],
  n: ["none", "missing"],
};

/** What is held at a number, as a cell's letter. */
export function letter(mark) {
  if (!mark) return "n";
  if (mark.state === "invalid") return "x";
  if (mark.state === "waiting") return "w";
  return mark.payload === "complete" ? "f" : "b";
}

/** The sign of an entry in a drawing, around a point. */
export function glyph(kind, x = 0, y = 0, r = 7) {
  const name = CELLS[kind][0];
  const shapes = {
    f: () => [s("circle", { cx: x, cy: y, r })],
    b: () => [s("circle", { cx: x, cy: y, r: r - 1 })],
    p: () => [s("circle", { cx: x, cy: y, r: r - 1 })],
    n: () => [s("circle", { cx: x, cy: y, r: r - 1 })],
    w: () => [s("path", { d: `M${x} ${y - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z` })],
    x: () => [
      s("rect", { x: x - r + 1, y: y - r + 1, width: 2 * r - 2, height: 2 * r - 2, rx: 2 }),
      s("path", { class: "cross", d: `M${x - 3} ${y - 3}l6 6m0 -6l-6 6` }),
    ],
  };
  return s("g", { class: `glyph k-${name}` }, shapes[kind]());
}

/** An explanation of cells, or of entries in a drawing. */
export function legend(kinds, drawing = false) {
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    [...kinds].map((kind) =>
      h(
        "li",
        {},
        drawing
          ? s("svg", { viewBox: "-9 -9 18 18", width: 18, height: 18, "aria-hidden": "true" }, glyph(kind))
          : h("span", { class: `cell k-${CELLS[kind][0]}`, "aria-hidden": "true" }),
        CELLS[kind][1],
      ),
    ),
  );
}

// A browser may forbid to keep anything: then nothing is remembered.
function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    /* forbidden */
  }
}

/** What a log, a node and a fork are, for people who see the page for the first time. */
export function introduction() {
  const details = h(
    "details",
    { class: "intro", open: kept("culm-intro") !== "closed" },
    h("summary", {}, "New here? What this page shows"),
    h(
      "div",
      {},
      h(
        "p",
        {},
        h("b", {}, "A log"),
        " is a numbered list of entries that only its author can extend. Every entry is signed, " +
          "and linked to two earlier ones, so that even the author cannot change it unnoticed.",
      ),
      h(
        "p",
        {},
        h("b", {}, "This node"),
        " keeps copies of logs, passes them on to ",
        h("b", {}, "peers"),
        ", and trusts none of them: " + "it checks each entry itself. It may hold a log in part: an ",
        h("b", {}, "entry"),
        " without its ",
        h("b", {}, "payload"),
        " (the content), or some entries only. That is normal: the entries that it has can still be verified.",
      ),
      h(
        "p",
        {},
        h("b", {}, "A fork"),
        " is an author who signed two entries that contradict each other. Nothing from there on is trusted; " +
          "the two entries prove it to everyone.",
      ),
    ),
  );
  details.addEventListener("toggle", () => keep("culm-intro", details.open ? "open" : "closed"));
  return details;
}

/** A place that has nothing to show: why, and what would change that. */
export const empty = (title, ...words) => h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, ...words));

/** What went wrong. */
export const trouble = (error) =>
  h("p", { class: "trouble", role: "alert" }, `This cannot be shown: ${error.message}.`);
