// What is wrong, each with what to do about it.

import { ask, throttled } from "/api.js";
import { h, replace } from "/dom.js";
import { ago, count, duration, number, size } from "/format.js";
import { empty, trouble } from "/legend.js";
import { keyText } from "/names.js";

const item = (kind, title, what, todo) =>
  h(
    "li",
    { class: "problem" },
    h("p", { class: "what" }, h("span", { class: `badge ${kind}` }, title), " ", what),
    todo && h("p", { class: "todo" }, h("b", {}, "What to do: "), `${todo}.`),
  );

/** When a peer is called next: counted down by the frame of the page. */
export const retry = (moment) =>
  moment &&
  h(
    "span",
    { class: "faint retry", "data-moment": moment },
    `retry in ${duration(Math.max(0, moment - Date.now() / 1000))}`,
  );

const LEVELS = { problem: "bad", note: "warn" };

function damage({ log, name, seq, size: bytes, todo }) {
  const [author, id] = log.split("/");
  const place = h("a", { href: `#/log/${log}?seq=${seq}` }, "entry ", number(seq));
  return item("bad", "damaged", ["the payload of ", place, " of ", keyText(author, name), ` / ${id}, ${size(bytes)}`], todo);
}

function part(title, why, items, none) {
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, title),
    h("p", { class: "faint" }, why),
    items.length ? h("ul", { class: "problems" }, items) : h("p", {}, none),
  );
}

/** The view of all problems. Sessions come live; the rest is asked for. */
export function problemsView(root) {
  let found = null;
  let sessions = [];
  let failed = null;

  function draw() {
    if (failed) return replace(root, trouble(failed));
    if (!found) return;
    const ended = sessions.filter((session) => session.todo);
    const { findings, damaged, peers } = found;
    const all = findings.length + damaged.length + peers.length + ended.length;
    replace(
      root,
      !all && h("section", { class: "panel" }, empty("No problems", "Nothing needs your attention.")),
      part(
        "The home",
        "The findings of culm doctor, without the checks that read the whole store: run it for those.",
        findings.map(({ level, check, what, todo }) => item(LEVELS[level] ?? "plain", check, what, todo)),
        "Nothing was found.",
      ),
      part(
        "Damage",
        "Payloads whose bytes had changed on the disk. They were deleted, and are asked for again.",
        damaged.map(damage),
        "No payload is damaged.",
      ),
      part(
        "Peers out of reach",
        "Configured peers that this node cannot reach now.",
        peers.map(({ url, trouble: why, retry_at, todo }) =>
          item("warn", "not connected", [h("code", {}, url), `: ${why} `, retry(retry_at)], todo),
        ),
        "All configured peers can be reached.",
      ),
      part(
        "Sessions that ended with an error",
        "The last of them; the log of the node has all.",
        ended.map((session) =>
          item(
            "plain",
            session.scheme,
            [h("b", {}, session.address || session.name), `, ${ago(session.until)}: ${session.why}`],
            session.todo,
          ),
        ),
        sessions.length ? `None of the last ${count(sessions.length, "session")} did.` : "No session has ended yet.",
      ),
    );
  }

  const refresh = throttled(async () => {
    try {
      found = await ask("problems");
      failed = null;
    } catch (error) {
      failed = error;
    }
    draw();
  }, 5000);
  refresh();
  return {
    told(kind, value) {
      if (kind === "changed") return refresh();
      if (JSON.stringify(value.ended) === JSON.stringify(sessions)) return;
      sessions = value.ended;
      draw();
      refresh();
    },
  };
}
