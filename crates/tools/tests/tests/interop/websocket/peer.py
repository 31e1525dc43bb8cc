"""WebSocket ends that are not Hermes: `websockets` on HTTP/1.1, `h2` with `wsproto` on HTTP/2 (RFC 8441).

    peer.py server h1|h2              echoes; prints its port; ends with its standard input
    peer.py client h1|h2 HOST:PORT    runs every case through the gateway there; prints one line a case

With WS_CERT and WS_KEY in the environment a server speaks TLS, and with WS_CA a client does, to whom that authority certifies.

The cases are those of the Autobahn test suite's chapters, in short: framing and lengths, pings, reserved bits and opcodes,
fragmentation, UTF-8, close codes, limits, and compression (RFC 7692). The suite itself needs Python 2.
"""

import asyncio
import os
import socket
import ssl
import sys
import threading

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import wsproto.events as ws_events
from websockets.asyncio.client import connect as websocket_connect
from websockets.asyncio.server import serve as websocket_serve
from websockets.exceptions import ConnectionClosed
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.extensions import PerMessageDeflate
from wsproto.handshake import client_extensions_handshake, server_extensions_handshake
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

PATIENCE = 15
LARGE = 16 * 1024 * 1024
TARGET = "video"
PROTOCOL = "echo.example"


def server_tls(alpn):
    if "WS_CERT" not in os.environ:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(os.environ["WS_CERT"], os.environ["WS_KEY"])
    context.set_alpn_protocols([alpn])
    return context


def client_tls(alpn):
    if "WS_CA" not in os.environ:
        return None
    context = ssl.create_default_context(cafile=os.environ["WS_CA"])
    context.set_alpn_protocols([alpn])
    return context


def dial(address, context):
    sock = socket.create_connection(address, PATIENCE)
    if context is None:
        return sock
    sock = context.wrap_socket(sock, server_hostname=TARGET)
    assert sock.selected_alpn_protocol() == "h2", sock.selected_alpn_protocol()
    return sock


def close_wish(message):
    """`close:CODE` asks the server to close."""
    return int(message[6:]) if isinstance(message, str) and message.startswith("close:") else None


# --- HTTP/1.1 --------------------------------------------------------------------------------------------------------

# With `asyncio`: the other form of `websockets` reads in one thread while it writes in another, which OpenSSL forbids. Under load it
# wrote a record twice, once in some hundred cases.


def serve_h1():
    async def echo(ws):
        async for message in ws:
            code = close_wish(message)
            if code is not None:
                await ws.close(code, "as you wish")
                return
            await ws.send(message)

    async def serve():
        tls = server_tls("http/1.1")
        return await websocket_serve(echo, "127.0.0.1", 0, max_size=None, subprotocols=[PROTOCOL], compression="deflate", ssl=tls)

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(serve())
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return server.sockets[0].getsockname()[1]


class H1Client:
    def __init__(self, address):
        self.loop = asyncio.new_event_loop()
        self.ws = self.wait(self.connect(address))
        self.protocol = self.ws.subprotocol
        self.extensions = self.ws.response.headers.get("Sec-WebSocket-Extensions", "")

    async def connect(self, address):
        tls = client_tls("http/1.1")
        sock = socket.create_connection(address, PATIENCE)
        sock.setblocking(False)
        return await websocket_connect(
            f"{'wss' if tls else 'ws'}://{TARGET}/chat?room=1",
            ssl=tls,
            sock=sock,
            max_size=None,
            subprotocols=[PROTOCOL],
            compression="deflate",
            proxy=None,
            open_timeout=PATIENCE,
            close_timeout=PATIENCE,
        )

    def wait(self, step):
        return self.loop.run_until_complete(asyncio.wait_for(step, PATIENCE))

    def send(self, message):
        self.wait(self.ws.send(message))

    def raw(self, data):
        self.ws.transport.write(data)

    def receive(self):
        return self.wait(self.ws.recv())

    def ping(self, payload):
        async def answered():
            await (await self.ws.ping(payload))
            return True

        return self.wait(answered())

    def close(self, code):
        self.wait(self.ws.close(code, "enough"))
        return self.ws.protocol.close_rcvd.code

    def closed(self):
        try:
            while True:
                self.receive()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None

    def done(self):
        self.ws.transport.abort()
        self.wait(self.ws.wait_closed())
        self.loop.close()


