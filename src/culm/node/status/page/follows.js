// What the node asks its peers for.

import { ask } from "/api.js";
import { h, replace } from "/dom.js";
import { count, number } from "/format.js";
import { keyText } from "/names.js";

function followed({ what, name, by, ranges }) {
  const [author, id] = what.split("/");
  return h(
    "li",
    {},
    h("span", {}, keyText(author, name), by === "log" ? ` / ${id}` : h("span", { class: "faint" }, " all logs")),
    h("span", { class: "faint" }, ranges.join("; ")),
  );
}

function words({ everything, hoard, count: some, allowed, blocked }) {
  const lists = [
    allowed && `only the ${count(allowed, "author")} on a list ${allowed === 1 ? "is" : "are"} accepted`,
    blocked && `${count(blocked, "author")} ${blocked === 1 ? "is" : "are"} blocked`,
  ].filter(Boolean);
  const rule = hoard
    ? "It hoards: it asks for everything, whatever it follows."
    : everything
      ? "It follows nothing in particular, so it asks for everything."
      : some
        ? `It follows ${number(some)}, and asks for that and for its own logs only.`
        : "It follows nothing, so it asks only for its own logs.";
  return lists.length ? `${rule} Of that, ${lists.join(", and ")}.` : rule;
}

/** A box that opens: what is followed, asked for when it is opened. */
export function follows() {
  const content = h("div", {});
  const box = h("details", { class: "intro" }, h("summary", {}, "What this node asks for"), content);
  box.addEventListener("toggle", async () => {
    if (!box.open) return;
    try {
      const found = await ask("following");
      const rest = found.count - found.followed.length;
      replace(
        content,
        h("p", {}, words(found)),
        found.followed.length > 0 && h("ul", { class: "plain" }, found.followed.map(followed)),
        rest > 0 && h("p", { class: "faint" }, `and ${number(rest)} more: see culm following`),
      );
    } catch (error) {
      replace(content, h("p", { class: "trouble" }, error.message));
    }
  });
  return box;
}
