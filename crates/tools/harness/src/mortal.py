"""An origin that can be killed: HTTP, TCP echo and UDP echo. Arguments: the addresses, and a file for what it processed."""

import os
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


HTTP, TCP, UDP = (address(text) for text in sys.argv[1:4])
LOG = os.open(sys.argv[4], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def process(self):
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        # Processed is what stands in the file, before anybody hears of it.
        os.write(LOG, f"{self.command} {self.headers['x-id']}\n".encode())
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(content), content))

    do_GET = do_PUT = do_POST = process

    def log_message(self, *_):
        pass


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            while data := self.request.recv(65536):
                self.request.sendall(data)
        except OSError:
            pass


class Datagrams(socketserver.BaseRequestHandler):
    def handle(self):
        self.request[1].sendto(self.request[0], self.client_address)


class Http(ThreadingHTTPServer):
    request_queue_size = 512

    def handle_error(self, *_):
        pass


class Tcp(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 512


servers = [Http(HTTP, Site), Tcp(TCP, Echo), socketserver.UDPServer(UDP, Datagrams)]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
# It ends with its parent.
sys.stdin.read()
