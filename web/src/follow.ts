// Following a log over a WebSocket: each entry is verified before the page sees it, and a cursor lets it go on later.

import { Auditor, type Verdict } from "./audit.ts";
import { type Bytes, Malformed, hex } from "./bytes.ts";
import { type Entry, checkPayload } from "./entry.ts";
import { type Received, Reader } from "./intervals.ts";
import { type Check, isAuthentic } from "./signatures.ts";

export const PROTOCOL = "culm-intervals";

/** An entry that was judged. `payload` is undefined if it is too large. `reason` says why it is not verified. */
export interface Judged {
  readonly entry: Entry;
  readonly payload: Bytes | undefined;
  readonly verdict: Verdict;
  readonly reason: string | undefined;
}

export interface Options {
  readonly url: string;
  readonly author: Bytes;
  readonly logId: bigint;
  readonly check: Check;
  /** What `cursor` gave earlier. */
  readonly cursor?: string | undefined;
  readonly token?: string | undefined;
  /** Bytes of the largest payload to fetch. */
  readonly mostPayload?: number;
  readonly signal?: AbortSignal;
}

/** Judges the entries of one log in ascending order. A refused one leaves no trace, so the right one can still come. */
export class Judge {
  readonly #auditor: Auditor;
  readonly #check: Check;
  readonly #author: string;
  readonly #logId: bigint;

  constructor(author: Bytes, logId: bigint, check: Check, cursor?: string) {
    this.#auditor = cursor === undefined ? new Auditor() : Auditor.restore(cursor);
    this.#check = check;
    this.#author = hex(author);
    this.#logId = logId;
  }

  /** The number of the last entry that was not refused; 0 without one. */
  get last(): bigint {
    return this.#auditor.last;
  }

  /** To go on behind that entry later. */
  cursor(): string {
    return this.#auditor.save();
  }

  /**
   * Judge entries that come one after the other, up to the first that is invalid. What is behind that one is not looked
   * at: it would be remembered as the newest entry, and nobody would ask for the right one in front of it any more.
   * Signatures are checked side by side.
   */
  async judge(items: readonly Pick<Received, "entry" | "payload">[]): Promise<Judged[]> {
    const authentic = await Promise.all(items.map(({ entry }) => isAuthentic(entry, this.#check)));
    const judged: Judged[] = [];
    for (const [at, { entry, payload }] of items.entries()) {
      const one = this.#judgeOne(entry, payload, authentic[at]!);
      judged.push(one);
      if (one.verdict === "invalid") break;
    }
    return judged;
  }

  #judgeOne(entry: Entry, payload: Bytes | undefined, isSigned: boolean): Judged {
    const reason = this.#objection(entry, payload, isSigned);
    if (reason !== undefined) return { entry, payload, verdict: "invalid", reason };
    const hasPath = this.#auditor.add(entry);
    const fork = this.#auditor.fork;
    if (fork !== undefined && entry.seq >= fork.position) {
      return { entry, payload, verdict: "invalid", reason: `the author has forked the log at ${fork.position}` };
    }
    return hasPath
      ? { entry, payload, verdict: "verified", reason: undefined }
      : { entry, payload, verdict: "unverified", reason: "no path of links leads to entry 1 yet" };
  }

  #objection(entry: Entry, payload: Bytes | undefined, isSigned: boolean): string | undefined {
    if (hex(entry.author) !== this.#author || entry.logId !== this.#logId) return "it is of another log";
    if (!isSigned) return "the author has not signed it";
    const verdict = payload === undefined ? "right" : checkPayload(entry, payload);
    if (verdict === "another payload") return "its payload is not the one that was signed";
    if (verdict === "false size") return "the author signed a false size";
    return undefined;
  }
}

/**
 * Follow a log until `signal` aborts or the node hangs up, which is an error. `tell` gets judged entries in ascending
 * order, and the cursor behind them. After a refused entry the connection ends, because the node has sent a wrong one.
 */
export async function follow(options: Options, tell: (judged: Judged[], cursor: string) => void): Promise<void> {
  const { url, author, logId, check, token, signal, mostPayload = 1 << 20 } = options;
  const judge = new Judge(author, logId, check, options.cursor);
  const reader = new Reader(author, logId, judge.last + 1n, mostPayload);
  const socket = new WebSocket(url, token === undefined ? [PROTOCOL] : [PROTOCOL, `culm-token.${token}`]);
  socket.binaryType = "arraybuffer";
  const flush = (): void => {
    const data = reader.dataToSend();
    if (data.length > 0 && socket.readyState === WebSocket.OPEN) socket.send(data as BufferSource);
  };
  await new Promise<void>((resolve, reject) => {
    let work = Promise.resolve();
    const fail = (error: unknown): void => {
      socket.close();
      reject(error);
    };
    const take = async (data: ArrayBuffer): Promise<void> => {
      const events = reader.receive(new Uint8Array(data));
      const judged = await judge.judge(events.filter((event) => event.type === "entry"));
      if (signal?.aborted) return;
      if (judged.length > 0) tell(judged, judge.cursor());
      const refused = judged.at(-1);
      if (refused?.verdict === "invalid") throw new Malformed(`entry ${refused.entry.seq}: ${refused.reason}`);
      if (events.some(({ type }) => type === "disagreement")) {
        throw new Malformed("the node shows entries that contradict each other: a fork");
      }
      if (events.some(({ type }) => type === "ended")) throw new Malformed("the node has ended the response");
      reader.refill();
      flush();
    };
    socket.onopen = flush;
    socket.onmessage = ({ data }) => {
      work = work.then(() => take(data as ArrayBuffer)).catch(fail);
    };
    socket.onclose = ({ code }) => {
      work.then(() => (signal?.aborted ? resolve() : reject(new Error(`the node ended the connection (${code})`))));
    };
    signal?.addEventListener("abort", () => socket.close());
  });
}
