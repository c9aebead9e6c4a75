// The same files as to the implementation in Python, and the same answers (tests/web/vectors.py makes them).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as culm from "../dist/culm.js";

const root = new URL("../../", import.meta.url);
const read = (name) => JSON.parse(readFileSync(new URL(name, root), "utf8"));
const proofs = read("build/web-vectors/proofs.json");
const check = await culm.bestCheck();
const fileOf = (text) => new Blob([culm.unhex(text)]);

/** What a file proves, in the words of the vectors; null if it proves nothing. */
async function proved(file, author) {
  try {
    const { entries, entry, top, forkedAt, payload } = await culm.checkProof(file, check, author);
    return {
      seq: String(entry.seq),
      hash: culm.hex(entry.hash),
      top: String(top.seq),
      ends: top.isEnd,
      entries: entries.map(({ seq }) => String(seq)),
      forkedAt: forkedAt === undefined ? null : String(forkedAt),
      payload: payload === undefined ? null : culm.hex(new Uint8Array(await payload.arrayBuffer())),
    };
  } catch (error) {
    assert.ok(error instanceof culm.NotProved, error);
    return null;
  }
}

test("the same answers on 1,100 files, of which most were changed", async () => {
  assert.equal(proofs.length, 1100);
  for (const [number, row] of proofs.entries()) {
    assert.deepEqual(await proved(fileOf(row.file), culm.unhex(row.author)), row.proved, `file ${number}: ${row.reason}`);
  }
  for (const kind of ["forkedAt", "payload"]) assert.ok(proofs.some(({ proved: is }) => is && is[kind] !== null), kind);
  assert.ok(proofs.some(({ proved: is }) => is?.ends));
});

test("the example of the specification", async () => {
  const { parts } = read("tests/vectors/proof/examples.json");
  const { entries, entry, payload } = await culm.checkProof(fileOf(parts.map(({ hex }) => hex).join("")), check);
  assert.deepEqual(entries.map(({ seq }) => seq), [1n, 4n, 5n]);
  assert.equal(entry.seq, 4n);
  assert.equal(await payload.text(), "bamboo 4");
});

test("each refusal says why", async () => {
  const right = proofs.find(({ proved: is }) => is && is.payload === null && is.entries.length > 3);
  const bytes = culm.unhex(right.file);
  const changed = (at, value) => Object.assign(bytes.slice(), { [at]: value });
  const cases = [
    [new Uint8Array(0), "begins with other bytes"],
    [changed(10, 2), "a version that this page cannot read"],
    [changed(11, 8), "unknown flags: 8"],
    [bytes.subarray(0, 60), "breaks its format"],
    [changed(12, bytes[12] ^ 1), "entry 1 has a wrong signature"],
    [culm.concat(bytes, Uint8Array.of(0)), "more bytes follow the proof"],
    [changed(11, bytes[11] | 4), "the payload in the file has 0 bytes|hash differs"],
  ];
  for (const [data, reason] of cases) {
    await assert.rejects(culm.checkProof(new Blob([data]), check), { name: "NotProved", message: new RegExp(reason) });
  }
  const another = culm.checkProof(fileOf(right.file), check, new Uint8Array(32));
  await assert.rejects(another, { message: /another author/ });
});

test("of a huge file only the beginning is read", async () => {
  const right = proofs.find(({ proved: is }) => is?.payload === null);
  const pieces = [culm.unhex(right.file), ...Array(64).fill(new Uint8Array(1 << 20))];
  const file = new Blob(pieces);
  let most = 0;
  const watched = { size: file.size, slice: (from, to = file.size) => {
    most = Math.max(most, to - from);
    return file.slice(from, to);
  } };
  await assert.rejects(culm.checkProof(watched, check), { message: /bytes follow the proof/ });
  assert.equal(most, 128 * 1024);
});
