"""An HTTP/3 server over aioquic that answers the first request of a connection by its end: CERTIFICATE KEY HOW. It prints its address.

`close` closes the connection with H3_INTERNAL_ERROR and words; `mistake` sends SETTINGS a second time, which its client has to close it for.
"""

import asyncio
import json
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

SETTINGS = b"\x04\x00"


class Server(QuicConnectionProtocol):
    how = "close"

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.http = H3Connection(self._quic)

    def quic_event_received(self, event):
        if not any(isinstance(came, HeadersReceived) for came in self.http.handle_event(event)):
            return
        if self.how == "close":
            self._quic.close(error_code=ErrorCode.H3_INTERNAL_ERROR, reason_phrase="on purpose")
        else:
            self._quic.send_stream_data(self.http._local_control_stream_id, SETTINGS)
        self.transmit()


async def main(certificate, key, how):
    Server.how = how
    identity = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=False)
    identity.load_cert_chain(certificate, key)
    server = await serve("127.0.0.1", 0, configuration=identity, create_protocol=Server)
    host, port = server._transport.get_extra_info("sockname")[:2]
    print(json.dumps(f"{host}:{port}"), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
