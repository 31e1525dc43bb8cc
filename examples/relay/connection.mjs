// Connections over a relay: each side has a channel to the other, under a name that no one can guess, and a side that is called has a
// channel on which it listens. The first data comes with the call: one POST, and one GET in each direction.

import { randomUUID } from "node:crypto";
import { Channel } from "../../clients/hermes-relay.mjs";

const CALL = "application/x-call+json";
const ACCEPT = "application/x-accept";
const CLOSE = "application/x-close";

/** One side of a connection: `send`, `close`, and an asynchronous iterator of what the other side sends. */
export class Connection {
  #abort = new AbortController();
  #events;
  #first;
  #outgoing;

  /** Listens to `here`, and sends to `there`. Once this is there, nothing that the other side sends is missed. */
  static async open(here, there) {
    const connection = new Connection();
    connection.#outgoing = new Channel(there);
    await new Promise((opened, failed) => {
      connection.#events = new Channel(here).subscribe({ opened, signal: connection.#abort.signal });
      connection.#first = connection.#events.next();
      connection.#first.catch(failed);
    });
    return connection;
  }

  /** Sends data. Fails where the other side is gone: no one receives it then. */
  async send(data, type) {
    const { receivers } = await this.#outgoing.publish(data, { reliable: true, type });
    if (receivers === 0) throw new Error("the other side is gone");
  }

  /** Says that no more comes from this side, and lets it end. */
  async close() {
    await this.send("", CLOSE);
  }

  /** Leaves without a word, also while it waits for the other side. */
  leave() {
    this.#abort.abort();
  }

  /** The next that comes, with its type; undefined at the end. */
  async next() {
    const { done, value } = await (this.#first ?? this.#events.next());
    this.#first = undefined;
    if (done || value.type === CLOSE) {
      await this.#events.return();
      return undefined;
    }
    if (value.gap !== undefined) throw new Error(`messages are lost: ${value.reason}`);
    if (value.end !== undefined) throw new Error(`the relay has ended it: ${value.end}`);
    return value;
  }

  async *[Symbol.asyncIterator]() {
    for (let event = await this.next(); event !== undefined; event = await this.next()) yield event.text();
  }
}

/** Calls the one who listens there; `first` comes with the call. */
export async function call(listen, first) {
  const id = randomUUID();
  const here = new URL(`${id}/caller`, listen).href;
  const there = new URL(`${id}/called`, listen).href;
  // It listens before it calls, so that no answer comes too early.
  const connection = await Connection.open(here, there);
  const offer = JSON.stringify({ here, there, first });
  try {
    const { receivers } = await new Channel(listen).publish(offer, { reliable: true, type: CALL });
    if (receivers === 0) throw new Error("no one listens there");
    const accepted = await connection.next();
    if (accepted?.type !== ACCEPT) throw new Error("the call is not accepted");
  } catch (error) {
    // Nothing comes any more, and an open stream would keep the program running.
    connection.leave();
    throw error;
  }
  return connection;
}

/** Listens for calls, and gives each to `answer` with its first data, until `signal`. `opened` is called once it listens. */
export async function listen(url, answer, { signal, opened } = {}) {
  for await (const event of new Channel(url).subscribe({ signal, opened })) {
    if (event.type !== CALL) continue;
    const offer = JSON.parse(event.text());
    const connection = await Connection.open(offer.there, offer.here);
    await connection.send("", ACCEPT);
    answer(connection, offer.first);
  }
}
