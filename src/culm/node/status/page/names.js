// A key beside the name that this home has given it. The key is what counts: a name means nothing elsewhere.

import { copyButton, h } from "/dom.js";
import { brief } from "/format.js";

/** A name in front of its key; one that the key's owner has suggested says so. */
export const keyName = (name) => [
  h("b", { title: name.suggested ? "Its owner suggested this name, in an invitation" : null }, name.text),
  name.suggested ? h("span", { class: "faint" }, " (suggested) ") : " ",
];

/** A key, shortened, with its name before it if it has one. */
export const keyText = (key, name) => [
  name && keyName(name),
  h("code", { title: key }, name ? brief(key, 8, 0) : brief(key)),
];

/** An address, with a button that copies it. */
export const addressText = (url) => [h("code", {}, url), copyButton("Copy", url, `Copy the address ${url}`)];
