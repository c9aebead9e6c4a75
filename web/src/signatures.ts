// Signatures, judged as on every Culm node (docs/specs/bamboo.md, "Signatures").
//
// Two implementations of Ed25519 can disagree about signatures that an author crafts on purpose. The rule of Culm is
// libsodium's: A and R canonical and not of small order, S below L, and the encoding of S B - k A is R, byte for byte,
// without the cofactor. What WebCrypto checks of that differs between browsers, so everything that can be told without
// arithmetic on the curve is checked here first. Whether the equation is the one without the cofactor is tried out with
// known answers before WebCrypto is used; otherwise noble computes it, slower.

import { ed25519 } from "@noble/curves/ed25519.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { type Bytes, concat, equal, hex, unhex } from "./bytes.ts";
import type { Entry } from "./entry.ts";

const { Point } = ed25519;
const P = (1n << 255n) - 19n;
const L = Point.Fn.ORDER;
/** The y of the points whose order divides 8. Each x that fits has the same y with either sign. */
const SMALL = new Set(
  ["00", "01", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"].map((text) => text.padEnd(64, "0")),
);

function little(bytes: Bytes): bigint {
  let value = 0n;
  for (let at = bytes.length - 1; at >= 0; at--) value = (value << 8n) | BigInt(bytes[at]!);
  return value;
}

const P_BYTES = littleBytes(P);
const L_BYTES = littleBytes(L);

function littleBytes(value: bigint): Bytes {
  return Uint8Array.from({ length: 32 }, (_, at) => Number((value >> BigInt(8 * at)) & 255n));
}

/** Whether 32 bytes are a number below another, both with the least byte first. */
function isBelow(bytes: Bytes, bound: Bytes): boolean {
  for (let at = 31; at >= 0; at--) {
    if (bytes[at] !== bound[at]) return bytes[at]! < bound[at]!;
  }
  return false;
}

/** Whether 32 bytes encode a point canonically that is not of small order, as far as bytes tell. */
function isFit(point: Bytes): boolean {
  const y = point.slice();
  y[31]! &= 127;
  return isBelow(y, P_BYTES) && !SMALL.has(hex(y));
}

/** Whether no arithmetic is needed to refuse a signature. */
function isPlausible(signature: Bytes, author: Bytes): boolean {
  return isFit(author) && isFit(signature.subarray(0, 32)) && isBelow(signature.subarray(32), L_BYTES);
}

/** The equation, by noble. */
function holds(signature: Bytes, message: Bytes, author: Bytes): boolean {
  const r = signature.subarray(0, 32);
  try {
    const a = Point.fromBytes(author, false);
    const k = little(sha512(concat(r, author, message))) % L;
    const s = little(signature.subarray(32));
    return equal(Point.BASE.multiplyUnsafe(s).subtract(a.multiplyUnsafe(k)).toBytes(), r);
  } catch {
    return false; // The author is no point of the curve.
  }
}

export type Check = (signature: Bytes, message: Bytes, author: Bytes) => Promise<boolean>;

/** Judges by noble alone: some hundred signatures a second. */
export const byNoble: Check = async (signature, message, author) =>
  isPlausible(signature, author) && holds(signature, message, author);

const ED25519 = { name: "Ed25519" };
const MOST_KEYS = 64; // Imported keys that are remembered: a page reads few authors.

/** Judges by WebCrypto, where it has Ed25519. Keys are imported once. */
export function byWebCrypto(subtle: SubtleCrypto): Check {
  const keys = new Map<string, Promise<CryptoKey>>();
  return async (signature, message, author) => {
    if (!isPlausible(signature, author)) return false;
    const name = hex(author);
    let key = keys.get(name);
    if (key === undefined) {
      if (keys.size >= MOST_KEYS) keys.clear();
      key = subtle.importKey("raw", author as BufferSource, ED25519, false, ["verify"]);
      keys.set(name, key);
    }
    try {
      return await subtle.verify(ED25519, await key, signature as BufferSource, message as BufferSource);
    } catch {
      return false; // Some implementations refuse to import bytes that are no point.
    }
  };
}

/**
 * Questions with known answers, of which implementations with the cofactor get some wrong: an honest signature; R with a
 * torsion part; an author with one, whose equation holds; and one whose equation holds only times 8.
 */
const KNOWN = [
  {
    accepted: true,
    author: "2b65c263192895d62c55e471658fd3dcce69b54dda13bf5bf1e55f5314c67b8b",
    message: "002b65c263192895d62c55e471658fd3dcce69b54dda13bf5bf1e55f5314c67b8bad4517d13ae9191952941c7399eef00294d0",
    signature: "03d59b34cf3ee7c066f26f75a6cf56047b8919c2a3b51faef9d2c92e16c3bdde120f4a1a174563f00f0a937c211ff6550c88be34231fefe654b079e7c4c7510d",
  },
  {
    accepted: false,
    author: "2b65c263192895d62c55e471658fd3dcce69b54dda13bf5bf1e55f5314c67b8b",
    message: "002b65c263192895d62c55e471658fd3dcce69b54dda13bf5bf1e55f5314c67b8b4f77a1b74f9f",
    signature: "3faac693f6db16863649df95c01e66d3a31cf81ec5fd231daf190d5e14532138ac7db1125890d8ec5402fb09508cce77a9179a867c0e030297f21397aedd9c08",
  },
  {
    accepted: true,
    author: "7c42730081630d9d2a1e07606341f06040ffebae85781c24a4aa49d46b4b8d6a",
    message: "007c42730081630d9d2a1e07606341f06040ffebae85781c24a4aa49d46b4b8d6abf4c564e4ac0f881cb657b69bcbbf16384c2d8ce9c7906260cbf2085088291ceecbd5a3260",
    signature: "e4072edeacb2309008df0c37fed139cfa84d0bd38a63e0a7289014335e816ec7eb60a63ec60b88ad38a0c60db76269af1b6b4695c9bf9b1f42db4106582c840a",
  },
  {
    accepted: false,
    author: "eab0f122a12b97ee80550b39debb7263f6ae0713654ee32643a730b4e5ccb988",
    message: "00eab0f122a12b97ee80550b39debb7263f6ae0713654ee32643a730b4e5ccb9888f04e46c376773887b97016a614238de14",
    signature: "2f1a74c89efca82d29100897c46abbdabe4d89eeb0be35c97b8a9912b5f4a27cca7f421e7fb998b63309268c917e8f109f42dabf32cd54549f25853ddf72590f",
  },
];

/** The fastest way to judge that is right here: WebCrypto if it answers the known questions as it should, else noble. */
export async function bestCheck(subtle: SubtleCrypto | undefined = globalThis.crypto?.subtle): Promise<Check> {
  if (subtle === undefined) return byNoble;
  const check = byWebCrypto(subtle);
  for (const { accepted, message, signature, author } of KNOWN) {
    if ((await check(unhex(signature), unhex(message), unhex(author))) !== accepted) return byNoble;
  }
  return check;
}

/** Whether an entry is authentic: signed by the author that it names. */
export function isAuthentic(entry: Entry, check: Check): Promise<boolean> {
  return check(entry.signature, entry.encoded.subarray(0, -64), entry.author);
}
