// One channel by several ways at once. `subscribeByAll`: each message comes once, by the way that was first, and the loss of a way loses
// nothing. `subscribeByShares`: each way brings a share of the messages, so that together they bring more than one of them could.

import { Channel } from "../../clients/hermes-relay.mjs";

/** How long a message may be missing, in milliseconds, that another way may yet bring. */
const PATIENCE = 1000;

/** Subscribes by all of these URLs of one channel; messages come in their order, each once. */
export async function* subscribeByAll(urls, { signal, opened } = {}) {
  const abort = new AbortController();
  signal?.addEventListener("abort", () => abort.abort());
  const waiting = new Map();
  let last;
  let wake = () => {};
  let open = 0;
  for (const url of urls) {
    (async () => {
      const begun = ({ at }) => {
        last ??= Number(at.split(".")[1]);
        open += 1;
        if (open === urls.length) opened?.();
      };
      // Losses on one way are of no account: what no way brings is missing in the numbers.
      for await (const event of new Channel(url).subscribe({ signal: abort.signal, opened: begun })) {
        if (event.seq > last && !waiting.has(event.seq)) waiting.set(event.seq, event);
        wake();
      }
    })().catch(() => {});
  }

  try {
    while (!signal?.aborted) {
      const next = waiting.get(last + 1);
      if (next !== undefined) {
        waiting.delete(++last);
        yield next;
        continue;
      }
      const heard = await Promise.race([
        new Promise((resolve) => (wake = () => resolve(true))),
        new Promise((resolve) => setTimeout(resolve, PATIENCE, false).unref()),
      ]);
      if (!heard && waiting.size > 0) {
        const first = Math.min(...waiting.keys());
        yield { gap: first - last - 1, reason: "other" };
        last = first - 1;
      }
    }
  } finally {
    abort.abort();
  }
}

/** Subscribes to a share of the channel by each of these URLs; messages come in their order. The next way goes on with the share of one that breaks off. */
export async function* subscribeByShares(urls, { signal, opened } = {}) {
  const abort = new AbortController();
  signal?.addEventListener("abort", () => abort.abort());
  const waiting = new Map();
  const ways = urls.map(() => ({ isOpen: false, isAway: false, latest: 0 }));
  let last = 0;
  let wake = () => {};
  const read = async (way, index) => {
    const others = [...urls.slice(index + 1), ...urls.slice(0, index)];
    const begun = ({ at }) => {
      way.isAway = false;
      if (way.isOpen) return;
      way.isOpen = true;
      // The last one that opens brings nothing from before.
      last = Math.max(last, Number(at.split(".")[1]));
      if (ways.every(({ isOpen }) => isOpen)) opened?.();
    };
    const wish = { share: `${index + 1}/${urls.length}`, ways: others, opened: begun, away: () => (way.isAway = true) };
    for await (const event of new Channel(urls[index]).subscribe({ ...wish, signal: abort.signal })) {
      if (event.seq === undefined) continue;
      way.latest = event.seq;
      if (event.seq > last) waiting.set(event.seq, event);
      wake();
    }
  };
  ways.forEach((way, index) => read(way, index).catch(() => (way.latest = Infinity)));

  try {
    while (!signal?.aborted) {
      const isOpen = ways.every((way) => way.isOpen);
      const next = isOpen ? waiting.get(last + 1) : undefined;
      if (next !== undefined) {
        waiting.delete(++last);
        yield next;
        continue;
      }
      // Message N is in share N modulo the number of ways. One that waits for its way to come again is not lost.
      const way = ways[last % ways.length];
      const isBehind = waiting.size > 0 && isOpen;
      let isLost = isBehind && way.latest > last + 1;
      if (!isLost) {
        const heard = await Promise.race([
          new Promise((resolve) => (wake = () => resolve(true))),
          new Promise((resolve) => setTimeout(resolve, PATIENCE, false).unref()),
        ]);
        isLost = !heard && isBehind && !way.isAway;
      }
      if (isLost) {
        last += 1;
        yield { gap: 1, reason: "other" };
      }
    }
  } finally {
    abort.abort();
  }
}
