// The same questions as to the implementation in Python, and the same answers (tests/web/vectors.py makes them).
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import * as culm from "../dist/culm.js";

const root = new URL("../../", import.meta.url);
const read = (name) => JSON.parse(readFileSync(new URL(name, root), "utf8"));
const vectors = (name) => read(`build/web-vectors/${name}.json`);
const CHECKS = { noble: culm.byNoble, WebCrypto: culm.byWebCrypto(crypto.subtle) };

test("the bundle has at most 60 kB, compressed", () => {
  const code = readFileSync(new URL("../dist/culm.js", import.meta.url));
  assert.ok(gzipSync(code, { level: 9 }).length <= 60_000);
});

test("numbers are written in the shortest form, and longer forms are refused", () => {
  for (const [value, text] of vectors("numbers")) {
    assert.equal(culm.hex(culm.encodeU64(BigInt(value))), text);
    assert.equal(new culm.Cursor(culm.unhex(text)).u64(), BigInt(value));
  }
  for (const text of ["f800", "f8f7", "f900ff", "f9", ""]) {
    assert.throws(() => new culm.Cursor(culm.unhex(text)).u64(), culm.Malformed);
  }
});

test("keys as text", () => {
  assert.equal(culm.base62(new Uint8Array(32)), "0".repeat(43));
  assert.equal(culm.base62(new Uint8Array(32).fill(255)), "yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1");
  assert.equal(culm.base62(Uint8Array.from({ length: 32 }, (_, at) => at)), "003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf");
});

test("keys that people type", () => {
  for (const key of [new Uint8Array(32), new Uint8Array(32).fill(255), Uint8Array.from({ length: 32 }, (_, at) => at)]) {
    assert.deepEqual(culm.parseKey(culm.base62(key)), key);
    assert.deepEqual(culm.parseKey(culm.hex(key)), key);
    assert.deepEqual(culm.parseKey(culm.hex(key).toUpperCase()), key);
  }
  for (const text of ["", "0".repeat(42), "0".repeat(44), "0".repeat(63), "z".repeat(43), "-".repeat(43), "é".repeat(43)]) {
    assert.throws(() => culm.parseKey(text), RangeError);
  }
});

test("links, paths and certificate pools", () => {
  for (const row of vectors("paths")) {
    const seq = BigInt(row.seq);
    assert.equal(culm.lipmaa(seq), BigInt(row.lipmaa), row.seq);
    assert.equal(culm.spine(seq), BigInt(row.spine));
    assert.deepEqual(culm.path(seq, BigInt(row.goal)).map(String), row.path);
    assert.deepEqual(culm.certificatePool(seq).map(String), row.pool);
    if (row.across.length > 0) assert.deepEqual([...culm.linksAcross(seq)].map(String).sort(), row.across);
  }
  for (const wrong of [0n, -1n, (3n ** 42n + 1n) / 2n]) assert.throws(() => culm.lipmaa(wrong), RangeError);
});

for (const [name, check] of Object.entries(CHECKS)) {
  test(`signatures on which rules differ, by ${name}`, async () => {
    for (const { name: what, accepted, signed } of read("src/culm/bamboo/signatures.json")) {
      const data = culm.unhex(signed);
      const verdict = await check(data.subarray(-64), data.subarray(0, -64), data.subarray(1, 33));
      assert.equal(verdict, accepted, what);
    }
  });
}

test("WebCrypto is not used where it answers a known question wrong, or is missing", async () => {
  const yes = { importKey: async () => ({}), verify: async () => true };
  assert.equal(await culm.bestCheck(yes), culm.byNoble);
  const no = { importKey: async () => { throw new Error("NotSupportedError"); } };
  assert.equal(await culm.bestCheck(no), culm.byNoble);
  assert.notEqual(await culm.bestCheck(), culm.byNoble); // Node's is right.
});

async function verdictsOn(log, check) {
  const entries = log.map(({ entry }) => {
    try {
      return culm.decodeEntry(culm.unhex(entry));
    } catch (error) {
      assert.ok(error instanceof culm.Malformed, error);
      return undefined;
    }
  });
  const authentic = await Promise.all(entries.map((entry) => entry && culm.isAuthentic(entry, check)));
  const logs = byLog(entries.filter((_, at) => authentic[at]));
  const verdicts = new Map([...logs.values()].flatMap((some) => [...culm.audit(some)]));
  return entries.map((entry, at) => {
    if (entry === undefined) return ["malformed", ""];
    const verdict = verdicts.get(culm.hex(entry.encoded)) ?? "forged";
    return [verdict, culm.checkPayload(entry, culm.unhex(log[at].payload))];
  });
}

function byLog(entries) {
  const logs = new Map();
  for (const entry of entries) {
    const name = `${culm.hex(entry.author)}/${entry.logId}`;
    logs.set(name, [...(logs.get(name) ?? []), entry]);
  }
  return logs;
}

test("the same verdicts on 1,000 adversarial logs", { timeout: 300_000 }, async () => {
  const logs = vectors("logs");
  assert.equal(logs.length, 1000);
  for (const [number, log] of logs.entries()) {
    const expected = log.map((row) => [row.verdict, row.with]);
    // One in twenty by noble, too, which is slow.
    for (const check of number % 20 === 0 ? [CHECKS.WebCrypto, CHECKS.noble] : [CHECKS.WebCrypto]) {
      assert.deepEqual(await verdictsOn(log, check), expected, `log ${number}`);
    }
  }
});

test("every byte of an entry counts", async () => {
  const [{ entry }] = vectors("logs").flat().filter(({ verdict }) => verdict === "verified");
  const data = culm.unhex(entry);
  for (let at = 0; at < data.length; at++) {
    const changed = data.slice();
    changed[at] ^= 1;
    const accepted = await Promise.resolve().then(() => culm.isAuthentic(culm.decodeEntry(changed), CHECKS.WebCrypto))
      .catch((error) => { if (error instanceof culm.Malformed) return false; throw error; });
    assert.equal(accepted, false, `byte ${at}`);
  }
});
