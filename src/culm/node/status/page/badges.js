// What is to be said of a log in a word or two.

import { h } from "/dom.js";
import { count, number } from "/format.js";

/** The badges of a log: what is wrong first, then what is missing, then what is not here by choice. */
export function badges(log) {
  const found = [];
  const add = (kind, text, title) => found.push(h("span", { class: `badge ${kind}`, title }, text));
  const { lacking } = log;
  const payloads = (some) => `${number(some)}${lacking.all ? "" : "+"} ${some === 1 ? "payload" : "payloads"}`;
  if (log.forked_at !== null) add("bad", `forked at ${number(log.forked_at)}`);
  else if (log.invalid_from !== null) add("bad", `not trusted from ${number(log.invalid_from)}`);
  if (lacking.damaged) add("bad", `${payloads(lacking.damaged)} damaged`, "Changed on this disk, so deleted, and asked for again");
  if (log.waiting) add("warn", `${number(log.waiting)} waiting`);
  if (log.certified !== null && log.certified < log.entries)
    add("gap", `${number(log.entries - log.certified)} not certified`);
  if (lacking.missing === null) add("gap", `${count(log.missing, "entry", "entries")} not here`);
  else if (lacking.missing !== "0") add("gap", `${count(lacking.missing, "entry", "entries")} missing`);
  if (lacking.payloads_missing) add("gap", `${payloads(lacking.payloads_missing)} missing`);
  const lost = found.length;
  if (lacking.unasked !== null && lacking.unasked !== "0")
    add("plain", `${count(lacking.unasked, "entry", "entries")} not asked for`);
  if (lacking.payloads_unasked) add("plain", `${payloads(lacking.payloads_unasked)} not asked for`);
  if (lacking.forgotten) add("plain", `${payloads(lacking.forgotten)} forgotten`, "Deleted here on purpose");
  if (!lost) found.unshift(h("span", { class: "badge good" }, found.length ? "all that is asked for" : "complete"));
  if (log.ended) add("plain", "ended");
  for (const clump of log.clumps ?? []) add("plain", clump === "(no clump)" ? clump : `in ${clump}`);
  return found;
}
