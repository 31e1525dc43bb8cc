// A client of Hermes's relay (docs/relay.md) for browsers and for Node 18 and later: one file without dependencies.
//
//     import { Channel } from "./hermes-relay.mjs";
//     const channel = new Channel("http://hub/c/chat");
//     const { receivers } = await channel.publish("hi");
//     for await (const event of channel.subscribe()) {
//       if (event.gap !== undefined) console.log("lost", event.gap, event.reason);
//       else console.log(event.text());
//     }
//
// A channel whose URL names a key takes messages of those who have it: `new Channel(url, { key })`, a private CryptoKey of Ed25519 or its JWK. Who
// subscribes needs none: each message is checked by the URL.
//
// A subscription comes again by itself when the way breaks off, and says what was lost meanwhile; where its channel moves to another
// relay, it goes along. It ends when the loop is left, when
// its `signal` is aborted, or when the relay says so.

const SEALED = "application/hermes-sealed";
const PURPOSE = new TextEncoder().encode("hermes relay sealed 1");
const NAME = /^ni:sha-256;([A-Za-z0-9_-]{43})$/;
// A SubjectPublicKeyInfo of Ed25519 up to the key (RFC 8410).
const SPKI = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
// Seconds around its time in which a signature is good.
const LASTS = 60;
// Signatures that are remembered, so that none comes twice.
const MAX_SIGNATURES = 100_000;
const NATIVE = "application/hermes-adu";
const ADU = 0x2d7c51c0;
const GAP = 0x2d7c51c1;
const MORE = 0x2d7c51c5;
const ABORT = 0x2d7c51c6;
const MOVED = 0x2d7c51c3;
const END = 0x2d7c51c4;
const GAPS = ["full", "expired", "away", "restarted", "long"];
const ENDS = ["timeout", "left", "lagging", "stopping", "taken"];
// Bytes of a capsule: the longest message of any relay, and its labels.
const MAX_CAPSULE = 16 * 1024 * 1024 + 10240;
// Milliseconds before another attempt; each is twice the one before, up to the second.
const FIRST_WAIT = 250;
const LAST_WAIT = 30_000;

/** The relay does not fulfil a request, and would not if it came again. */
export class RelayError extends Error {
  /** @param {Response} response @param {string} text */
  constructor(response, text) {
    super(`${response.status}: ${text.trim()}`);
    this.status = response.status;
    this.response = response;
  }
}

/** A channel, by its URL. */
export class Channel {
  #key;
  #signing;
  #keys;

