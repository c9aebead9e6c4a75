// What is known of the chosen entry, and of its certificate pool.

import { cellWords } from "/cells.js";
import { copyButton, h, s } from "/dom.js";
import { brief, count, number, size } from "/format.js";
import { glyph, letter } from "/legend.js";

const KINDS = {
  f: "Verified, with its payload",
  b: "Verified; its payload is not here",
  bm: "Verified; its payload is asked for and has not come yet",
  bu: "Verified; its payload is not asked for",
  bg: "Verified; its payload was forgotten: deleted here on purpose, and not asked for again",
  bd: "Verified; its payload was damaged on this disk, so it was deleted, and is asked for again",
  w: "Held, but not verified yet: entries that connect it to entry 1 are missing",
  x: "Not trusted: it is at or after a fork, or a payload whose size its author lied about",
  n: "Not held here",
  nm: "Missing: it is asked for and has not come yet",
  nu: "Not held here, and not asked for",
};

/** The chosen entry, and the pool with which it is verified; `choose(seq)` goes to another one; `tick` is shown below. */
export function entryFacts(links, choose, tick) {
  const kind = letter(links.held[links.chosen]);
  const entry = links.entry;
  const down = links.path_held
    ? `The path from here down to entry 1 (${count(links.path.length, "entry", "entries")}) is complete: entry ${number(links.chosen)} can be verified without the rest of the log.`
    : "The path from here down to entry 1 is not complete.";
  const up = links.certified
    ? "The path from above down to here is complete, too, as far as the log is held: the entry is certified."
    : "The path from above down to here is not complete: the entry is not certified.";
  const state = links.path_held ? `${down} ${up}` : down;
  const chip = (seq) =>
    h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "data-key": `chip ${seq}`,
          onclick: () => choose(seq),
          "aria-label": `Entry ${number(seq)}: ${cellWords(letter(links.held[seq]), links.lacks[seq])}`,
          "aria-current": seq === links.chosen ? "true" : null,
        },
        s(
          "svg",
          { viewBox: "-9 -9 18 18", width: 16, height: 16, "aria-hidden": "true" },
          glyph(letter(links.held[seq]), 0, 0, 7, links.lacks[seq]),
        ),
        number(seq),
      ),
    );
  const row = (name, ...value) => [h("dt", {}, name), h("dd", {}, ...value)];
  const hash = (text) => [h("code", { title: text }, brief(text, 14, 8)), copyButton("Copy", text, "Copy the hash")];
  return [
    h(
      "div",
      {},
      h("h3", {}, `Entry ${number(links.chosen)}`),
      h("p", {}, `${KINDS[kind + links.lacks[links.chosen]] ?? KINDS[kind]}.`),
      tick,
      entry &&
        h(
          "dl",
          { class: "pairs" },
          row("hash", hash(entry.hash)),
          row("payload", `${size(entry.size)}, `, ...hash(entry.payload_hash)),
          entry.payload === "partial" && row("held so far", size(entry.payload_held)),
          entry.is_end && row("end", "this entry ends the log"),
        ),
    ),
    h(
      "div",
      {},
      h("h3", {}, "Certificate pool"),
      h(
        "p",
        {},
        `${count(links.pool.length, "entry", "entries")}, ${number(links.pool_held)} of them held and verified. ${state}`,
      ),
      h("ul", { class: "chips", "aria-label": "The certificate pool" }, links.pool.map(chip)),
    ),
  ];
}
