// The peers of the node: open sessions, peers it stays connected to, its addresses, and past sessions.

import { copyButton, h, replace } from "/dom.js";
import { ago, count, duration, number, size } from "/format.js";
import { empty } from "/legend.js";
import { addressText, keyText } from "/names.js";
import { retry } from "/problems.js";

const who = (session) =>
  session.peer
    ? h("span", {}, keyText(session.peer, session.peer_name), copyButton("Copy", session.peer, "Copy the peer's key"))
    : h("span", {}, session.name === "a caller" ? "called us" : "we called");

function flow(label, arrow, bytes, rate, entries, entryRate) {
  return h(
    "div",
    { class: "flow" },
    h("span", { class: "arrow", "aria-hidden": "true" }, arrow),
    h("span", { class: "faint" }, label),
    h("b", {}, `${size(rate)}/s`),
    h("span", {}, `${size(bytes)} · ${count(entries, "entry", "entries")}`),
    entryRate >= 0.5 && h("span", { class: "faint" }, `${number(Math.round(entryRate))} entries/s`),
  );
}

function sessionCard(session) {
  const total = session.left + session.entries_in;
  return h(
    "li",
    { class: "session" },
    h(
      "div",
      { class: "who" },
      h("span", { class: "badge scheme" }, session.scheme),
      h("b", {}, session.address || session.name),
      who(session),
      h("span", { class: "faint" }, `for ${duration(Date.now() / 1000 - session.since)}`),
    ),
    h(
      "div",
      { class: "flows" },
      flow("in", "↓", session.bytes_in, session.bytes_in_rate, session.entries_in, session.entries_in_rate),
      flow("out", "↑", session.bytes_out, session.bytes_out_rate, session.entries_out, session.entries_out_rate),
    ),
    h(
      "div",
      { class: "left" },
      session.left
        ? [
            h("progress", {
              max: total,
              value: session.entries_in,
              "aria-label": "Entries received of those announced",
            }),
            h("span", {}, `${count(session.left, "entry", "entries")} to come`),
          ]
        : h("span", { class: "faint" }, "nothing outstanding"),
      session.forks > 0 && h("span", { class: "badge bad" }, count(session.forks, "fork proof")),
      session.refused > 0 &&
        h(
          "details",
          {},
          h("summary", {}, h("span", { class: "badge warn" }, `${number(session.refused)} refused`)),
          h(
            "ul",
            {},
            session.refusals.map((line) => h("li", {}, line)),
          ),
        ),
    ),
  );
}

function contact(peer) {
  const state = peer.connected
    ? ["good", "connected"]
    : peer.trouble
      ? ["warn", "not connected"]
      : ["plain", "waits for the next call"];
  return h(
    "li",
    {},
    peer.name !== peer.url && h("b", {}, peer.name),
    h("span", {}, addressText(peer.url)),
    h("span", { class: `badge ${state[0]}` }, state[1]),
    !peer.connected && peer.trouble && h("span", { class: "faint" }, peer.trouble),
    !peer.connected && retry(peer.retry_at),
  );
}

function ended(session) {
  return h(
    "li",
    {},
    h("span", { class: "badge scheme" }, session.scheme),
    h("b", {}, session.address || session.name),
    h(
      "span",
      { class: "faint" },
      `${ago(session.until)}, after ${duration(session.until - session.since)}; ${count(session.entries_in, "entry", "entries")} in, ${number(session.entries_out)} out`,
    ),
    session.why && h("span", {}, session.why),
  );
}

/** The view of the peers: it shows what comes live and asks for nothing. */
export function peersView(root) {
  const sessions = h("div", {});
  const others = h("div", { class: "columns" });
  root.append(
    h(
      "section",
      { class: "panel" },
      h("h2", {}, "Sessions"),
      h(
        "p",
        { class: "faint" },
        "A session is a connection over which logs go in both directions. No entry is trusted before it is verified.",
      ),
      sessions,
    ),
    others,
  );

  function draw(now) {
    replace(
      sessions,
      now.sessions.length
        ? h("ul", { class: "sessions" }, now.sessions.map(sessionCard))
        : empty(
            "No peer is connected",
            now.listeners.length
              ? ["Others reach this node at ", h("code", {}, now.listeners.join(", ")), "."]
              : "This node listens nowhere: start it with --listen, or name peers with --peer.",
          ),
      now.session_count > now.sessions.length &&
        h("p", { class: "faint" }, `and ${number(now.session_count - now.sessions.length)} more`),
    );
    const part = (title, words, items) =>
      h(
        "section",
        { class: "panel" },
        h("h2", {}, title),
        items.length ? h("ul", { class: "plain" }, items) : h("p", { class: "faint" }, words),
      );
    replace(
      others,
      part(
        "Listens at",
        "Nowhere: it only calls others.",
        now.listeners.map((url) => h("li", {}, h("span", {}, addressText(url)))),
      ),
      part("Keeps contact with", "No peer is configured; this node waits for calls.", now.peers.map(contact)),
      part("Sessions that ended", "None since the node was started.", now.ended.map(ended)),
    );
  }

  return {
    told(kind, value) {
      if (kind === "overview") draw(value);
    },
  };
}
