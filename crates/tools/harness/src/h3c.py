"""One HTTP/3 request with exactly the lines that are given, over aioquic: CA HOST:PORT JSON."""

import asyncio
import json
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

PATIENCE = 15


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.http = H3Connection(self._quic)
        self.events = asyncio.Queue()

    def quic_event_received(self, event):
        if isinstance(event, (StreamReset, ConnectionTerminated)):
            self.events.put_nowait(event)
        for came in self.http.handle_event(event):
            self.events.put_nowait(came)

    async def ask(self, lines):
        stream = self._quic.get_next_available_stream_id()
        tunnel = ("CONNECT" in dict(lines).get(":method", ""))
        encoded = [(name.encode("latin-1"), value.encode()) for name, value in lines]
        self.http.send_headers(stream, encoded, end_stream=not tunnel)
        self.transmit()
        fields, text, ended = None, b"", False
        while not ended:
            event = await asyncio.wait_for(self.events.get(), PATIENCE)
            if isinstance(event, (StreamReset, ConnectionTerminated)):
                return {"reset": event.error_code}
            if isinstance(event, HeadersReceived):
                came = {name.decode(): value.decode() for name, value in event.headers}
                fields = came if ":status" in came else {**fields, **came}
                if tunnel and fields[":status"] == "200":
                    break
            elif isinstance(event, DataReceived):
                text += event.data
            ended = getattr(event, "stream_ended", False)
        return {"status": int(fields[":status"]), "fields": fields, "text": text.decode()}


async def main(ca, address, lines):
    host, port = address.split(":")
    trust = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True, server_name=host)
    trust.load_verify_locations(ca)
    async with connect(host, int(port), configuration=trust, create_protocol=Client) as client:
        print(json.dumps(await client.ask(json.loads(lines))))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
