// One channel by several ways at once: each message comes once, by the way that was first, and the loss of a way loses nothing.

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
