// Reading a log: requests, answers of a node in Python (tests/web/vectors.py records them), and what a hostile node sends.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as culm from "../dist/culm.js";

const talks = JSON.parse(readFileSync(new URL("../../build/web-vectors/talks.json", import.meta.url), "utf8"));
const check = await culm.bestCheck();

function reading(talk) {
  return new culm.Reader(culm.unhex(talk.author), BigInt(talk.log), BigInt(talk.from), talk.most);
}

/** The events of a talk, whose bytes come in pieces of some size. */
function played(talk, size = Infinity) {
  const reader = reading(talk);
  const events = [];
  let said = culm.hex(reader.dataToSend());
  for (const answer of talk.node) {
    const data = culm.unhex(answer);
    for (let at = 0; at < data.length; at += size) events.push(...reader.receive(data.subarray(at, at + size)));
    reader.refill();
    said += culm.hex(reader.dataToSend());
  }
  return { reader, events, said };
}

for (const talk of talks) {
  test(talk.name, async () => {
    const { events, said } = played(talk);
    assert.ok(said.includes(talk.request), `${talk.request} in ${said}`);
    const shown = events.map((event) =>
      event.type === "entry"
        ? [culm.hex(event.entry.encoded), event.payload === undefined ? null : culm.hex(event.payload)]
        : event.type,
    );
    assert.deepEqual(shown, talk.events);
    const found = events.filter(({ type }) => type === "entry");
    const judge = new culm.Judge(culm.unhex(talk.author), BigInt(talk.log), check);
    const verdicts = (await judge.judge(found)).map(({ verdict }) => verdict);
    assert.ok(verdicts.every((verdict) => verdict === talk.verdict), String(verdicts));
  });

  test(`${talk.name}, in pieces of any size`, () => {
    const whole = played(talk).events;
    for (const size of [1, 2, 7, 100]) assert.deepEqual(played(talk, size).events, whole);
  });
}

test("a cursor goes on where another judge has ended", async () => {
  const [talk] = talks;
  const events = played(talk).events;
  const name = [culm.unhex(talk.author), BigInt(talk.log), check];
  for (let at = 0; at < events.length; at++) {
    const first = new culm.Judge(...name);
    await first.judge(events.slice(0, at));
    const second = new culm.Judge(...name, first.cursor());
    assert.equal(second.last, BigInt(at));
    const verdicts = (await second.judge(events.slice(at))).map(({ verdict }) => verdict);
    assert.ok(verdicts.every((verdict) => verdict === "verified"));
  }
});

test("a forged entry is refused, and the right one is taken behind it", async () => {
  const [talk] = talks;
  const events = played(talk).events;
  const judge = new culm.Judge(culm.unhex(talk.author), BigInt(talk.log), check);
  await judge.judge(events.slice(0, 3));
  const { entry, payload } = events[3];
  const signature = entry.signature.slice();
  signature[0] ^= 1;
  const other = payload.slice();
  other[0] ^= 1;
  const [forged] = await judge.judge([{ entry: culm.assemble({ ...entry, signature }), payload }]);
  assert.deepEqual([forged.verdict, forged.reason], ["invalid", "the author has not signed it"]);
  const [swapped] = await judge.judge([{ entry, payload: other }]);
  assert.deepEqual([swapped.verdict, swapped.reason], ["invalid", "its payload is not the one that was signed"]);
  const foreign = { ...entry, logId: entry.logId + 1n };
  assert.equal((await judge.judge([{ entry: foreign, payload }]))[0].verdict, "invalid");
  assert.equal((await judge.judge([events[3]]))[0].verdict, "verified");
});

test("what comes behind a forged entry is not judged, so that the right one can still come in front of it", async () => {
  const [talk] = talks;
  const events = played(talk).events;
  const judge = new culm.Judge(culm.unhex(talk.author), BigInt(talk.log), check);
  const { entry, payload } = events[3];
  const signature = entry.signature.slice();
  signature[0] ^= 1;
  const forged = { entry: culm.assemble({ ...entry, signature }), payload };
  const judged = await judge.judge([...events.slice(0, 3), forged, ...events.slice(4, 9)]);
  assert.deepEqual(judged.map(({ verdict }) => verdict), ["verified", "verified", "verified", "invalid"]);
  assert.equal(judge.last, 3n);
  assert.equal(culm.Auditor.restore(judge.cursor()).last, 3n);
});

const AUTHOR = new Uint8Array(32);
for (const [name, bytes] of Object.entries({
  "data that nobody asked for": "8001aa",
  "a request": `020000${"00".repeat(32)}0504ff07ff`,
  "a lazy answer": "900000",
  "an unknown message": "ff",
  "an id that is not open": "e001",
  "an end that nobody asked for": "ac",
})) {
  test(`a node that sends ${name} is refused`, () => {
    const reader = new culm.Reader(AUTHOR, 0n, 1n, 100);
    assert.throws(() => reader.receive(culm.unhex(bytes)), culm.Malformed);
  });
}

for (const [name, bytes] of Object.entries({
  "more than its credit": "80faffffff",
  "2^63 bytes": "80ff8000000000000000",
  "an item with a tag of its own": "800102",
  "a hash of another kind": "800400030020",
})) {
  test(`a node that answers with ${name} is refused`, () => {
    const reader = new culm.Reader(AUTHOR, 0n, 1n, 100);
    reader.receive(culm.unhex("b001"));
    reader.dataToSend();
    assert.throws(() => reader.receive(culm.unhex(bytes)), culm.Malformed);
  });
}

test("random bytes end in an error of the format or wait for more, and take no memory", () => {
  let state = 1;
  const random = () => (state = (state * 48271) % 2147483647);
  const { node } = talks[0];
  const answer = culm.unhex(node.join(""));
  for (let round = 0; round < 3000; round++) {
    const data = answer.slice(0, 1 + (random() % answer.length));
    for (let change = random() % 4; change >= 0; change--) data[random() % data.length] = random() & 255;
    const reader = reading(talks[0]);
    try {
      reader.receive(culm.unhex("b001"));
      reader.dataToSend();
      reader.receive(data);
    } catch (error) {
      assert.ok(error instanceof culm.Malformed, error);
    }
  }
});
