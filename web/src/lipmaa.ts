// The link graph of a log (docs/specs/bamboo.md, "Lipmaa links" and "Certificate pools").
//
// Numbers are bigint: a sequence number has 64 bits, and pools reach beyond them.

import { MAX_U64 } from "./bytes.ts";

/** (3^k - 1)/2 for k from 0 on: the spine. The last one lies beyond 64 bits, and is the top of the largest pools. */
const SPINE: bigint[] = Array.from({ length: 43 }, (_, k) => (3n ** BigInt(k) - 1n) / 2n);

function check(seq: bigint): void {
  if (seq < 1n || seq > SPINE[42]!) throw new RangeError(`${seq} is not a sequence number`);
}

/** The least spine number that is not below `seq`. */
export function spine(seq: bigint): bigint {
  check(seq);
  return SPINE.find((top) => top >= seq)!;
}

/** What the lipmaalink of an entry points at; 0 for entry 1. */
export function lipmaa(seq: bigint): bigint {
  check(seq);
  let rest = seq;
  for (;;) {
    // The formula of the specification: g(n) is found by taking off the spine number below, until a spine number is left.
    const k = SPINE.findIndex((top) => top >= rest);
    if (SPINE[k] === rest) return rest === seq ? seq - (rest - SPINE[k - 1]!) : seq - rest;
    rest -= ((rest - 1n) / SPINE[k - 1]!) * SPINE[k - 1]!;
  }
}

/** Whether the entry carries a lipmaalink of its own: not entry 1, and not one equal to the backlink. */
export function hasLipmaalink(seq: bigint): boolean {
  return seq > 1n && lipmaa(seq) < seq - 1n;
}

/** The shortest path of links from `start` down to `goal`, both included. */
export function path(start: bigint, goal: bigint): bigint[] {
  check(goal);
  check(start);
  if (goal > start) throw new RangeError(`no path leads from ${start} up to ${goal}`);
  const steps = [start];
  for (let at = start; at > goal; ) {
    const far = lipmaa(at);
    at = far >= goal ? far : at - 1n;
    steps.push(at);
  }
  return steps;
}

/** The certificate pool of an entry, descending, without members above `newest`. */
export function certificatePool(seq: bigint, newest: bigint = MAX_U64): bigint[] {
  const limit = newest < MAX_U64 ? newest : MAX_U64;
  const above = path(spine(seq), seq).slice(0, -1);
  return [...above.filter((member) => member <= limit), ...path(seq, 1n)];
}

/** All numbers up to `seq` that an entry above it can link to: O(log seq) of them, because links never cross. */
export function linksAcross(seq: bigint): Set<bigint> {
  const targets = path(spine(seq + 1n), seq + 1n).map(lipmaa);
  return new Set([...targets.filter((target) => target >= 1n && target <= seq), seq]);
}
