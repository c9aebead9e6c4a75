// The example of proofs: a file that is dropped on the page, or chosen, is checked, and the page says what it proves.

import { NotProved, base62, bestCheck, checkProof, hex, parseKey } from "../dist/culm.js";

const MOST_SHOWN = 1000; // Bytes of a payload that are shown as text.
const $ = (id) => document.getElementById(id);
const answered = (kind, title, ...lists) => {
  const heading = Object.assign(document.createElement("h2"), { className: kind, textContent: title });
  $("answer").replaceChildren(heading, ...lists);
};

function listed(lines) {
  const list = document.createElement("ul");
  list.append(...lines.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  return list;
}

async function explained({ entries, entry, top, forkedAt, payload }, isAsked) {
  const links = entries.length === 1 ? "1 signed entry links" : `${entries.length} signed entries link`;
  const proved = [
    `${base62(entry.author)} signed entry ${entry.seq} of log ${entry.logId}.`,
    `${links} it into one history, from entry 1 to entry ${top.seq}.`,
  ];
  if (payload === undefined) {
    proved.push(`Its payload has ${entry.size} bytes and the BLAKE2b-512 hash ${hex(entry.payloadHash.subarray(2))}.`);
  } else {
    const text = new TextDecoder().decode(await payload.slice(0, MOST_SHOWN).arrayBuffer());
    proved.push(`Its payload is in the file: ${entry.size} bytes, which begin with: ${text}`);
  }
  if (top.isEnd) proved.push(`The log ended with entry ${top.seq}.`);
  if (forkedAt !== undefined) proved.push(`The author forked the log later, at entry ${forkedAt}.`);
  const open = ["When the entry was written, and whether what it says is true."];
  if (!isAsked) open.unshift("Who this author is: compare the key, or give it above.");
  if (!top.isEnd) open.push(`That the log has no entry after ${top.seq}.`);
  if (forkedAt === undefined) {
    const begin = hex(top.hash.subarray(2, 10));
    open.push(`That the author shows everybody this history: compare entry ${top.seq}, whose hash begins with ${begin}, with somebody else's.`);
  }
  const heading = Object.assign(document.createElement("h2"), { textContent: "Not proved" });
  return [listed(proved), heading, listed(open)];
}

let latest; // The file that was given last: an answer to an earlier one is not shown any more.

async function answer() {
  const file = latest;
  if (file === undefined) return;
  const text = $("author").value.trim();
  try {
    const proof = await checkProof(file, await bestCheck(), text ? parseKey(text) : undefined);
    const lists = await explained(proof, text !== "");
    if (file === latest) answered("proved", "\u2713 Proved", ...lists);
  } catch (error) {
    const isKnown = error instanceof NotProved || error instanceof RangeError;
    const reason = isKnown ? error.message : `the file cannot be read: ${error.message}`;
    if (file === latest) answered("refused", "\u2717 Nothing is proved", listed([reason]));
  }
}

function given(file) {
  latest = file;
  answered("", `Checking ${file.name} \u2026`);
  answer();
}

for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault(); // Otherwise the browser opens the file in place of the page.
    $("drop").classList.toggle("over", name === "dragenter" || name === "dragover");
  });
}
document.addEventListener("drop", ({ dataTransfer }) => {
  if (dataTransfer.files.length > 0) given(dataTransfer.files[0]);
});
$("file").addEventListener("change", ({ target }) => {
  if (target.files.length > 0) given(target.files[0]);
});
$("author").addEventListener("change", answer);
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
