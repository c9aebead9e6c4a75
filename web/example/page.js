// The example: follows one log, shows each entry with the verdict of this page, and keeps a cursor to go on from.
//
// "Forge the next one" does what a lying node or proxy could do: it changes one byte of what comes next, before the page
// has looked at it. The page refuses that and hangs up, as with a real lie, and goes on behind the last verified entry.

import { bestCheck, follow, parseKey } from "../dist/culm.js";

const MOST_ROWS = 500; // Entries that are shown, so that a long log does not fill the memory of the page.
const RETRY_MS = 1000;
const $ = (id) => document.getElementById(id);
let following;
let forges = false;

const NativeSocket = globalThis.WebSocket;
globalThis.WebSocket = class extends NativeSocket {
  set onmessage(handler) {
    super.onmessage = ({ data }) => {
      const bytes = new Uint8Array(data);
      if (forges && bytes.length > 100) { // An entry, and not only a sign of life.
        forges = false;
        bytes[100] ^= 1;
      }
      handler({ data });
    };
  }
};

function show(judged) {
  const rows = judged.slice(-MOST_ROWS).map(({ entry, payload, verdict, reason }) => {
    const row = document.createElement("tr");
    row.className = verdict;
    row.dataset.seq = entry.seq;
    const text = payload === undefined ? `(${entry.size} bytes)` : new TextDecoder().decode(payload.slice(0, 200));
    for (const shown of [entry.seq, reason === undefined ? `\u2713 ${verdict}` : `\u2717 ${verdict}: ${reason}`, text]) {
      row.append(Object.assign(document.createElement("td"), { textContent: shown }));
    }
    return row;
  });
  $("entries").prepend(...rows.reverse());
  while ($("entries").rows.length > MOST_ROWS) $("entries").lastChild.remove();
}

async function run(url, log, token) {
  following?.abort();
  const { signal } = (following = new AbortController());
  const [author, logId] = log.split("/");
  const key = `culm:${url}:${log}`;
  const check = await bestCheck();
  $("forge").disabled = false;
  while (!signal.aborted) {
    const cursor = localStorage.getItem(key) ?? undefined;
    $("state").textContent = cursor ? `goes on behind entry ${JSON.parse(cursor).last}` : "begins with entry 1";
    try {
      await follow({ url, author: parseKey(author), logId: BigInt(logId), token, check, cursor, signal }, (judged, now) => {
        show(judged);
        localStorage.setItem(key, now);
      });
    } catch (error) {
      $("state").textContent = `${error.message}; trying again`;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

$("forge").addEventListener("click", () => {
  forges = true;
});
$("what").addEventListener("submit", (event) => {
  event.preventDefault();
  run($("url").value, $("log").value, $("token").value || undefined).catch((error) => {
    $("state").textContent = error.message;
  });
});
const given = new URLSearchParams(location.hash.slice(1));
if (given.has("url") && given.has("log")) {
  for (const name of ["url", "log"]) $(name).value = given.get(name);
  $("what").requestSubmit();
}
