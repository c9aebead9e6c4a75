// The frame around the views: which one is shown, what all of them are told, and the figures above.

import { h, replace, copyButton } from "/dom.js";
import { duration, number } from "/format.js";
import { follow } from "/live.js";
import { forksView } from "/forks.js";
import { logView } from "/log.js";
import { logsView } from "/logs.js";
import { keyText } from "/names.js";
import { peersView } from "/peers.js";
import { problemsView } from "/problems.js";

const VIEWS = { logs: logsView, log: logView, peers: peersView, forks: forksView, problems: problemsView };
const NAMES = { logs: "Logs", peers: "Peers", forks: "Forks", problems: "Problems" };
const ALARMING = ["forks", "problems"];
const at = (id) => document.getElementById(id);

let view = null;
let overview = null;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  return { name: VIEWS[name] ? name : "logs", rest, query: new URLSearchParams(query) };
}

function show() {
  const { name, rest, query } = route();
  view?.leave?.();
  const root = h("div", { class: `view ${name}` });
  at("view").replaceChildren(root);
  view = VIEWS[name](root, rest, query);
  view.name = name;
  document.title = `${NAMES[name] ?? "Log"} · Culm node`;
  navigation();
  if (overview) view.told?.("overview", overview);
}

function navigation() {
  const counts = overview && {
    logs: overview.totals.logs,
    peers: overview.session_count,
    forks: overview.totals.forked,
    problems: overview.problem_count,
  };
  const current = view?.name === "log" ? "logs" : view?.name;
  replace(
    at("nav"),
    Object.entries(NAMES).map(([name, label]) =>
      h(
        "a",
        {
          href: `#/${name}`,
          "data-key": name,
          "aria-current": name === current ? "page" : null,
          class: ALARMING.includes(name) && counts?.[name] ? "alarm" : null,
        },
        label,
        counts && h("span", { class: "count" }, number(counts[name])),
      ),
    ),
  );
}

function frame() {
  replace(
    at("who"),
    h("span", { class: "faint" }, "identity "),
    h("span", {}, keyText(overview.identity, overview.identity_name)),
    copyButton("Copy", overview.identity, "Copy the node's identity"),
  );
  const seconds = Date.now() / 1000 - overview.started;
  replace(
    at("foot"),
    h(
      "p",
      {},
      `Culm ${overview.version} · up ${duration(seconds)} · `,
      overview.listeners.length
        ? `listens at ${overview.listeners.join(", ")}`
        : "listens nowhere: it only calls others",
      " · ",
      h("a", { href: "/metrics" }, "metrics"),
    ),
    h("p", {}, "This page is read-only."),
  );
}

function told(kind, value) {
  if (kind === "overview") {
    overview = value;
    frame();
    navigation();
  }
  view?.told?.(kind, value);
}

// Moments to come are counted down here, because nothing is sent while nothing changes.
setInterval(() => {
  for (const element of document.querySelectorAll(".retry")) {
    element.textContent = `retry in ${duration(Math.max(0, element.dataset.moment - Date.now() / 1000))}`;
  }
}, 1000);

const WORDS = { on: "live", off: "connection lost, trying again" };

addEventListener("hashchange", () => {
  show();
  at("view").focus({ preventScroll: true });
  scrollTo(0, 0);
});
show();
follow(told, (state) => {
  at("live").dataset.state = state;
  at("live").textContent = WORDS[state];
  if (state === "on") view?.told?.("changed", { logs: [], more: true });
});
