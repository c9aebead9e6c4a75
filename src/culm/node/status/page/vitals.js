// The last hour as small curves, the space on the disk, and when the store changed last.

import { ask, throttled } from "/api.js";
import { h, replace, s } from "/dom.js";
import { ago, number, size } from "/format.js";

const MINUTES = 60;
const CURVES = [
  ["bytes_in", "bytes in", size],
  ["bytes_out", "bytes out", size],
  ["entries_in", "entries in", (value) => number(Math.round(value))],
  ["entries_out", "entries out", (value) => number(Math.round(value))],
];

/** A curve of a sum for each minute; the newest is at the right, and minutes before the node started are empty. */
function curve([name, label, text], sums) {
  const most = Math.max(1, ...sums);
  const all = sums.reduce((one, other) => one + other, 0);
  const words = `${label}, last hour: ${text(all)}; at most ${text(most)} in a minute`;
  const x = (at) => MINUTES - sums.length + at;
  const points = sums.map((sum, at) => `${x(at)} ${(19 - (17 * sum) / most).toFixed(1)}H${x(at) + 1}`);
  return h(
    "figure",
    { class: "curve" },
    h("figcaption", {}, h("span", { class: "faint" }, label), " ", h("b", {}, text(all))),
    s(
      "svg",
      { viewBox: `0 0 ${MINUTES} 20`, preserveAspectRatio: "none", role: "img", "aria-label": words },
      s("title", {}, words),
      s("path", { class: "base", d: `M0 19.5H${MINUTES}` }),
      sums.length && s("path", { class: "line", d: `M${points.join("L")}` }),
    ),
  );
}

/** A panel of them. Give it every overview. */
export function vitals() {
  const curves = h(
    "div",
    { class: "curves" },
    CURVES.map((one) => curve(one, [])), // Their room, so that nothing moves when they come.
  );
  const space = h("p", { class: "space" });
  const panel = h("section", { class: "panel vitals" }, h("h2", {}, "The last hour"), curves, space);
  const refresh = throttled(async () => {
    const history = await ask("history").catch(() => null);
    if (history)
      replace(
        curves,
        CURVES.map((one) => curve(one, history[one[0]])),
      );
  }, 20000);
  function told({ disk, changed_at }) {
    const { database, payloads, free, total } = disk;
    if (total !== undefined)
      space.textContent =
        `The store takes ${size(database + payloads)}` +
        (payloads ? `, ${size(payloads)} of it in files of large payloads` : "") +
        `; ${size(free)} of ${size(total)} are free.` +
        (changed_at ? ` It changed last ${ago(changed_at)}.` : "");
    refresh();
  }
  return { panel, told };
}
