"""Hostile HTTP/3 clients over aioquic: CA HOST:PORT AUTHORITY HOW CONNECTIONS STREAMS. One line of JSON says what came of it."""

import asyncio
import json
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamReset

PATIENCE = 15
# Enough for everything that is asked for.
ROOM = 1 << 32
REQUEST_CANCELLED = 0x10C
DATAGRAMS = 40_000
GROUPS = 4_000
# The type of a stream with a group of datagrams, 0x68677270.
GROUP = (0x68677270 | 3 << 62).to_bytes(8, "big")
# Datagrams that may come while ten requests are broken off.
TURNS = 40


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        # WebTransport brings SETTINGS_H3_DATAGRAM along.
        self.http = H3Connection(self._quic, enable_webtransport=True)
        self.ended = asyncio.get_running_loop().create_future()
        self.refused = set()

    def quic_event_received(self, event):
        if isinstance(event, (StreamReset, StopSendingReceived)):
            self.refused.add(event.stream_id)
        if isinstance(event, ConnectionTerminated) and not self.ended.done():
            self.phrase = event.reason_phrase
            self.ended.set_result(event.error_code)
        self.http.handle_event(event)

    def ask(self, *lines, end):
        stream = self._quic.get_next_available_stream_id()
        encoded = [(name.encode(), value.encode()) for name, value in lines]
        self.http.send_headers(stream, encoded, end_stream=end)
        return stream

    def get(self, authority):
        return self.ask(
            (":method", "GET"), (":scheme", "http"), (":authority", authority), (":path", "/"), end=True
        )

    def tunnel(self, address, target, *more):
        host, port = target.split(":")
        path = f"/.well-known/masque/udp/{host}/{port}/"
        return self.ask(
            (":method", "CONNECT"), (":protocol", "connect-udp"), (":scheme", "https"), (":authority", address),
            (":path", path), ("capsule-protocol", "?1"), *more, end=False
        )  # fmt: skip


def say(what):
    print(json.dumps(what), flush=True)


async def stop(clients, address, authority, streams):
    """Asks for much, and neither reads nor confirms anything until standard input ends."""
    for client in clients:
        for _ in range(streams):
            client.get(authority)
        client.transmit()
    say({"asked": len(clients) * streams})
    sys.stdin.read()


async def reset(clients, address, authority, streams):
    """Breaks requests off as fast as it may ask, and says what that was answered with."""
    (client,), asked = clients, 0
    while asked < streams and not client.ended.done():
        for _ in range(10):
            stream = client.get(authority)
            client.transmit()
            client._quic.reset_stream(stream, REQUEST_CANCELLED)
            client._quic.stop_stream(stream, REQUEST_CANCELLED)
            asked += 1
        client.transmit()
        await asyncio.sleep(0.001)
        # asyncio takes one datagram in a turn: what is not taken fills the socket, and the farewell would be lost.
        for _ in range(TURNS):
            await asyncio.sleep(0)
    say({"asked": asked, "code": await asyncio.wait_for(client.ended, PATIENCE)})


async def heads(clients, address, authority, streams):
    """Asks with large heads, for what does not come."""
    pad = ("x-pad", "p" * 60_000)
    for client in clients:
        for _ in range(streams):
            client.ask(
                (":method", "GET"), (":scheme", "http"), (":authority", authority), (":path", "/"), pad, end=True
            )  # fmt: skip
            client.transmit()
            await asyncio.sleep(0)
        await asyncio.wait_for(client.ping(), PATIENCE)
    say({"asked": len(clients) * streams})
    # Goes on with what is still to be sent.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def begin(clients, address, authority, streams, announced, sent):
    """Begins requests whose heads never come, or are never whole, and says how many streams were refused."""
    for client in clients:
        for _ in range(streams):
            stream = client._quic.get_next_available_stream_id()
            frame = b"\x01" + (0x80000000 | announced).to_bytes(4, "big") + bytes(sent)
            client._quic.send_stream_data(stream, frame, end_stream=False)
            client.transmit()
            await asyncio.sleep(0)
        await asyncio.wait_for(client.ping(), PATIENCE)
    # What is refused is told soon.
    await asyncio.sleep(1)
    say({"asked": len(clients) * streams, "refused": sum(len(client.refused) for client in clients)})
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def empty(clients, address, authority, streams):
    """Announces heads of which nothing comes."""
    await begin(clients, address, authority, streams, 100, 0)


async def unfinished(clients, address, authority, streams):
    """Sends most of large heads."""
    await begin(clients, address, authority, streams, 60_000, 50_000)


async def datagrams(clients, address, authority, streams):
    """Sends datagrams into tunnels, and says when they are on their way."""
    (client,) = clients
    tunnels = [client.tunnel(address, authority) for _ in range(streams)]
    client.transmit()
    for number in range(DATAGRAMS):
        client.http.send_datagram(tunnels[number % streams], bytes(1000))
        if number % 20 == 0:
            client.transmit()
            await asyncio.sleep(0)
    await asyncio.wait_for(client.ping(), PATIENCE)
    say({"sent": DATAGRAMS})
    sys.stdin.read()


