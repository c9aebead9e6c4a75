// Forks, and what proves them: two entries by one author that contradict each other.

import { ask, throttled } from "/api.js";
import { copyButton, h, replace } from "/dom.js";
import { brief, count, number, size } from "/format.js";
import { empty, trouble } from "/legend.js";
import { keyText } from "/names.js";

const PAGE = 10;

function signed(entry, label) {
  const row = (name, value, title) => [h("dt", {}, name), h("dd", {}, h("code", { title }, value))];
  return h(
    "div",
    { class: "signed" },
    h("h3", {}, `${label}: entry ${number(entry.seq)}`),
    h(
      "dl",
      { class: "pairs" },
      row("hash", brief(entry.hash, 14, 8), entry.hash),
      row("payload", `${size(entry.size)}, ${brief(entry.payload_hash, 10, 6)}`, entry.payload_hash),
      entry.backlink && row("backlink", brief(entry.backlink, 14, 8), entry.backlink),
      entry.lipmaalink && row("lipmaalink", brief(entry.lipmaalink, 14, 8), entry.lipmaalink),
      entry.is_end && row("end", "ends the log"),
    ),
  );
}

/** A proof with both of its entries; the first of a log's comes with the file that has them all. */
export function forkCard(fork, index = 0) {
  return h(
    "article",
    { class: "fork" },
    h("p", {}, h("b", {}, `At entry ${number(fork.position)}: `), `${fork.why}.`),
    h(
      "div",
      { class: "both" },
      signed(fork.entries[0], "One"),
      h("span", { class: "versus", "aria-hidden": "true" }, "≠"),
      signed(fork.entries[1], "The other"),
    ),
    h(
      "p",
      { class: "tools" },
      index === 0 &&
        h(
          "a",
          { class: "button", download: "", href: `/api/proof?${new URLSearchParams({ log: fork.log })}` },
          "Download the proof",
        ),
      copyButton("Copy as hex", fork.hex, "Copy as hex: the two signed entries"),
      index === 0 && h("span", { class: "faint" }, "Anyone can check it: ", h("code", {}, "culm import FILE")),
    ),
  );
}

/** The view of all forks. */
export function forksView(root, _rest, query) {
  let offset = Number(query.get("offset")) || 0;
  let drawn = "";
  const list = h("div", {});
  root.append(
    h(
      "section",
      { class: "panel" },
      h("h2", {}, "Forks"),
      h(
        "p",
        { class: "faint" },
        "An author who signs two entries that contradict each other has forked the log. The node keeps both as a proof, and trusts nothing from that position on. What comes before stays valid.",
      ),
      list,
    ),
  );

  async function load() {
    try {
      const answer = await ask("forks", { offset, limit: PAGE });
      const text = JSON.stringify(answer);
      if (text !== drawn) draw(answer);
      drawn = text;
    } catch (error) {
      replace(list, trouble(error));
    }
  }

  function draw({ count: all, logs }) {
    if (!all)
      return replace(
        list,
        empty("No forks", "No log held here is forked. That is how it should be."),
      );
    const turn = (to, label) =>
      h(
        "button",
        {
          type: "button",
          "data-key": label,
          onclick: () => {
            offset = to;
            load();
          },
        },
        label,
      );
    replace(
      list,
      logs.map((log) =>
        h(
          "section",
          { class: "forked" },
          h(
            "h3",
            {},
            h(
              "a",
              { href: `#/log/${log.author}/${log.id}`, "data-key": log.log },
              keyText(log.author, log.name),
              ` / ${log.id}`,
            ),
            h("span", { class: "badge bad" }, `forked at ${number(log.forked_at)}`),
            h("span", { class: "faint" }, count(log.proofs, "proof")),
          ),
          log.forks.map(forkCard),
        ),
      ),
      all > PAGE &&
        h(
          "div",
          { class: "pager" },
          h("span", {}, `${number(offset + 1)}–${number(offset + logs.length)} of ${count(all, "forked log")}`),
          offset > 0 && turn(Math.max(0, offset - PAGE), "Previous"),
          offset + logs.length < all && turn(offset + PAGE, "Next"),
        ),
    );
  }

  const refresh = throttled(load);
  refresh();
  return {
    told(kind) {
      if (kind === "changed") refresh();
    },
  };
}
