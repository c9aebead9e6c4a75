// Pictures of what is held of a log: a strip for a list, a field of cells for a closer look.

import { cellPicture, CELLS, cellShapes, cellWords, LACKS } from "/cells.js";
import { h, roving, s } from "/dom.js";
import { number, span } from "/format.js";

function described(cells, lacks, greatest) {
  const shares = (letters, names) =>
    Object.entries(names)
      .map(([letter, [, words]]) => [letters.split(letter).length - 1, words])
      .filter(([some]) => some)
      .map(([some, words]) => `${Math.round((100 * some) / cells.length)} % ${words}`);
  return `Entries 1 to ${number(greatest)}: ${[...shares(cells, CELLS), ...shares(lacks, LACKS)].join("; ")}`;
}

/** A strip of a log's numbers, from 1 to the greatest held: what is held, and why the rest is not. */
export function strip(cells, lacks, greatest) {
  const words = described(cells, lacks, greatest);
  return s(
    "svg",
    {
      class: "strip cells",
      viewBox: `0 0 ${cells.length} 16`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": words,
    },
    s("title", {}, words),
    [...cells].map((kind, at) => cellShapes(kind, lacks[at], at)),
  );
}

/** A field of cells; `choose(low, high)` is called with the numbers of the one that is chosen. */
export function field(coverage, choose) {
  const { cells, lacks, starts, high } = coverage;
  const ends = starts.map((_, at) => (at + 1 < starts.length ? String(BigInt(starts[at + 1]) - 1n) : high));
  const buttons = [...cells].map((kind, at) => {
    const words = cellWords(kind, lacks[at]);
    const label = `${starts[at] === ends[at] ? "entry" : "entries"} ${span(starts[at], ends[at])}: ${words}`;
    return h(
      "button",
      {
        type: "button",
        class: `cell k-${CELLS[kind][0]}`,
        title: label,
        "aria-label": label,
        "data-key": `cell ${starts[at]}`,
        "data-low": starts[at],
        "data-high": ends[at],
        onclick: () => choose(starts[at], ends[at]),
      },
      cellPicture(kind, lacks[at]),
    );
  });
  const container = h("div", { class: "field", role: "group", "aria-label": "What is held, by number" }, buttons);
  roving(container, "button");
  return container;
}

/** Mark the cell that the chosen entry is in. */
export function markChosen(picture, chosen) {
  for (const cell of picture.querySelectorAll("button.cell")) {
    const here = chosen && BigInt(cell.dataset.low) <= BigInt(chosen) && BigInt(chosen) <= BigInt(cell.dataset.high);
    if (here) cell.setAttribute("aria-current", "true");
    else cell.removeAttribute("aria-current");
  }
}
