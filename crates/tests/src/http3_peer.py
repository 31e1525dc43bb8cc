"""An HTTP/3 client and server over aioquic, whose QUIC, HTTP/3 and QPACK are not ours.

client CA HOST:PORT ACTION [ARGUMENT]...   does one thing and prints what came of it, as JSON
server CERT KEY                            prints its port and serves until its input ends
"""

import asyncio
import json
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DatagramReceived, DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

PATIENCE = 15


def configuration(**more):
    return QuicConfiguration(alpn_protocols=H3_ALPN, max_datagram_frame_size=65536, **more)


class Peer(QuicConnectionProtocol):
    """Both sides: events of HTTP/3 by stream."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        # WebTransport brings SETTINGS_H3_DATAGRAM along.
        self.http = H3Connection(self._quic, enable_webtransport=True)
        self.queues = {}

    def quic_event_received(self, event):
        for event in self.http.handle_event(event):
            stream = getattr(event, "stream_id", None)
            if stream is not None:
                self.happened(stream, event)

    def happened(self, stream, event):
        self.queues.setdefault(stream, asyncio.Queue()).put_nowait(event)

    async def event(self, stream):
        queue = self.queues.setdefault(stream, asyncio.Queue())
        return await asyncio.wait_for(queue.get(), PATIENCE)

    def open(self, headers, end):
        stream = self._quic.get_next_available_stream_id()
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in headers], end_stream=end)
        self.transmit()
        return stream

    async def head(self, stream):
        while True:
            event = await self.event(stream)
            if isinstance(event, HeadersReceived):
                head = {name.decode(): value.decode() for name, value in event.headers}
                if not head[":status"].startswith("1"):
                    return head


class Server(Peer):
    """Answers requests, and sends back the bytes and datagrams of tunnels."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.tunnels = set()

    def happened(self, stream, event):
        if isinstance(event, HeadersReceived) and stream not in self.tunnels:
            self.answer(stream, dict(event.headers))
        elif isinstance(event, DataReceived) and stream in self.tunnels:
            self.http.send_data(stream, event.data, event.stream_ended)
        elif isinstance(event, DatagramReceived):
            self.http.send_datagram(stream, event.data)
        self.transmit()

    def answer(self, stream, head):
        if head[b":method"] == b"CONNECT":
            self.tunnels.add(stream)
            fields = [(b":status", b"200")]
            if head.get(b":protocol") == b"connect-udp":
                fields.append((b"capsule-protocol", b"?1"))
            self.http.send_headers(stream, fields)
            return
        body = json.dumps({name.decode(): value.decode() for name, value in head.items()}).encode()
        self.http.send_headers(stream, [(b":status", b"200"), (b"content-length", str(len(body)).encode())])
        self.http.send_data(stream, body, True)


async def get(peer, authority, path):
    """A request in absolute form, as a forward proxy takes it."""
    request = [(":method", "GET"), (":scheme", "http"), (":authority", authority), (":path", path)]
    stream = peer.open(request, True)
    head, body = await peer.head(stream), b""
    while True:
        event = await peer.event(stream)
        if isinstance(event, DataReceived):
            body += event.data
        if event.stream_ended:
            return {"status": int(head[":status"]), "bytes": len(body), "via": head.get("via")}


async def bytes_(peer, authority, length):
    """CONNECT, and as many bytes there and back."""
    stream = peer.open([(":method", "CONNECT"), (":authority", authority)], False)
    head = await peer.head(stream)
    peer.http.send_data(stream, b"x" * int(length), True)
    peer.transmit()
    echoed, ended = 0, False
    while not ended:
        event = await peer.event(stream)
        if isinstance(event, DataReceived):
            echoed, ended = echoed + len(event.data), event.stream_ended
    return {"status": int(head[":status"]), "bytes": echoed}


async def extended(peer, protocol, authority, path):
    fields = [("capsule-protocol", "?1")] if protocol == "connect-udp" else [("sec-websocket-version", "13")]
    scheme = "https" if protocol == "connect-udp" else "http"
    request = [(":method", "CONNECT"), (":scheme", scheme), (":authority", authority), (":path", path)]
    stream = peer.open([*request, (":protocol", protocol), *fields], False)
    return stream, await peer.head(stream)


async def udp(peer, authority, target, *lengths):
    """CONNECT-UDP, and datagrams of these lengths in QUIC datagrams, one after the other."""
    host, port = target.split(":")
    path = f"/.well-known/masque/udp/{host}/{port}/"
    stream, head = await extended(peer, "connect-udp", authority, path)
    came = []
    for length in map(int, lengths):
        peer.http.send_datagram(stream, b"\0" + b"u" * length)
        peer.transmit()
        event = await peer.event(stream)
        assert isinstance(event, DatagramReceived), event
        came.append(len(event.data) - 1)
    return {"status": int(head[":status"]), "came": came}


async def moving(peer, authority, target):
    """As udp, with another local port in between (RFC 9000, 9)."""
    host, port = target.split(":")
    stream, head = await extended(peer, "connect-udp", authority, f"/.well-known/masque/udp/{host}/{port}/")
    came = []
    for text in (b"before", b"after"):
        peer.http.send_datagram(stream, b"\0" + text)
        peer.transmit()
        event = await peer.event(stream)
        came.append(event.data[1:].decode())
        if text == b"before":
            loop = asyncio.get_running_loop()
            await loop.create_datagram_endpoint(lambda: peer, local_addr=("::", 0))
    return {"status": int(head[":status"]), "came": came}


async def websocket(peer, authority, path):
    """Extended CONNECT (RFC 9220), and bytes there and back."""
    stream, head = await extended(peer, "websocket", authority, path)
    peer.http.send_data(stream, b"frame", False)
    peer.transmit()
    event = await peer.event(stream)
    return {"status": int(head[":status"]), "came": event.data.decode()}


ACTIONS = {"get": get, "bytes": bytes_, "udp": udp, "moving": moving, "websocket": websocket}


async def client(ca, address, action, *arguments):
    host, port = address.split(":")
    trust = configuration(is_client=True, server_name=host)
    trust.load_verify_locations(ca)
    async with connect(host, int(port), configuration=trust, create_protocol=Peer) as peer:
        if action in ("udp", "moving"):
            arguments = (address, *arguments)
        print(json.dumps(await ACTIONS[action](peer, *arguments)))


async def server(cert, key):
    ours = configuration(is_client=False)
    ours.load_cert_chain(cert, key)
    running = await serve("127.0.0.1", 0, configuration=ours, create_protocol=Server)
    print(running._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run({"client": client, "server": server}[sys.argv[1]](*sys.argv[2:]))
