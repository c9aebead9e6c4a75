// The tick: whether this browser comes to the node's verdict by itself, from the bytes of the entries.
//
// It takes the node's word for nothing: not for the links, the numbers, the hashes or the signatures. A node without the
// bundle of `web/` serves an empty module instead, and then there is no tick.

import { ask } from "/api.js";
import * as culm from "/culm.js";
import { count } from "/format.js";

let checking;

/** Put the tick, or why there is none, into a paragraph; leave it empty where there is nothing to verify. */
export async function verifyHere(place, log, links) {
  if (culm.bestCheck === undefined || links.entry?.state !== "verified") return;
  let text;
  try {
    const { entries } = await ask("evidence", { log, seq: links.chosen });
    const checked = await agreed(log, links, entries);
    text = `\u2713 Verified in this browser: ${count(checked, "signature")}, and the links from here down to entry 1.`;
    place.classList.add("agrees");
  } catch (error) {
    text = `\u2717 This browser does not come to that verdict: ${error.message}.`;
    place.classList.add("disagrees");
  }
  place.textContent = text;
}

/** How many signatures were checked; an Error if the entries do not show what the page says. */
async function agreed(log, { chosen, entry: shown }, encoded) {
  checking ??= culm.bestCheck();
  const check = await checking;
  const entries = encoded.map((text) => culm.decodeEntry(culm.unhex(text)));
  const path = culm.path(BigInt(chosen), 1n).reverse();
  if (entries.length !== path.length || entries.some(({ seq }, at) => seq !== path[at])) {
    throw new Error("the entries are not those of the path");
  }
  const [author, id] = log.split("/");
  if (entries.some((one) => ![culm.base62(one.author), culm.hex(one.author)].includes(author) || String(one.logId) !== id)) {
    throw new Error("an entry is of another log");
  }
  const authentic = await Promise.all(entries.map((one) => culm.isAuthentic(one, check)));
  if (authentic.includes(false)) throw new Error(`the author has not signed entry ${path[authentic.indexOf(false)]}`);
  const last = entries.at(-1);
  if (culm.audit(entries).get(culm.hex(last.encoded)) !== "verified") throw new Error("the links do not fit");
  const facts = [culm.hex(last.hash), culm.hex(last.payloadHash), String(last.size), last.isEnd];
  if (String(facts) !== String([shown.hash, shown.payload_hash, shown.size, shown.is_end])) {
    throw new Error("the page shows something else than the entry says");
  }
  return entries.length;
}
