// One log: what is held of it, its links, the chosen entry, its forks.

import { ask, throttled } from "/api.js";
import { badges } from "/badges.js";
import { field, markChosen } from "/coverage.js";
import { copyButton, h, replace, roving } from "/dom.js";
import { entryFacts } from "/entry.js";
import { count, number, span } from "/format.js";
import { forkCard } from "/forks.js";
import { entriesIn, graph } from "/graph.js";
import { legend, trouble } from "/legend.js";
import { keyName } from "/names.js";
import { payloadBox } from "/payload.js";
import { ruleWords } from "/rules.js";
import { verifyHere } from "/verify.js";

const CELLS_SHOWN = 240;

/** The view of one log; the query may name an entry to begin with. */
export function logView(root, [author, id], query) {
  const log = `${author}/${id}`;
  const at = { seq: query.get("seq"), low: null, window: [], turn: 0 };
  const head = h("div", {});
  const picture = h("div", {});
  const drawing = h("div", { class: "drawing" });
  const facts = h("div", { class: "facts" });
  const forks = h("div", {});

  /** Shows what goes wrong in its place. */
  const safely =
    (place, work) =>
    async (...rest) => {
      try {
        return await work(...rest);
      } catch (error) {
        at.covered = at.drawn = "";
        return replace(place, trouble(error));
      }
    };
  const cover = safely(picture, showCoverage);
  const draw = safely(drawing, showLinks);
  const remember = () =>
    history.replaceState(null, "", `#/log/${author}/${id}?${new URLSearchParams(at.seq ? { seq: at.seq } : {})}`);
  const choose = (seq, low = null) => {
    at.seq = seq;
    at.low = low;
    remember();
    return draw();
  };
  const focusChosen = () => drawing.querySelector(".node.chosen")?.focus();

  async function load() {
    try {
      const found = await ask("log", { log });
      at.seq ??= found.newest === "0" ? found.greatest : found.newest;
      heading(found);
      replace(
        forks,
        found.forks.length > 0 &&
          h(
            "section",
            { class: "panel bad" },
            h("h2", {}, "Fork"),
            h(
              "p",
              {},
              `The author signed entries that contradict each other. ${count(found.proofs, "proof is", "proofs are")} held; from entry ${number(found.forked_at)} on this log is not trusted.`,
            ),
            forkCard(found.forks[0]),
            found.forks.length > 1 &&
              h(
                "details",
                { class: "more" },
                h("summary", {}, `${count(found.proofs - 1, "more proof")}`),
                found.forks.slice(1).map((fork) => forkCard(fork, 1)),
              ),
          ),
      );
      await Promise.all([cover(), draw()]);
    } catch (error) {
      replace(head, h("p", {}, h("a", { href: "#/logs" }, "← All logs")), trouble(error));
    }
    root.classList.remove("loading");
  }

  function heading(found) {
    const figure = (value, label) => h("div", { class: "tile" }, h("dd", {}, value), h("dt", {}, label));
    replace(
      head,
      h("p", {}, h("a", { href: "#/logs", "data-key": "all" }, "← All logs")),
      h(
        "h2",
        { class: "log-name" },
        "Log ",
        h("b", {}, found.id),
        " of ",
        found.name && keyName(found.name),
        h("code", {}, found.author),
        " ",
        copyButton("Copy", found.log, "Copy the log's name"),
      ),
      h("p", { class: "badges" }, badges(found)),
      h("p", { class: "rule" }, h("span", { class: "faint" }, "Asked for: "), ruleWords(found.rule)),
      h(
        "dl",
        { class: "tiles" },
        figure(number(found.newest), "newest verified entry"),
        figure(number(found.entries), "entries held and verified"),
        figure(number(found.payloads), "with their payload"),
        figure(found.certified === null ? "–" : number(found.certified), "with their whole pool: certified"),
        figure(number(found.complete_to), "complete up to"),
      ),
    );
  }

  async function showCoverage() {
    const [low, high] = at.window.at(-1) ?? [1, null];
    const coverage = await ask("coverage", { log, low, high, cells: CELLS_SHOWN });
    const text = JSON.stringify(coverage);
    if (text === at.covered) return;
    at.covered = text;
    const zoom = (from, to) => {
      if (from === to) choose(from);
      else {
        at.window.push([from, to]);
        cover();
      }
    };
    const letters = new Set(coverage.cells + coverage.lacks);
    const each = coverage.starts.length > 1 ? BigInt(coverage.starts[1]) - BigInt(coverage.starts[0]) : 1n;
    replace(
      picture,
      h(
        "p",
        { class: "faint" },
        `Entries ${span(coverage.low, coverage.high)}. `,
        each > 1n
          ? `A cell stands for about ${number(each)}; choose one to look closer. `
          : "A cell is an entry; choose one to see its links. ",
        at.window.length > 0 &&
          h(
            "button",
            {
              type: "button",
              class: "small",
              "data-key": "out",
              onclick: () => {
                at.window.pop();
                cover();
              },
            },
            "Zoom out",
          ),
      ),
      field(coverage, zoom),
      legend([..."fbpwxmugd"].filter((letter) => letters.has(letter))),
    );
    markChosen(picture, at.seq);
  }

  async function showLinks() {
    const turn = ++at.turn;
    const width = Math.max(drawing.clientWidth, 260);
    const links = await ask("links", { log, seq: at.seq, count: entriesIn(width), low: at.low });
    if (turn !== at.turn) return; // another one was chosen meanwhile
    at.seq = links.chosen;
    const text = JSON.stringify([width, links]);
    if (text === at.drawn) return;
    at.drawn = text;
    const svg = graph(links, width, async (seq) => {
      await choose(seq, links.low);
      focusChosen();
    });
    const nodes = [...svg.querySelectorAll(".node")];
    roving(
      svg,
      ".node",
      Math.max(
        0,
        nodes.findIndex((node) => node.dataset.seq === links.chosen),
      ),
    );
    svg.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      document.activeElement.dispatchEvent(new MouseEvent("click"));
    });
    replace(drawing, svg);
    const tick = h("p", { class: "tick", role: "status" });
    replace(facts, ...entryFacts(links, choose, tick));
    if (at.shows && links.entry?.state === "verified" && links.entry.payload === "complete")
      facts.append(payloadBox(log, links.chosen));
    verifyHere(tick, log, links);
    bar.firstChild.value = links.chosen;
    markChosen(picture, links.chosen);
    at.shown = links;
  }

  const step = (by) => () => {
    const { low, high, chosen } = at.shown;
    const shown = BigInt(high) - BigInt(low) + 1n;
    const to = by < 0 ? BigInt(low) - shown : BigInt(low) + shown;
    return choose(chosen, String(to < 1n ? 1n : to));
  };
  const go = h("input", {
    inputmode: "numeric",
    pattern: "[0-9]+",
    size: 8,
    "aria-label": "Entry to go to",
    onchange: () => {
      if (/^\d{1,20}$/.test(go.value) && go.value !== "0") choose(go.value);
    },
  });
  const bar = h(
    "div",
    { class: "tools" },
    go,
    h("button", { type: "button", onclick: () => choose(go.value) }, "Go"),
    h("button", { type: "button", "aria-label": "Earlier entries", onclick: step(-1) }, "← earlier"),
    h("button", { type: "button", "aria-label": "Later entries", onclick: step(1) }, "later →"),
  );

  root.append(
    head,
    forks,
    h("section", { class: "panel" }, h("h2", {}, "What is here"), picture),
    h(
      "section",
      { class: "panel" },
      h("h2", {}, "Links"),
      h(
        "p",
        { class: "faint" },
        "Each entry holds the hash of the one before it, and some of one farther back (the arcs). Choose an entry to mark its ",
        h("b", { class: "pool-word" }, "certificate pool"),
        ", the few entries with which anyone can verify it.",
      ),
      bar,
      drawing,
      legend("fbwxmugd", true),
      facts,
    ),
  );
  root.classList.add("loading"); // Shown when all of it is there, so that nothing moves.
  const refresh = throttled(load, 700);
  refresh();
  let resizing = 0;
  const onResize = () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => at.seq && draw(), 150);
  };
  addEventListener("resize", onResize);
  return {
    told(kind, value) {
      if (kind === "overview") at.shows = value.payloads_shown;
      if (kind === "changed" && (value.more || value.logs.includes(log))) refresh();
    },
    leave() {
      removeEventListener("resize", onResize);
    },
  };
}
