"""HTTP/3 clients whose proxy is replaced by another process, over aioquic: CA HOST:PORT.

Until a line comes on standard input they ask and answer through the proxy: short requests on connections of their own, slow downloads, and
tunnels in which each word comes back before the next is said. It prints `ready` once all of it runs, and at the end what came of it."""

import asyncio
import json
import sys
import time

from aioquic.asyncio import connect
from aioquic.h3.connection import H3_ALPN
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

import h3c
from h3c import PATIENCE

CHUNK = b"x" * 10_000
CHUNKS = 30
PAUSE = 0.1
# A request that the proxy has not looked at, by its own word: the client asks again (RFC 9114, 4.1.1).
REQUEST_REJECTED = 0x10B


class Failed(Exception):
    pass


class Rejected(Exception):
    pass


class Client(h3c.Client):
    def request(self, *lines):
        stream = self._quic.get_next_available_stream_id()
        tunnel = lines[0][1] == "CONNECT"
        encoded = [(name.encode(), value.encode()) for name, value in lines]
        self.http.send_headers(stream, encoded, end_stream=not tunnel)
        self.transmit()
        return stream

    async def event(self):
        event = await asyncio.wait_for(self.events.get(), PATIENCE)
        if isinstance(event, (StreamReset, ConnectionTerminated)):
            if event.error_code == REQUEST_REJECTED:
                raise Rejected()
            raise Failed(f"{type(event).__name__} {event.error_code:#x}")
        return event

    async def status(self):
        event = await self.event()
        while not isinstance(event, HeadersReceived):
            event = await self.event()
        return int(dict(event.headers)[b":status"]), event.stream_ended

    async def get(self, authority):
        self.request((":method", "GET"), (":scheme", "http"), (":authority", authority), (":path", "/"))
        status, ended = await self.status()
        length = 0
        while not ended:
            event = await self.event()
            if isinstance(event, DataReceived):
                length += len(event.data)
            ended = getattr(event, "stream_ended", False)
        return status, length


class Load:
    def __init__(self, ca, address):
        self.host, port = address.split(":")
        self.port = int(port)
        self.trust = lambda: QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True, server_name=self.host, cafile=ca)
        self.over = asyncio.Event()
        self.done = {"short": 0, "downloads": 0, "words": 0, "tunnels": 0, "rejected": 0, "slowest": 0.0}
        self.failed = []

    def connect(self):
        return connect(self.host, self.port, configuration=self.trust(), create_protocol=Client)

    async def again(self, what, once):
        """Does something again and again, each time on a connection of its own."""
        while not self.over.is_set():
            began = time.monotonic()
            try:
                async with self.connect() as client:
                    await once(client)
                self.done[what] += 1
            except Rejected:
                self.done["rejected"] += 1
            except (Exception, asyncio.CancelledError) as error:
                self.failed.append(f"{what} after {time.monotonic() - began:.1f} s: {error!r}")
            if what == "short":
                self.done["slowest"] = max(self.done["slowest"], time.monotonic() - began)
                await asyncio.sleep(0.05)

    async def short(self, client):
        status, _ = await client.get("VIDEO")
        if status != 204:
            raise Failed(f"status {status}")

    async def download(self, client):
        status, length = await client.get(self.origin)
        if (status, length) != (200, len(CHUNK) * CHUNKS):
            raise Failed(f"status {status}, {length} bytes")

    async def tunnel(self):
        try:
            async with self.connect() as client:
                stream = client.request((":method", "CONNECT"), (":authority", self.echo))
                status, _ = await client.status()
                if status != 200:
                    raise Failed(f"status {status}")
                while not self.over.is_set():
                    word = b"word %d;" % self.done["words"]
                    client.http.send_data(stream, word, end_stream=False)
                    client.transmit()
                    heard = b""
                    while len(heard) < len(word):
                        heard += (await client.event()).data
                    if heard != word:
                        raise Failed(f"{heard!r} for {word!r}")
                    self.done["words"] += 1
                    await asyncio.sleep(0.05)
            self.done["tunnels"] += 1
        except (Exception, asyncio.CancelledError) as error:
            self.failed.append(f"tunnel: {error!r}")

    async def run(self):
        origin = await asyncio.start_server(slow_origin, "127.0.0.1", 0)
        echo = await asyncio.start_server(echoes, "127.0.0.1", 0)
        self.origin, self.echo = (f"127.0.0.1:{one.sockets[0].getsockname()[1]}" for one in (origin, echo))

        work = [self.tunnel() for _ in range(3)]
        work += [self.again("downloads", self.download) for _ in range(3)]
        work += [self.again("short", self.short) for _ in range(2)]
        tasks = [asyncio.create_task(one) for one in work]
        while not (self.done["words"] > 3 and self.done["short"] > 3 and self.done["downloads"] > 0):
            await asyncio.sleep(0.05)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        self.over.set()
        await asyncio.gather(*tasks)
        print(json.dumps({**self.done, "failed": self.failed}))


async def slow_origin(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (len(CHUNK) * CHUNKS))
    for _ in range(CHUNKS):
        writer.write(CHUNK)
        await asyncio.sleep(PAUSE)
    writer.close()


async def echoes(reader, writer):
    try:
        while data := await reader.read(4096):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()


asyncio.run(Load(*sys.argv[1:]).run())
