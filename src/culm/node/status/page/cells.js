// A cell: what is held of some numbers of a log, and why the rest is not held.
//
// One function draws a cell in strips, in fields and in legends, so that each is drawn as its legend says. What is held
// is solid; what is asked for and not here is a hollow box; what is not asked for is a line at the bottom.

import { s } from "/dom.js";

/** What is held: by the letter that the node gives, a class for its looks, and words. */
export const CELLS = {
  f: ["full", "entries and payloads are here"],
  b: ["bare", "entries are here, not all payloads"],
  p: ["part", "some entries are here"],
  w: ["waiting", "held, but cannot be verified yet"],
  x: ["invalid", "not trusted: at or after a fork"],
  n: ["none", "nothing is here"],
};

/** Why the rest is not held. */
export const LACKS = {
  m: ["missing", "missing: asked for, but not here"],
  u: ["unasked", "not asked for"],
  g: ["forgotten", "payload forgotten: deleted here on purpose"],
  d: ["damaged", "payload damaged on this disk: asked for again"],
};

/** A cell in words. */
export function cellWords(kind, lack = ".") {
  const words = [kind === "n" && LACKS[lack] ? "" : CELLS[kind][1], LACKS[lack]?.[1]];
  return words.filter(Boolean).join("; ");
}

/** The shapes of a cell in a box from x to x + 1, 16 high; it may be stretched. */
export function cellShapes(kind, lack = ".", x = 0) {
  const box = (y, height, name) => s("rect", { class: name, x, y, width: 1, height });
  const shapes = {
    f: () => [box(0, 16, "k-full")],
    b: () => [box(7, 9, "k-bare")],
    p: () => [s("path", { class: "k-part", d: `M${x} 16V5L${x + 1} 16z` })],
    w: () => [s("ellipse", { class: "k-waiting", cx: x + 0.5, cy: 10, rx: 0.42, ry: 5.5 })],
    x: () => [
      box(0, 16, "k-invalid"),
      s("path", { class: "cross", d: `M${x + 0.2} 3L${x + 0.8} 13M${x + 0.8} 3L${x + 0.2} 13` }),
    ],
    n: () => [],
  };
  const behind = {
    m: () => [s("rect", { class: "l-missing", x: x + 0.06, y: 1, width: 0.88, height: 14 })],
    d: () => [
      s("rect", { class: "l-damaged", x: x + 0.06, y: 1, width: 0.88, height: 14 }),
      s("path", { class: "l-damaged", d: `M${x + 0.5} 2V6` }),
    ],
    g: () => [box(1, 3, "l-forgotten")],
    u: () => [kind === "n" && box(14, 2, "l-unasked")],
    ".": () => [kind === "n" && box(14, 2, "l-unasked")],
  };
  const trusted = kind !== "w" && kind !== "x";
  return [...(trusted ? behind[lack]() : []), ...shapes[kind]()];
}

/** A cell as a picture of its own. */
export const cellPicture = (kind, lack) =>
  s(
    "svg",
    { class: "cells", viewBox: "0 0 1 16", preserveAspectRatio: "none", "aria-hidden": "true" },
    cellShapes(kind, lack),
  );