  /** `options`: `headers` of every request, such as `Authorization`, `fetch` in the place of the global one, `key` to sign with. */
  constructor(url, options = {}) {
    this.url = new URL(url, globalThis.location?.href);
    // Who has the URL has the key; the relay has neither the fragment nor what is sealed by it.
    if (this.url.hash !== "") this.#key = sealingKey(this.url.hash.slice(1));
    this.url.hash = "";
    this.headers = options.headers ?? {};
    this.#keys = keysOf(this.url);
    if (options.key !== undefined) this.#signing = signingKey(options.key);
    this.fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /**
   * Publishes a message, which is anything that `fetch` takes as a content; gives its counts: `receivers`, `enqueued`, `dropped`, `exact`,
   * `at`. `how`: `reliable`, `topic`, `maxAge` and `wait` in seconds, `seq`, `type`, `signal`.
   */
  async publish(data, how = {}) {
    const members = [];
    if (how.reliable) members.push("mode=reliable");
    if (how.topic !== undefined) members.push(`topic=${quoted(how.topic)}`);
    if (how.maxAge !== undefined) members.push(`max-age=${how.maxAge}`);
    if (how.seq !== undefined) members.push(`seq=${how.seq}`);
    let type = how.type ?? "text/plain;charset=utf-8";
    if (this.#key !== undefined) {
      data = await seal(await this.#key, type, data);
      type = SEALED;
    }
    const headers = { ...this.headers, "content-type": type };
    if (members.length > 0) headers["hermes-publish"] = members.join(", ");
    if (how.wait !== undefined) headers.prefer = `wait=${how.wait}`;
    if (this.#signing !== undefined) {
      data = new Uint8Array(await new Response(data).arrayBuffer());
      const parts = [["content-digest", await contentDigest(data)], ["content-type", type]];
      if (members.length > 0) parts.push(["hermes-publish", headers["hermes-publish"]]);
      Object.assign(headers, await signed(await this.#signing, "POST", this.url, parts));
    }
    const options = { method: "POST", body: data, headers, signal: how.signal };
    const response = await this.fetch(this.url, options);
    const text = await response.text();
    const delivered = dictionary(response.headers.get("hermes-delivered"));
    if (!response.ok || delivered.receivers === undefined) throw new RelayError(response, text);
    return delivered;
  }

  /**
   * Subscribes: an asynchronous iterator of messages, `{ seq, at, type, topic, data, text() }`, of losses, `{ gap, reason }`, in which a gap of 0 is one of
   * unknown length, and of the end, `{ end, text }`. `wish`: `timeout` in seconds, `from`, a position, `signal`, `opened`, which is called
   * each time the relay has begun to listen: what is published from then on comes, and `away`, each time the way breaks off; `share`,
   * "K/N", for a share of the messages alone, and `ways`, other URLs of the channel, by the next of which the subscription goes on where
   * one breaks off. A message that is too long for the relay to keep comes in
   * pieces: all but the last have `more: true`, and the first alone has `seq`, `type` and `topic`.
   */
  async *subscribe(wish = {}) {
    const state = { seen: new Map(), at: wish.from, channel: this.url, location: undefined, heartbeat: 15, isOver: false, isMoved: false };
    const ways = [...(wish.ways ?? [])].map((way) => new URL(way, this.url));
    // Each is tried before the first attempt has failed.
    let untried = ways.length;
    let wait = FIRST_WAIT;
    try {
      while (!state.isOver) {
        try {
          for await (const event of this.#stream(wish, state)) {
            wait = FIRST_WAIT;
            yield event;
          }
        } catch (error) {
          if (wish.signal?.aborted) throw error;
          // A first attempt that fails is a mistake rather than a network that comes and goes.
          if (state.at === undefined && (untried-- <= 0 || error instanceof RelayError)) throw error;
          if (error instanceof RelayError && error.status < 500 && error.status !== 429) {
            // The subscription is over. What was missed since is told by the next one, if there may be one.
            if (state.location === undefined) throw error;
            state.location = undefined;
            continue;
          }
        }
        if (state.isMoved) {
          // A subscription waits there, from the last message that came from here on.
          state.isMoved = false;
          continue;
        }
        if (state.isOver) break;
        wish.away?.();
        changeWay(state, ways);
        // Not all come again at the same time.
        await sleep(wait * (0.5 + Math.random()), wish.signal);
        wait = Math.min(2 * wait, LAST_WAIT);
      }
    } finally {
      if (state.location !== undefined && !state.isOver) this.#leave(state.location);
    }
  }

  /** One stream, to its end. */
  async *#stream(wish, state) {
    const members = [];
    if (wish.timeout !== undefined) members.push(`timeout=${wish.timeout}`);
    if (state.at !== undefined) members.push(`from="${state.at}"`);
    if (wish.share !== undefined) members.push(`share=${quoted(wish.share)}`);
    const headers = { ...this.headers, accept: NATIVE };
    if (members.length > 0) headers["hermes-subscribe"] = members.join(", ");
    const abort = new AbortController();
    const stop = () => abort.abort(wish.signal?.reason);
    wish.signal?.addEventListener("abort", stop);
    if (wish.signal?.aborted) stop();
    // A relay that is silent for longer than two of its signs of life is doubted.
    let silence = setTimeout(stop, 30_000);
    let isOpen = false;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(stop, 2000 * state.heartbeat + 5000);
    };

    try {
      const url = state.location ?? state.channel;
      if (this.#signing !== undefined && this.#keys.receiver !== undefined) {
        Object.assign(headers, await signed(await this.#signing, "GET", url, []));
      }
      const options = { headers, signal: abort.signal, cache: "no-store" };
      const response = await this.fetch(url, options);
      const subscribed = dictionary(response.headers.get("hermes-subscribe"));
      if (!response.ok || subscribed.at === undefined) throw new RelayError(response, await response.text());
      // A relay whose channel is elsewhere sends there.
      if (response.redirected) state.channel = channelOf(response.url, /^s=/);
      isOpen = true;
      const location = response.headers.get("content-location");
      if (location !== null) state.location = new URL(location, state.channel);
      state.heartbeat = subscribed.heartbeat ?? state.heartbeat;
      // Numbers of another life of the channel begin anew, and the relay tells of the gap.
      const isSame = state.at !== undefined && epoch(state.at) === epoch(subscribed.at);
      if (!isSame) state.at = subscribed.at;
      heard();
      wish.opened?.({ at: subscribed.at, recovered: subscribed.recovered === true });

      // The long message that is coming.
      let long;
      const capsules = new Capsules();
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        heard();
        for (const { type, bytes } of capsules.push(value)) {
          const event = read(type, bytes);
          if (event === undefined) continue;
          if (event.moved !== undefined) {
            state.location = new URL(event.moved, url);
            state.channel = channelOf(state.location);
            state.isMoved = true;
            return;
          }
          if (event.more !== undefined || event.abort !== undefined) {
            // Pieces of a message whose beginning did not come here are none.
            if (event.seq === undefined ? (event.long ?? event.abort) !== long : event.seq <= sequence(state.at)) continue;
            const number = event.seq ?? event.long ?? event.abort;
            event.at = `${epoch(state.at)}.${number}`;
            const isChecked = this.#key !== undefined || this.#keys.sender !== undefined;
            if (isChecked) {
              // What has to be whole to be checked or opened is not passed on in pieces.
              state.at = event.at;
              yield { gap: 1, reason: "unreadable", at: event.at };
              continue;
            }
            long = event.more === true ? number : undefined;
            if (long === undefined) state.at = event.at;
            yield event.abort === undefined ? event : { gap: 1, reason: "aborted", at: event.at };
            continue;
          }
          if (event.seq !== undefined) {
            // One that came by another stream already.
            if (event.seq <= sequence(state.at)) continue;
            state.at = `${epoch(state.at)}.${event.seq}`;
            event.at = state.at;
          }
          if (event.end === "stopping" || event.end === "taken") {
            // The subscription ends with its relay: there is another one, or the same again.
            if (event.end === "stopping") state.location = undefined;
            else state.isOver = true;
            return;
          }
          state.isOver = event.end !== undefined;
          if (event.seq !== undefined && (event.proof !== undefined || this.#keys.sender !== undefined)) {
            const reason = await proved(event, this.#keys, this.url, state.seen);
            if (reason !== undefined) {
              yield { gap: 1, reason: "unproved", details: reason, at: event.at };
              continue;
            }
          }
          if (event.seq !== undefined && this.#key !== undefined) {
            yield (await opened(await this.#key, event)) ?? { gap: 1, reason: "unreadable", at: event.at };
            continue;
          }
          yield event;
          if (state.isOver) return;
        }
      }
    } catch (error) {
      // The relay cannot be reached: the first one may know where the channel is now.
      if (!isOpen && wish.ways === undefined && !(error instanceof RelayError) && state.channel.href !== this.url.href) {
        state.channel = this.url;
        state.location = undefined;
      }
      throw error;
    } finally {
      clearTimeout(silence);
      wish.signal?.removeEventListener("abort", stop);
      abort.abort();
    }
  }

  /** Ends a subscription; a relay that does not hear of it ends it after its `grace`. */
  #leave(location) {
    this.fetch(location, { method: "DELETE", headers: this.headers }).catch(() => {});
  }
}

/** Takes capsules (RFC 9297, section 3.2) out of bytes. */
class Capsules {
  #rest = new Uint8Array();

  /** The capsules that are whole with these bytes. */
  push(bytes) {
    let all = bytes;
    if (this.#rest.length > 0) {
      all = new Uint8Array(this.#rest.length + bytes.length);
      all.set(this.#rest);
      all.set(bytes, this.#rest.length);
    }
    const whole = [];
    let from = 0;
    for (;;) {
      const type = varint(all, from);
      const length = type && varint(all, type.end);
      if (length === undefined) break;
      if (length.value > MAX_CAPSULE) throw new Error("a capsule is too long");
      const end = length.end + length.value;
      if (end > all.length) break;
      whole.push({ type: type.value, bytes: all.slice(length.end, end) });
      from = end;
    }
    this.#rest = all.slice(from);
    return whole;
  }
}

/** The keys that the path of a channel names: of its sender, and of its receiver behind /to/. */
function keysOf(url) {
  const keys = {};
  const segments = url.pathname.split("/");
  for (const [index, segment] of segments.entries()) {
    const name = NAME.exec(segment);
    if (name !== null) keys[segments[index - 1] === "to" ? "receiver" : "sender"] = name[1];
    else if (/^(ni(:|%3a)|%[46]|n%)/i.test(segment)) throw new Error("a key is named ni:sha-256;HASH, the hash in base64url");
  }
  return keys;
}

/** A private key, and its public one in base64url. */
async function signingKey(key) {
  const jwk = key instanceof CryptoKey ? await crypto.subtle.exportKey("jwk", key) : key;
  return { key: await crypto.subtle.importKey("jwk", jwk, "Ed25519", true, ["sign"]), public: jwk.x };
}

/** The fields of a signature (RFC 9421) over method, path and these parts, and those parts that are not fields of the request anyway. */
async function signed(signing, method, url, parts) {
  const covered = [["@method", method], ["@path", url.pathname]];
  if (url.search !== "") covered.push(["@query", url.search]);
  covered.push(...parts);
  const nonce = base64url(crypto.getRandomValues(new Uint8Array(16)));
  const names = covered.map(([name]) => `"${name}"`).join(" ");
  const created = Math.floor(Date.now() / 1000);
  const parameters = `(${names});created=${created};nonce="${nonce}";keyid="${signing.public}";alg="ed25519";tag="hermes-relay"`;
  const base = signatureBase(covered, parameters);
  const signature = new Uint8Array(await crypto.subtle.sign("Ed25519", signing.key, base));
  const fields = { "signature-input": `relay=${parameters}`, signature: `relay=:${base64(signature)}:` };
  for (const [name, value] of parts) if (name === "content-digest") fields[name] = value;
  return fields;
}

function signatureBase(covered, parameters) {
  const lines = covered.map(([name, value]) => `"${name}": ${value.trim()}\n`);
  return new TextEncoder().encode(`${lines.join("")}"@signature-params": ${parameters}`);
}

/** Checks that a message is of one who may publish; the reason if it is not. */
async function proved(event, keys, url, seen) {
  if (event.proof === undefined) return "it has no signature";
  const proof = Object.fromEntries(event.proof.split("\n").filter((line) => line !== "").map((line) => line.split(/: (.*)/s)));
  if (dictionary(proof["hermes-publish"]).topic !== event.topic) return "the topic is not the one that was signed";
  const path = channelOf(url);
  const parts = { "content-digest": await contentDigest(event.data), "content-type": event.type, "hermes-publish": proof["hermes-publish"] };
  const sender = await verified(proof["signature-input"], proof.signature, path, parts);
  if (typeof sender === "string") return sender;
  const now = Date.now() / 1000;
  if (keys.sender !== undefined && sender.name !== keys.sender) {
    const owner = await verified(proof["approve-input"], proof["approve-signature"], path, { "hermes-approve": proof["hermes-approve"] });
    const until = Number(/\buntil=(\d+)$/.exec(proof["hermes-approve"] ?? "")?.[1] ?? 0);
    const isNamed = (proof["hermes-approve"] ?? "").includes(`"ni:sha-256;${sender.name}"`);
    if (typeof owner === "string" || owner.name !== keys.sender || !isNamed || now > until) return "the key is not one of those that may publish";
  }
  if (Math.abs(now - sender.created) > LASTS) return "the signature is too old";
  for (const [id, at] of seen) {
    if (now - at <= 2 * LASTS && seen.size < MAX_SIGNATURES) break;
    seen.delete(id);
  }
  const id = `${sender.name} ${sender.nonce}`;
  if (seen.has(id)) return "the signature came already";
  seen.set(id, now);
  event.sender = `ni:sha-256;${sender.name}`;
  return undefined;
}

/** The signer of a POST with these parts, all of which must be signed; the reason if there is none. */
async function verified(input, signature, url, parts) {
  const shape = /^[a-z][a-z0-9]*=(\(((?:"[a-z@-]+" ?)*)\);.*)$/.exec(input ?? "");
  const bytes = /^[a-z][a-z0-9]*=:([A-Za-z0-9+/=]+):$/.exec(signature ?? "");
  if (shape === null || bytes === null) return "its signature cannot be read";
  const values = { "@method": "POST", "@path": url.pathname, ...parts };
  if (url.search !== "") values["@query"] = url.search;
  const names = [...shape[2].matchAll(/"([^"]+)"/g)].map(([, name]) => name);
  const needed = Object.keys(values).filter((name) => values[name] !== undefined);
  if (names.length !== needed.length || !needed.every((name) => names.includes(name))) return "its signature does not cover the whole of it";
  const parameter = (name) => new RegExp(`;${name}="?([^";]*)"?`).exec(shape[1].slice(shape[1].lastIndexOf(")")))?.[1];
  if (parameter("tag") !== "hermes-relay" || parameter("alg") !== "ed25519") return "its signature is for something else";
  const raw = fromBase64(parameter("keyid") ?? "");
  const base = signatureBase(names.map((name) => [name, values[name]]), shape[1]);
  const key = await crypto.subtle.importKey("raw", raw, "Ed25519", true, ["verify"]);
  if (!(await crypto.subtle.verify("Ed25519", key, fromBase64(bytes[1]), base))) return "the signature is not of this message";
  const hash = await crypto.subtle.digest("SHA-256", Uint8Array.from([...SPKI, ...raw]));
  return { name: base64url(new Uint8Array(hash)), created: Number(parameter("created")), nonce: parameter("nonce") };
}

async function contentDigest(data) {
  return `sha-256=:${base64(new Uint8Array(await crypto.subtle.digest("SHA-256", data)))}:`;
}

function base64(bytes) {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

function base64url(bytes) {
  return base64(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
}

function fromBase64(text) {
  return Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (byte) => byte.charCodeAt(0));
}

/** The key of a URL's fragment: 32 bytes in base64url. */
async function sealingKey(fragment) {
  const text = atob(fragment.replace(/-/g, "+").replace(/_/g, "/"));
  const bytes = Uint8Array.from(text, (byte) => byte.charCodeAt(0));
  if (bytes.length !== 32) throw new Error("the fragment of the URL is no key: 32 bytes in base64url, 43 characters");
  return crypto.subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]);
}

/** Seals a content: a nonce, and type and content by AES-256-GCM. */
async function seal(key, type, data) {
  const kind = new TextEncoder().encode(type);
  const content = new Uint8Array(await new Response(data).arrayBuffer());
  const plain = new Uint8Array(2 + kind.length + content.length);
  // A variable-length integer of two bytes.
  plain.set([0x40 | (kind.length >> 8), kind.length & 0xff]);
  plain.set(kind, 2);
  plain.set(content, 2 + kind.length);
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData: PURPOSE }, key, plain);
  const message = new Uint8Array(iv.length + sealed.byteLength);
  message.set(iv);
  message.set(new Uint8Array(sealed), iv.length);
  return message;
}

/** A message that was sealed; undefined if it was not, or by another key. */
async function opened(key, event) {
  try {
    const algorithm = { name: "AES-GCM", iv: event.data.subarray(0, 12), additionalData: PURPOSE };
    const plain = new Uint8Array(await crypto.subtle.decrypt(algorithm, key, event.data.subarray(12)));
    const length = needed(varint(plain, 0));
    const data = plain.subarray(length.end + length.value);
    const type = decoded(plain.subarray(length.end, length.end + length.value));
    return { ...event, type: type === "" ? undefined : type, data, text: () => decoded(data) };
  } catch {
    return undefined;
  }
}

/** A capsule as an event; undefined if there is none for it. */
function read(type, bytes) {
  switch (type) {
    case ADU:
      return message(bytes);
    case GAP: {
      const count = needed(varint(bytes, 0));
      const reason = needed(varint(bytes, count.end));
      return { gap: count.value, reason: GAPS[reason.value] ?? "other" };
    }
    case MORE: {
      const seq = needed(varint(bytes, 0));
      const data = bytes.subarray(seq.end + 1);
      return { long: seq.value, more: (bytes[seq.end] & 1) === 0, data, text: () => decoded(data) };
    }
    case ABORT:
      return { abort: needed(varint(bytes, 0)).value };
    case MOVED:
      return { moved: decoded(bytes) };
    case END: {
      const reason = needed(varint(bytes, 0));
      return { end: ENDS[reason.value] ?? "other", text: decoded(bytes.subarray(reason.end)) };
    }
    default:
      return undefined;
  }
}

function message(bytes) {
  const seq = needed(varint(bytes, 0));
  const flags = bytes[seq.end];
  if (flags === undefined || (flags & ~31) !== 0) throw new Error("a message cannot be read");
  let at = seq.end + 1;
  const label = (flag) => {
    if ((flags & flag) === 0) return undefined;
    const length = needed(varint(bytes, at));
    at = length.end + length.value;
    return decoded(bytes.subarray(length.end, at));
  };
  const type = label(1);
  const topic = label(2);
  const proof = label(8);
  const data = bytes.subarray(at);
  const event = { seq: seq.value, type, topic, data, text: () => decoded(data) };
  if (proof !== undefined) event.proof = proof;
  if ((flags & 16) !== 0) event.more = true;
  return event;
}

/** A variable-length integer of RFC 9000, section 16, and where it ends; undefined if it is not all there. */
function varint(bytes, from) {
  if (from >= bytes.length) return undefined;
  const size = 1 << (bytes[from] >> 6);
  if (from + size > bytes.length) return undefined;
  let value = bytes[from] & 0x3f;
  for (let index = 1; index < size; index += 1) value = value * 256 + bytes[from + index];
  return { value, end: from + size };
}

function needed(value) {
  if (value === undefined) throw new Error("a capsule ends before its fields do");
  return value;
}

function decoded(bytes) {
  return new TextDecoder().decode(bytes);
}

/** The members of a dictionary (RFC 9651) whose values are numbers, strings, tokens and booleans, as those of the relay are. */
function dictionary(text) {
  const members = {};
  for (const [, key, value] of (text ?? "").matchAll(/([a-z*][a-z0-9_.*-]*)(?:=("(?:[^"\\]|\\.)*"|[^,;\s]+))?/g)) {
    if (value === undefined || value === "?1") members[key] = true;
    else if (value === "?0") members[key] = false;
    else if (value.startsWith('"')) members[key] = value.slice(1, -1).replace(/\\(.)/g, "$1");
    else members[key] = Number.isNaN(Number(value)) ? value : Number(value);
  }
  return members;
}

/** Goes by the next way, where there are several. The subscription is the same. */
function changeWay(state, ways) {
  const next = ways.shift();
  if (next === undefined) return;
  ways.push(state.channel);
  state.channel = next;
  if (state.location !== undefined) state.location = new URL(state.location.pathname + state.location.search, next);
}

/** The channel of a subscription's URL. */
function channelOf(url, ours = /^[sg]=/) {
  const channel = new URL(url);
  const rest = channel.search.slice(1).split("&").filter((part) => part !== "" && !ours.test(part));
  channel.search = rest.join("&");
  return channel;
}

function quoted(text) {
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}

function epoch(position) {
  return position.split(".")[0];
}

function sequence(position) {
  return Number(position.split(".")[1]);
}

function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