def frame(number):
    """A frame of recovery: a datagram far ahead, behind or again, parity of no block, a probe, a report that asks for everything, or no frame."""
    tag = (number // 5000 % 2).to_bytes(2, "big")
    low = (number * 2654435761 % 2**32).to_bytes(4, "big")
    bodies = (
        b"\x00" + tag + (number % 100).to_bytes(4, "big") + bytes(900),
        b"\x00" + tag + low + bytes(900),
        b"\x01" + tag + low + b"\xff" + bytes(900),
        b"\x02" + tag + low + bytes((32, 32, number % 32)) + bytes(900),
        b"\x03" + tag + low + low + b"\xff\xff",
        b"\x04" + tag + low + low + b"".join(n.to_bytes(4, "big") + b"\xff" for n in range(0, 64 * 255, 255)),
        b"\x09" + tag,
    )
    return bodies[number % len(bodies)]


async def frames(clients, address, authority, streams):
    """Sends forged frames of recovery into tunnels, and says when they are on their way."""
    (client,) = clients
    asked = ("hermes-datagram-recovery", "4;within=10000")
    tunnels = [client.tunnel(address, authority, asked) for _ in range(streams)]
    client.transmit()
    await asyncio.wait_for(client.ping(), PATIENCE)
    for number in range(DATAGRAMS):
        client.http.send_datagram(tunnels[number % streams], b"\x04" + frame(number // streams))
        if number % 20 == 0:
            client.transmit()
            await asyncio.sleep(0)
    await asyncio.wait_for(client.ping(), PATIENCE)
    say({"sent": DATAGRAMS})
    sys.stdin.read()


async def groups(clients, address, authority, streams):
    """Sends groups of datagrams of no session, of an own one but cut, and empty, as fast as it may; says what that was answered with."""
    (client,), sent = clients, 0
    kind = GROUP
    client.tunnel(address, authority)
    client.transmit()
    await asyncio.wait_for(client.ping(), PATIENCE)
    forged = (kind + b"\x3f\x00\x02\x00x", kind + b"\x00\x00\x41\x00cut", kind + b"\x00", kind + b"\x00\x00\xff" + b"\xff" * 7)
    while sent < streams and not client.ended.done():
        for _ in range(10):
            stream = client._quic.get_next_available_stream_id(is_unidirectional=True)
            client._quic.send_stream_data(stream, forged[sent % len(forged)], end_stream=True)
            sent += 1
        client.transmit()
        await asyncio.sleep(0.001)
        for _ in range(TURNS):
            await asyncio.sleep(0)
    code = await asyncio.wait_for(client.ended, PATIENCE)
    say({"sent": sent, "code": code, "phrase": client.phrase})


async def disorder(clients, address, authority, streams):
    """Sends groups of own sessions with numbers far ahead, behind, again and with gaps between them, and says when they are on their way."""
    (client,) = clients
    tunnels = [client.tunnel(address, authority, ("hermes-datagram-groups", "10000")) for _ in range(streams)]
    client.transmit()
    await asyncio.wait_for(client.ping(), PATIENCE)
    for number in range(GROUPS):
        session = (tunnels[number % streams] // 4).to_bytes(1, "big")
        turn = number // streams
        firsts = (2 * turn, 2**61 + 3 * turn, 2 * turn, 2**62 - 1, turn // 2)
        first = (firsts[turn % len(firsts)] | 3 << 62).to_bytes(8, "big")
        datagrams = (b"\x43\x85\x00" + bytes(900)) * 4
        stream = client._quic.get_next_available_stream_id(is_unidirectional=True)
        client._quic.send_stream_data(stream, GROUP + session + first + datagrams, end_stream=True)
        if number % 20 == 0:
            client.transmit()
            for _ in range(TURNS):
                await asyncio.sleep(0)
    await asyncio.wait_for(client.ping(), PATIENCE)
    say({"sent": GROUPS, "ended": client.ended.done()})
    # Goes on with those that wait for streams of their own.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def main(ca, address, authority, how, connections, streams):
    host, port = address.split(":")
    room = {"max_data": ROOM, "max_stream_data": ROOM, "max_datagram_frame_size": 65536}
    trust = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True, server_name=host, idle_timeout=600, **room)
    trust.load_verify_locations(ca)
    async with asyncio.timeout(60):
        dialled = [connect(host, int(port), configuration=trust, create_protocol=Client) for _ in range(int(connections))]
        clients = [await client.__aenter__() for client in dialled]
        ways = {f.__name__: f for f in (stop, reset, datagrams, frames, groups, disorder, heads, empty, unfinished)}
        await ways[how](clients, address, authority, int(streams))


asyncio.run(main(*sys.argv[1:]))
