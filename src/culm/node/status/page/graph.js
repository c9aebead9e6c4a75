// The link graph of a log: every entry links to the one before it and, farther back, to one more (its lipmaalink).
// The certificate pool of the chosen entry is what someone needs to verify it without the rest of the log.

import { cellWords } from "/cells.js";
import { s } from "/dom.js";
import { number } from "/format.js";
import { glyph, letter } from "/legend.js";

const PAD = 26;
const BELOW = 46;
const STEP = 30; // pixels between two entries, at least

/** How many entries fit a width. */
export const entriesIn = (width) => Math.max(9, Math.min(81, Math.floor((width - 2 * PAD) / STEP) + 1));

/** The height of a link's arc: it grows with the logarithm of its length, so that short and long ones can be seen. */
const rise = (length) => Math.min(150, 12 + (25 * Math.log(length)) / Math.log(3));

/** The drawing; `choose(seq)` is called when an entry is chosen. */
export function graph(links, width, choose) {
  const low = BigInt(links.low);
  const shown = Number(BigInt(links.high) - low) + 1;
  const step = shown > 1 ? Math.min((width - 2 * PAD) / (shown - 1), 64) : 0;
  const x = (seq) => PAD + Number(BigInt(seq) - low) * step;
  const inside = (seq) => BigInt(seq) >= low && BigInt(seq) <= BigInt(links.high);
  const pool = new Set(links.pool);
  const poolLinks = new Set(links.pool_links.map((pair) => pair.join()));
  // Of the pool also the links that come from outside, or pass over what is shown.
  const through = links.pool_links.filter(
    ([from, to]) => !inside(from) && (inside(to) || (BigInt(from) > low && BigInt(to) < low)),
  );
  const drawn = [...links.links, ...through].sort(
    (one, other) => poolLinks.has(one.join()) - poolLinks.has(other.join()),
  );
  const base = rise(Math.max(1, ...drawn.map(([from, to]) => Number(BigInt(from) - BigInt(to))))) + 20;

  function edge([from, to]) {
    const far = Number(BigInt(from) - BigInt(to));
    const start = Math.min(x(from), width + 300);
    const end = Math.max(x(to), -300);
    const inPool = poolLinks.has(`${from},${to}`);
    const kind = `link ${far === 1 ? "back" : "lipmaa"}${inPool ? " pool" : ""}`;
    if (far === 1) return s("line", { class: kind, x1: start, y1: base, x2: end, y2: base });
    const top = base - rise(far) * 1.33;
    return s("path", { class: kind, d: `M${start} ${base}C${start} ${top} ${end} ${top} ${end} ${base}` });
  }

  function node(seq) {
    const kind = letter(links.held[seq]);
    const beyond = BigInt(seq) > BigInt(links.greatest);
    const chosen = seq === links.chosen;
    const words = `Entry ${number(seq)}: ${cellWords(kind, links.lacks[seq])}${pool.has(seq) ? "; in the certificate pool" : ""}${chosen ? "; chosen" : ""}`;
    return s(
      "g",
      {
        class: `node${pool.has(seq) ? " pool" : ""}${chosen ? " chosen" : ""}${beyond ? " beyond" : ""}`,
        role: "button",
        tabindex: "-1",
        "data-key": `node ${seq}`,
        "data-seq": seq,
        "aria-label": words,
        "aria-pressed": String(chosen),
        onclick: () => choose(seq),
      },
      s("title", {}, words),
      s("rect", {
        class: "hit",
        x: x(seq) - Math.max(step, 24) / 2,
        y: base - 16,
        width: Math.max(step, 24),
        height: 46,
      }),
      pool.has(seq) && s("circle", { class: "halo", cx: x(seq), cy: base, r: chosen ? 14 : 11 }),
      glyph(kind, x(seq), base, 7, links.lacks[seq]),
    );
  }

  function labels(seqs) {
    // The chosen one first, then the pool, then as many others as have room.
    const rank = (seq) => (seq === links.chosen ? 0 : pool.has(seq) ? 1 : Number(BigInt(seq) % 5n === 0n ? 2n : 3n));
    const taken = [];
    return [...seqs]
      .sort((one, other) => rank(one) - rank(other))
      .flatMap((seq) => {
        const text = number(seq);
        const half = text.length * 3.6 + 4;
        if (taken.some(([from, to]) => x(seq) + half > from && x(seq) - half < to)) return [];
        taken.push([x(seq) - half, x(seq) + half]);
        const anchor = x(seq) < half ? "start" : x(seq) + half > width ? "end" : "middle";
        return [
          s(
            "text",
            {
              class: seq === links.chosen ? "chosen" : pool.has(seq) ? "pool" : "",
              x: x(seq),
              y: base + 30,
              "text-anchor": anchor,
            },
            text,
          ),
        ];
      });
  }

  const seqs = Array.from({ length: shown }, (_, at) => String(low + BigInt(at)));
  return s(
    "svg",
    {
      class: "graph",
      viewBox: `0 0 ${width} ${base + BELOW}`,
      width,
      height: base + BELOW,
      role: "group",
      "aria-label": `Links of the entries ${number(links.low)} to ${number(links.high)}. Arrow keys go from entry to entry, Enter chooses one.`,
    },
    s("g", { class: "links" }, drawn.map(edge)),
    seqs.map(node),
    s("g", { class: "labels", "aria-hidden": "true" }, labels(seqs)),
  );
}