# --- HTTP/2 ----------------------------------------------------------------------------------------------------------


class H2Stream:
    def __init__(self, ws):
        self.ws, self.pending, self.finish, self.parts, self.inbox = ws, bytearray(), False, [], []
        self.pongs, self.close_code, self.ended = [], None, False

    def receive(self, data):
        """What the other side sent; returns whole messages."""
        messages = []
        if self.ws.state is ConnectionState.CLOSED or not data:
            return messages
        try:
            self.ws.receive_data(data)
            events = list(self.ws.events())
        except RemoteProtocolError as error:
            self.fail(error)
            return messages
        for event in events:
            if isinstance(event, (ws_events.TextMessage, ws_events.BytesMessage)):
                self.parts.append(event.data)
                if event.message_finished:
                    messages.append(type(event.data)().join(self.parts))
                    self.parts = []
            elif isinstance(event, ws_events.Ping):
                self.pending += self.ws.send(event.response())
            elif isinstance(event, ws_events.Pong):
                self.pongs.append(bytes(event.payload))
            elif isinstance(event, ws_events.CloseConnection):
                self.close_code = event.code
                try:
                    self.pending += self.ws.send(event.response())
                except LocalProtocolError:
                    pass  # it answers our own close
                self.finish = True
        return messages

    def fail(self, error):
        hint = error.event_hint
        self.pending += self.ws.send(hint or ws_events.CloseConnection(code=1002))
        self.finish = True


class H2Side:
    def __init__(self, sock, client):
        self.sock, self.streams = sock, {}
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=client, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.settled = False
        window = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20}
        if not client:
            window[h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL] = 1
        self.h2.update_settings(window)
        self.h2.increment_flow_control_window(1 << 24)
        self.flush()

    def flush(self):
        for number, stream in list(self.streams.items()):
            if self.is_reset(number):
                del self.streams[number]
                continue
            while stream.pending:
                size = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(stream.pending))
                if size == 0:
                    break
                self.h2.send_data(number, bytes(stream.pending[:size]))
                del stream.pending[:size]
            if stream.finish and not stream.pending:
                self.h2.end_stream(number)
                stream.finish = False
                stream.pending = bytearray()
        self.sock.sendall(self.h2.data_to_send())

    def is_reset(self, number):
        try:
            self.h2.local_flow_control_window(number)
        except h2.exceptions.StreamClosedError:
            return True
        return False

    def step(self):
        data = self.sock.recv(1 << 16)
        if not data:
            return False
        for event in self.h2.receive_data(data):
            self.handle(event)
        self.flush()
        return True

    def handle(self, event):
        stream = self.streams.get(getattr(event, "stream_id", None))
        if isinstance(event, h2.events.RemoteSettingsChanged):
            self.settled = True
        elif isinstance(event, h2.events.RequestReceived):
            self.requested(event.stream_id, dict(event.headers))
        elif isinstance(event, h2.events.ResponseReceived):
            self.response = dict(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            try:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            except h2.exceptions.StreamClosedError:
                return  # a reset came behind the data
            if stream:
                self.received(stream, stream.receive(event.data))
        elif isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)) and stream:
            stream.ended = True
            if isinstance(event, h2.events.StreamReset):
                del self.streams[event.stream_id]

    def received(self, stream, messages):
        stream.inbox += messages


