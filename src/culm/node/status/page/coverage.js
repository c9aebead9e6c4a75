// Pictures of what is held of a log: a strip for a list, a field of cells for a closer look.

import { h, roving, s } from "/dom.js";
import { number, span } from "/format.js";
import { CELLS } from "/legend.js";

const HEIGHTS = { f: 16, b: 9, p: 5, w: 9, x: 16, n: 2 }; // what is less is lower, so that colours are not all

function described(cells, greatest) {
  const parts = Object.entries(CELLS)
    .map(([kind, [, words]]) => [cells.split(kind).length - 1, words])
    .filter(([some]) => some);
  return (
    `Entries 1 to ${number(greatest)}: ` +
    parts.map(([some, words]) => `${Math.round((100 * some) / cells.length)} % ${words}`).join("; ")
  );
}

/** A strip of a log's numbers, from 1 to the greatest held. */
export function strip(cells, greatest) {
  const words = described(cells, greatest);
  const picture = s(
    "svg",
    {
      class: "strip",
      viewBox: `0 0 ${cells.length} 16`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": words,
    },
    s("title", {}, words),
  );
  for (let at = 0; at < cells.length;) {
    let end = at;
    while (end < cells.length && cells[end] === cells[at]) end += 1;
    const height = HEIGHTS[cells[at]];
    picture.append(s("rect", { class: `k-${CELLS[cells[at]][0]}`, x: at, y: 16 - height, width: end - at, height }));
    at = end;
  }
  return picture;
}

/** A field of cells; `choose(low, high)` is called with the numbers of the one that is chosen. */
export function field(coverage, choose) {
  const { cells, starts, high } = coverage;
  const ends = starts.map((_, at) => (at + 1 < starts.length ? String(BigInt(starts[at + 1]) - 1n) : high));
  const buttons = [...cells].map((kind, at) => {
    const [name, words] = CELLS[kind];
    const label = `${starts[at] === ends[at] ? "entry" : "entries"} ${span(starts[at], ends[at])}: ${words}`;
    return h("button", {
      type: "button",
      class: `cell k-${name}`,
      title: label,
      "aria-label": label,
      "data-key": `cell ${starts[at]}`,
      "data-low": starts[at],
      "data-high": ends[at],
      onclick: () => choose(starts[at], ends[at]),
    });
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
