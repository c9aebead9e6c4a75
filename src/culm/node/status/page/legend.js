// The words and signs for what is held, the same everywhere.

import { cellPicture, CELLS, cellWords, LACKS } from "/cells.js";
import { h, s } from "/dom.js";

/** What is held at a number, as a cell's letter. */
export function letter(mark) {
  if (!mark) return "n";
  if (mark.state === "invalid") return "x";
  if (mark.state === "waiting") return "w";
  return mark.payload === "complete" ? "f" : "b";
}

/** The sign of an entry in a drawing, around a point; inside is why its payload is not here, if it is not. */
export function glyph(kind, x = 0, y = 0, r = 7, lack = ".") {
  const ring = () => [s("circle", { cx: x, cy: y, r: r - 1 })];
  const shapes = {
    f: () => [s("circle", { cx: x, cy: y, r })],
    b: ring,
    p: ring,
    n: () => [s("circle", { cx: x, cy: y, r: lack === "u" ? r - 4 : r - 1 })],
    w: () => [s("path", { d: `M${x} ${y - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z` })],
    x: () => [
      s("rect", { x: x - r + 1, y: y - r + 1, width: 2 * r - 2, height: 2 * r - 2, rx: 2 }),
      s("path", { class: "cross", d: `M${x - 3} ${y - 3}l6 6m0 -6l-6 6` }),
    ],
  };
  const inside = {
    m: () => s("circle", { class: "mark", cx: x, cy: y, r: 2 }),
    g: () => s("path", { class: "mark", d: `M${x - 3.5} ${y}h7` }),
    d: () => s("path", { class: "mark", d: `M${x} ${y - 3.5}v3m0 2.5v1.5` }),
  };
  return s(
    "g",
    { class: `glyph k-${CELLS[kind][0]} l-${LACKS[lack]?.[0]}` },
    shapes[kind](),
    kind === "b" && inside[lack]?.(),
  );
}

// A reason is shown at a cell that has it alone: entries lack wholly, payloads beside their entries.
const SHOWN_AT = { m: "n", u: "n", g: "b", d: "b" };

/** An explanation of the letters of cells, or of entries in a drawing. */
export function legend(letters, drawing = false) {
  const pair = (letter) => (SHOWN_AT[letter] ? [SHOWN_AT[letter], letter] : [letter, "."]);
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    [...letters].map((letter) => {
      const [kind, lack] = pair(letter);
      return h(
        "li",
        { "data-letter": letter },
        drawing
          ? s(
              "svg",
              { viewBox: "-9 -9 18 18", width: 18, height: 18, "aria-hidden": "true" },
              glyph(kind, 0, 0, 7, lack),
            )
          : cellPicture(kind, lack),
        LACKS[letter]?.[1] ?? cellWords(kind),
      );
    }),
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
        " (the content), or some entries only. That is normal: the entries that it has can still be verified, and " +
          "not everything is asked for.",
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
