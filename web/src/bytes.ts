// Bytes and the numbers in them (docs/specs/bamboo.md, "Small encodings").

export type Bytes = Uint8Array;

/** Bytes that break a format. `isCut`: more of them could still make it right. */
export class Malformed extends Error {
  readonly isCut: boolean;
  constructor(message: string, isCut = false) {
    super(message);
    this.name = "Malformed";
    this.isCut = isCut;
  }
}

export const MAX_U64 = (1n << 64n) - 1n;

export function hex(bytes: Bytes): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

/** Bytes of hex digits; `RangeError` for any other text. */
export function unhex(text: string): Bytes {
  if (text.length % 2 !== 0 || !/^[0-9a-f]*$/i.test(text)) throw new RangeError("expected pairs of hex digits");
  return Uint8Array.from({ length: text.length / 2 }, (_, at) => parseInt(text.slice(2 * at, 2 * at + 2), 16));
}

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** A key as Culm writes it: 43 letters and digits (docs/specs/bushbaby.md, "Base62"). */
export function base62(key: Bytes): string {
  let text = "";
  for (let rest = BigInt(`0x${hex(key)}`); text.length < 43; rest /= 62n) text = DIGITS[Number(rest % 62n)] + text;
  return text;
}

/** A key as people write it: 43 base62 characters, as Culm prints it, or 64 hex digits; `RangeError` for other texts. */
export function parseKey(text: string): Bytes {
  if (/^[0-9a-f]{64}$/i.test(text)) return unhex(text);
  let number = 0n;
  for (const digit of text) {
    const value = DIGITS.indexOf(digit);
    if (value < 0) throw new RangeError("expected a key: 43 letters and digits, or 64 hex digits");
    number = number * 62n + BigInt(value);
  }
  if (text.length !== 43 || number >> 256n) throw new RangeError("expected a key: 43 letters and digits, or 64 hex digits");
  return unhex(number.toString(16).padStart(64, "0"));
}

export function equal(one: Bytes, other: Bytes): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

export function concat(...parts: Bytes[]): Bytes {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export function encodeU64(value: bigint): Bytes {
  if (value < 0n || value > MAX_U64) throw new RangeError(`${value} does not fit into 64 bits`);
  if (value < 248n) return Uint8Array.of(Number(value));
  const digits: number[] = [];
  for (let rest = value; rest > 0n; rest >>= 8n) digits.unshift(Number(rest & 255n));
  return Uint8Array.of(247 + digits.length, ...digits);
}

/** Takes fields from the front of bytes. `at` is the offset of the next one. */
export class Cursor {
  readonly data: Bytes;
  at: number;
  constructor(data: Bytes, at = 0) {
    this.data = data;
    this.at = at;
  }

  take(size: number): Bytes {
    if (this.data.length - this.at < size) throw new Malformed(`${size} bytes are cut off at ${this.at}`, true);
    this.at += size;
    return this.data.subarray(this.at - size, this.at);
  }

  byte(): number {
    return this.take(1)[0]!;
  }

  /** A VarU64. Entries hold the shortest form only; the messages of intervals also longer ones (`isLenient`). */
  u64(isLenient = false): bigint {
    const begin = this.at;
    const first = this.byte();
    if (first < 248) return BigInt(first);
    let value = 0n;
    for (const byte of this.take(first - 247)) value = (value << 8n) | BigInt(byte);
    if (!isLenient && encodeU64(value).length !== this.at - begin) {
      throw new Malformed(`the number at ${begin} is longer than it needs to be`);
    }
    return value;
  }

  /** A YAMF-hash of BLAKE2b: its 66 bytes. */
  hash(): Bytes {
    const begin = this.at;
    if (this.u64(true) !== 0n || this.u64(true) !== 64n || this.at !== begin + 2) {
      throw new Malformed(`the hash at ${begin} is none of BLAKE2b with 64 bytes`);
    }
    this.take(64);
    return this.data.subarray(begin, this.at);
  }
}