class H2Server(H2Side):
    def requested(self, number, headers):
        known = headers.get(":protocol") == "websocket" and headers.get("sec-websocket-version") == "13"
        if not known or headers[":method"] != "CONNECT" or headers[":path"] != "/chat?room=1":
            self.h2.send_headers(number, [(":status", "400")], end_stream=True)
            return
        deflate = PerMessageDeflate()
        offered = [part.strip() for part in headers.get("sec-websocket-extensions", "").split(",") if part.strip()]
        accepted = server_extensions_handshake(offered, [deflate])
        fields = [(":status", "200"), ("sec-websocket-protocol", PROTOCOL)]
        if accepted:
            fields.append(("sec-websocket-extensions", accepted.decode()))
        self.h2.send_headers(number, fields)
        self.streams[number] = H2Stream(Connection(ConnectionType.SERVER, [deflate] if accepted else []))

    def received(self, stream, messages):
        for message in messages:
            code = close_wish(message)
            if code is not None:
                stream.pending += stream.ws.send(ws_events.CloseConnection(code=code, reason="as you wish"))
            else:
                event = ws_events.TextMessage if isinstance(message, str) else ws_events.BytesMessage
                stream.pending += stream.ws.send(event(data=message))


def serve_h2():
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=converse, args=[sock], daemon=True).start()

    tls = server_tls("h2")

    def converse(sock):
        if tls is not None:
            sock = tls.wrap_socket(sock, server_side=True)
        with sock:
            side = H2Server(sock, client=False)
            while side.step():
                pass

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


