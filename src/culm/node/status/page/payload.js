// The payload of an entry, where the node shows payloads: a preview as text, and a download.
//
// Whatever an author wrote stays text here: it never becomes markup, and the download is a file without a type.

import { ask } from "/api.js";
import { h, replace } from "/dom.js";
import { size } from "/format.js";

function shown({ text, hex, sealed, size: bytes }) {
  if (sealed) return h("p", {}, "This payload is sealed: only its readers can open it, and this node is not one of them.");
  if (bytes === "0") return h("p", {}, "The payload is empty.");
  const part = text ?? hex.replace(/(..)/g, "$1 ").trim();
  const all = text === null ? hex.length / 2 >= Number(bytes) : new TextEncoder().encode(text).length >= Number(bytes);
  return [
    h("pre", { class: "preview", tabindex: "0", "aria-label": "The payload's beginning" }, part),
    !all && h("p", { class: "faint" }, `This is the beginning of the payload, which has ${size(bytes)}.`),
  ];
}

/** A box for the payload of an entry; it asks for the preview when it is opened. */
export function payloadBox(log, seq) {
  const content = h("div", {});
  const address = `/api/payload?${new URLSearchParams({ log, seq })}`;
  const box = h("details", { class: "payload" }, h("summary", {}, "Payload"), content);
  box.addEventListener(
    "toggle",
    async () => {
      try {
        const preview = await ask("preview", { log, seq });
        replace(content, shown(preview), h("p", {}, h("a", { class: "button", download: "", href: address }, "Download")));
      } catch (error) {
        replace(content, h("p", { class: "trouble" }, `${error.message}.`));
      }
    },
    { once: true },
  );
  return box;
}
