// The list of logs: each with a small picture of what is held of it.

import { ask, throttled } from "/api.js";
import { badges } from "/badges.js";
import { strip } from "/coverage.js";
import { h, replace } from "/dom.js";
import { count, number } from "/format.js";
import { follows } from "/follows.js";
import { empty, introduction, legend, trouble } from "/legend.js";
import { keyText } from "/names.js";
import { vitals } from "/vitals.js";

const ORDERS = { recent: "changed last", name: "author", entries: "most entries", missing: "most missing" };
const ONLY = { all: "All", gaps: "With gaps", forked: "Forked", waiting: "Waiting" };
const PAGE = 25;

/** The address of a log's own view. */
export const logHref = (log, seq) => `#/log/${log.author}/${log.id}${seq ? `?seq=${seq}` : ""}`;

function row(log) {
  return h(
    "li",
    {},
    h(
      "a",
      { class: "row", href: logHref(log), "data-key": log.log },
      h("span", { class: "name" }, h("span", { class: "key" }, keyText(log.author, log.name)), h("b", {}, ` / ${log.id}`)),
      strip(log.cells, log.lacks, log.greatest),
      h("span", { class: "figures" }, `${number(log.entries)} of ${number(log.newest)}`),
      h("span", { class: "badges" }, badges(log)),
    ),
  );
}

// Before the first totals come, the figures have their room already, so that nothing moves.
function tiles(totals) {
  const tile = (name, one, many, kind, title) => {
    const value = totals?.[name];
    return h(
      "div",
      { class: `tile ${value ? kind : ""}`, title },
      h("dd", {}, value === undefined ? "\u2013" : number(value)),
      h("dt", {}, value === 1 ? one : many),
    );
  };
  return h(
    "dl",
    { class: "tiles" },
    tile("logs", "log", "logs", ""),
    tile("entries", "verified entry", "verified entries", "", "Signed by their author, linked down to entry 1, and not contradicted by another entry"),
    tile("payloads", "payload", "payloads", "", "The content that entries name"),
    tile(
      "gaps",
      "log with gaps",
      "logs with gaps",
      "",
      "An entry or a payload below the newest entry is not here, whether it is asked for or not",
    ),
    tile("waiting", "waiting", "waiting", "warn", "Held until the entries arrive that connect them to entry 1"),
    tile("forked", "forked log", "forked logs", "bad", "Their author signed entries that contradict each other"),
    tile("damaged", "damaged payload", "damaged payloads", "bad", "Changed on this node's disk, so deleted, and asked for again"),
  );
}

/** The view of all logs; the query holds what is asked for, so that it can be kept as a link. */
export function logsView(root, _rest, query) {
  const asked = { order: "recent", only: "all", search: "", offset: 0, ...Object.fromEntries(query) };
  const figures = h("div", { class: "figures-of-all" }, tiles());
  const list = h("div", { "aria-live": "off" });
  const pulse = vitals();
  let drawn = "";

  const change = (part) => {
    Object.assign(asked, { offset: 0 }, part);
    history.replaceState(null, "", `#/logs?${new URLSearchParams(asked)}`);
    refresh();
  };

  async function load() {
    let answer;
    try {
      answer = await ask("logs", { ...asked, limit: PAGE });
    } catch (error) {
      drawn = "";
      replace(list, trouble(error));
      return;
    }
    const text = JSON.stringify(answer);
    if (text !== drawn) draw(answer);
    drawn = text;
  }

  function draw({ count: all, offset, logs }) {
    if (!all) {
      const filtered = asked.search || asked.only !== "all";
      replace(
        list,
        filtered
          ? empty("No log fits", "No log of this node matches the search.")
          : empty(
              "No logs yet",
              "They appear here as soon as a peer sends some, or when you publish one: ",
              h("code", {}, "culm append 1 --text hello"),
            ),
      );
      return;
    }
    const more = offset + logs.length < all;
    const turn = (to, label) =>
      h("button", { type: "button", "data-key": label, onclick: () => change({ offset: to }) }, label);
    const head = h(
      "li",
      { "aria-hidden": "true" },
      h(
        "div",
        { class: "row head" },
        h("span", {}, "author / log"),
        h("span", {}, "what is here, from entry 1 to the newest"),
        h("span", { class: "figures" }, "entries"),
        h("span", {}, ""),
      ),
    );
    replace(
      list,
      h("ul", { class: "rows" }, head, logs.map(row)),
      h(
        "div",
        { class: "pager" },
        h(
          "span",
          {},
          logs.length
            ? `${number(offset + 1)}–${number(offset + logs.length)} of ${count(all, "log")}`
            : `none of ${count(all, "log")}`,
        ),
        offset > 0 && turn(Math.max(0, offset - PAGE), "Previous"),
        more && turn(offset + PAGE, "Next"),
      ),
    );
  }

  let typing = 0;
  const search = h("input", {
    type: "search",
    value: asked.search,
    placeholder: "author begins with …, or /log",
    "aria-label": "Search by author or /log",
    maxlength: 100,
    spellcheck: "false",
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => change({ search: search.value }), 200);
    },
  });
  const order = h(
    "select",
    { "aria-label": "Sort by", onchange: () => change({ order: order.value }) },
    Object.entries(ORDERS).map(([value, label]) => h("option", { value, selected: value === asked.order }, label)),
  );
  const only = h(
    "div",
    { class: "choices", role: "group", "aria-label": "Which logs" },
    Object.entries(ONLY).map(([value, label]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(value === asked.only),
          onclick: (event) => {
            for (const button of only.children) button.setAttribute("aria-pressed", String(button === event.target));
            change({ only: value });
          },
        },
        label,
      ),
    ),
  );

  root.append(
    introduction(),
    figures,
    pulse.panel,
    follows(),
    h(
      "section",
      { class: "panel" },
      h("h2", {}, "Logs"),
      h("div", { class: "tools" }, search, only, h("label", {}, "sorted by ", order)),
      legend("fbpwxmugd"),
      list,
    ),
  );
  const refresh = throttled(load, 700);
  refresh();
  return {
    told(kind, value) {
      if (kind === "overview") {
        replace(figures, tiles(value.totals));
        pulse.told(value);
      } else refresh();
    },
  };
}