class H2Client:
    def __init__(self, address):
        self.side = H2Side(dial(address, client_tls("h2")), client=True)
        self.wait(lambda: self.side.settled)
        assert self.side.h2.remote_settings.enable_connect_protocol, "extended CONNECT is offered"
        self.number = self.side.h2.get_next_available_stream_id()
        deflate = PerMessageDeflate()
        self.side.response = None
        self.side.h2.send_headers(
            self.number,
            [
                (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":scheme", "https" if "WS_CA" in os.environ else "http"),
                (":authority", TARGET),
                (":path", "/chat?room=1"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-protocol", PROTOCOL),
                ("sec-websocket-extensions", f"permessage-deflate; {deflate.offer()}".rstrip("; ")),
            ],
        )
        self.side.flush()
        self.wait(lambda: self.side.response)
        response = self.side.response
        assert response[":status"] == "200", response
        assert "sec-websocket-accept" not in response, response
        self.protocol = response.get("sec-websocket-protocol")
        self.extensions = response.get("sec-websocket-extensions", "")
        client_extensions_handshake([part.strip() for part in self.extensions.split(",")], [deflate])
        self.stream = H2Stream(Connection(ConnectionType.CLIENT, [deflate]))
        self.side.streams[self.number] = self.stream

    def wait(self, holds):
        while not holds():
            assert self.side.step(), "the connection ended"

    def send(self, message):
        event = ws_events.TextMessage if isinstance(message, str) else ws_events.BytesMessage
        self.raw(self.stream.ws.send(event(data=message)))

    def raw(self, data):
        self.stream.pending += data
        self.side.flush()

    def receive(self):
        self.wait(lambda: self.stream.inbox)
        return self.stream.inbox.pop(0)

    def ping(self, payload):
        self.raw(self.stream.ws.send(ws_events.Ping(payload=payload)))
        self.wait(lambda: self.stream.pongs)
        return self.stream.pongs.pop(0) == payload

    def close(self, code):
        self.raw(self.stream.ws.send(ws_events.CloseConnection(code=code, reason="enough")))
        return self.closed()

    def closed(self):
        self.wait(lambda: self.stream.close_code or self.stream.ended)
        return self.stream.close_code

    def done(self):
        self.side.sock.close()


# --- cases -----------------------------------------------------------------------------------------------------------


def frame(opcode, payload=b"", fin=True, masked=True, reserved=0):
    """A frame by hand, so that it may be wrong."""
    head = bytes([fin << 7 | reserved << 4 | opcode])
    length, mask = len(payload), os.urandom(4)
    if length < 126:
        head += bytes([masked << 7 | length])
    else:
        head += bytes([masked << 7 | 126]) + length.to_bytes(2, "big")
    if not masked:
        return head + payload
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def handshake(client):
    assert client.protocol == PROTOCOL, client.protocol
    assert "permessage-deflate" in client.extensions, client.extensions


def lengths(client):
    for length in [0, 1, 125, 126, 127, 128, 65535, 65536, 65537]:
        for message in ["x" * length, os.urandom(length)]:
            client.send(message)
            assert client.receive() == message, length


def text(client):
    client.send("κόσμε \U0001f600")
    assert client.receive() == "κόσμε \U0001f600"


def pings(client):
    for payload in [b"", b"ping", bytes(125)]:
        assert client.ping(payload), payload


def fragments(client):
    client.raw(frame(1, b"one ", fin=False) + frame(0, b"two ", fin=False))
    client.raw(frame(9, b"between"))
    for byte in frame(0, b"three"):
        client.raw(bytes([byte]))
    assert client.receive() == "one two three"
    client.raw(frame(2, b"", fin=False) + frame(0, b"", fin=False) + frame(0, b"\x00\xff"))
    assert client.receive() == b"\x00\xff"


def large(client):
    message = os.urandom(LARGE)
    client.send(message)
    assert client.receive() == message


def compressed(client):
    message = "the same again, " * 100_000
    for _ in range(3):
        client.send(message)
        assert client.receive() == message


def fails(code, *frames):
    def case(client):
        client.raw(b"".join(frames))
        found = client.closed()
        assert found == code, f"{found} is not {code}"

    return case


def closes(code):
    def case(client):
        assert client.close(code) == code

    return case


def is_closed(code):
    def case(client):
        client.send(f"close:{code}")
        assert client.closed() == code

    return case


CASES = {
    "handshake": handshake,
    "lengths": lengths,
    "text": text,
    "pings": pings,
    "fragments": fragments,
    "large": large,
    "compressed": compressed,
    "unmasked": fails(1002, frame(1, b"hello", masked=False)),
    "reserved opcode": fails(1002, frame(3, b"hello")),
    "reserved control opcode": fails(1002, frame(11)),
    "reserved bit": fails(1002, frame(1, b"hello", reserved=1)),
    "fragmented ping": fails(1002, frame(9, b"half", fin=False)),
    "long ping": fails(1002, frame(9, bytes(126))),
    "continuation of nothing": fails(1002, frame(0, b"hello")),
    "text within fragments": fails(1002, frame(1, b"one", fin=False), frame(1, b"two")),
    "bad UTF-8": fails(1007, frame(1, b"\xce\xba\xed\xa0\x80")),
    "bad UTF-8 in fragments": fails(1007, frame(1, b"\xce", fin=False), frame(0, b"\xff")),
    "close with one byte": fails(1002, frame(8, b"\x03")),
    "close with a forbidden code": fails(1002, frame(8, (1005).to_bytes(2, "big"))),
    **{f"close {code}": closes(code) for code in [1000, 1001, 3000, 4999]},
    **{f"closed {code}": is_closed(code) for code in [1000, 1011, 4001]},
}


def main():
    role, version = sys.argv[1:3]
    if role == "server":
        print({"h1": serve_h1, "h2": serve_h2}[version](), flush=True)
        sys.stdin.read()
        os._exit(0)
    host, port = sys.argv[3].rsplit(":", 1)
    failed = 0
    for name, case in CASES.items():
        try:
            client = {"h1": H1Client, "h2": H2Client}[version]((host, int(port)))
            case(client)
            client.done()
            print(f"ok: {name}")
        except Exception as error:  # every case is tried
            failed += 1
            print(f"failed: {name}: {type(error).__name__}: {error}")
    print(f"{len(CASES)} cases, {failed} failed")
    os._exit(1 if failed else 0)


main()
