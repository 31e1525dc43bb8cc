"""An HTTP/3 client and server over aioquic. ../README.md says what the arguments and the answers mean."""

import asyncio
import json
import sys
from importlib.metadata import version

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.buffer import Buffer, BufferReadError, encode_uint_var
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DatagramReceived, DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

PATIENCE = 15
# Content that is shown, in bytes.
TEXT = 4096


def configuration(**more):
    # Packets that datagrams of 1200 bytes fit.
    sizes = {"max_datagram_frame_size": 65536, "max_datagram_size": 1280}
    return QuicConfiguration(alpn_protocols=H3_ALPN, **sizes, **more)


class Peer(QuicConnectionProtocol):
    """Both sides: events of HTTP/3 by stream."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        # WebTransport brings SETTINGS_H3_DATAGRAM along.
        self.http = H3Connection(self._quic, enable_webtransport="capsules" not in sys.argv)
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
        self.http.send_headers(stream, encoded(headers), end_stream=end)
        self.transmit()
        return stream

    async def head(self, stream):
        while True:
            event = await self.event(stream)
            if isinstance(event, HeadersReceived):
                return decoded(event.headers)


def encoded(headers):
    return [(name.encode(), value.encode()) for name, value in headers]


def decoded(headers):
    return {name.decode(): value.decode() for name, value in headers}


class Server(Peer):
    """Answers requests, and sends back the bytes and datagrams of tunnels."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.tunnels = set()
        # Of requests that are not complete yet: head, bytes of content, trailers.
        self.requests = {}

    def happened(self, stream, event):
        if isinstance(event, DatagramReceived):
            self.http.send_datagram(stream, event.data)
        elif stream in self.tunnels:
            if isinstance(event, DataReceived):
                self.http.send_data(stream, event.data, event.stream_ended)
        elif isinstance(event, HeadersReceived) and dict(event.headers).get(b":method") == b"CONNECT":
            self.accept(stream, dict(event.headers))
        elif isinstance(event, HeadersReceived) and stream not in self.requests:
            self.requests[stream] = {**decoded(event.headers), "bytes": 0, "trailers": {}}
        elif isinstance(event, HeadersReceived):
            self.requests[stream]["trailers"] = decoded(event.headers)
        elif isinstance(event, DataReceived):
            self.requests[stream]["bytes"] += len(event.data)
        if stream in self.requests and event.stream_ended:
            self.answer(stream, self.requests.pop(stream))
        self.transmit()

    def accept(self, stream, head):
        self.tunnels.add(stream)
        fields = [(b":status", b"200")]
        if head.get(b":protocol") == b"connect-udp":
            fields.append((b"capsule-protocol", b"?1"))
        self.http.send_headers(stream, fields)

    def answer(self, stream, request):
        path, fields, trailers = request[":path"], [(":status", "200")], []
        body = json.dumps(request).encode()
        if path == "/hints":
            self.http.send_headers(stream, encoded([(":status", "103"), ("link", "</style.css>")]))
            body = b"done\n"
        elif path == "/trailers":
            body, trailers = b"body\n", [("x-checksum", "42")]
        elif path.startswith("/bytes/"):
            body = b"x" * int(path[len("/bytes/") :])
        if not trailers:
            fields.append(("content-length", str(len(body))))
        self.http.send_headers(stream, encoded(fields))
        self.http.send_data(stream, body, not trailers)
        if trailers:
            self.http.send_headers(stream, encoded(trailers), end_stream=True)


async def answer(peer, stream):
    """A response to its end."""
    head, interim, trailers, body, ended = None, [], {}, b"", False
    while not ended:
        event = await peer.event(stream)
        ended = event.stream_ended
        if isinstance(event, DataReceived):
            body += event.data
        elif head:
            trailers = decoded(event.headers)
        elif decoded(event.headers)[":status"].startswith("1"):
            interim.append(int(decoded(event.headers)[":status"]))
        else:
            head = decoded(event.headers)
    shown = {"text": body.decode()} if len(body) <= TEXT else {}
    return {"status": int(head[":status"]), "bytes": len(body), "interim": interim, "trailers": trailers, **shown}


def request(method, authority, path):
    """In absolute form, as a forward proxy takes it."""
    return [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path), ("te", "trailers")]


async def get(peer, authority, path):
    return await answer(peer, peer.open(request("GET", authority, path), True))


async def post(peer, authority, path, length):
    stream = peer.open(request("POST", authority, path), False)
    peer.http.send_data(stream, b"x" * int(length), False)
    peer.http.send_headers(stream, encoded([("x-checksum", "42")]), end_stream=True)
    peer.transmit()
    return await answer(peer, stream)


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
    head = [(":method", "CONNECT"), (":scheme", scheme), (":authority", authority), (":path", path)]
    stream = peer.open([*head, (":protocol", protocol), *fields], False)
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


async def capsules(peer, authority, target, *lengths):
    """CONNECT-UDP, and datagrams of these lengths in capsules (RFC 9297, 3.5), one after the other."""
    host, port = target.split(":")
    stream, head = await extended(peer, "connect-udp", authority, f"/.well-known/masque/udp/{host}/{port}/")
    came, text = [], b""
    for length in map(int, lengths):
        peer.http.send_data(stream, b"\0" + encode_uint_var(1 + length) + b"\0" + b"u" * length, False)
        peer.transmit()
        while True:
            buffer = Buffer(data=text)
            try:
                kind = buffer.pull_uint_var()
                value = buffer.pull_bytes(buffer.pull_uint_var())
                break
            except BufferReadError:
                text += (await peer.event(stream)).data
        text = text[buffer.tell() :]
        assert kind == 0, kind
        came.append(len(value) - 1)
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


ACTIONS = {
    "get": get,
    "post": post,
    "bytes": bytes_,
    "udp": udp,
    "capsules": capsules,
    "moving": moving,
    "websocket": websocket,
}


async def client(ca, address, action, *arguments):
    host, port = address.split(":")
    trust = configuration(is_client=True, server_name=host)
    trust.load_verify_locations(ca)
    if action == "early":
        return print(json.dumps(await early(trust, host, int(port), *arguments)))
    async with connect(host, int(port), configuration=trust, create_protocol=Peer) as peer:
        if action in ("udp", "moving", "capsules"):
            arguments = (address, *arguments)
        print(json.dumps(await ACTIONS[action](peer, *arguments)))


async def early(trust, host, port, method, authority, path):
    """A request in the first flight of a second connection (RFC 8470)."""
    tickets = asyncio.Queue()
    async with connect(
        host, port, configuration=trust, create_protocol=Peer, session_ticket_handler=tickets.put_nowait
    ) as peer:
        await get(peer, authority, path)
        trust.session_ticket = await asyncio.wait_for(tickets.get(), PATIENCE)
    async with connect(host, port, configuration=trust, create_protocol=Peer, wait_connected=False) as peer:
        stream = peer.open(request(method, authority, path), True)
        # The handshake does not end before the answer is here.
        send, peer._transport.sendto = peer._transport.sendto, lambda *_: None
        came = await answer(peer, stream)
        peer._transport.sendto = send
        return {**came, "early": peer._quic.tls.early_data_accepted}


async def server(cert, key, *_):
    ours = configuration(is_client=False)
    ours.load_cert_chain(cert, key)
    running = await serve("127.0.0.1", 0, configuration=ours, create_protocol=Server)
    print(running._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if sys.argv[1] == "version":
    print(version("aioquic"))
else:
    asyncio.run({"client": client, "server": server}[sys.argv[1]](*sys.argv[2:]))
