"""curl's library with ngtcp2 and nghttp3, as curl_cffi brings it. ../README.md says what the arguments and the answers mean.

It is a client of gateways: AUTHORITY is the node's own.
"""

import json
import sys
import tempfile

from curl_cffi import Curl, CurlHttpVersion, CurlInfo, CurlOpt

PATIENCE = 15
TEXT = 4096
TLS_1_3 = 7


class Client:
    """Requests that share connections and what they learn from Alt-Svc."""

    def __init__(self, ca):
        self.curl = Curl()
        self.ca = ca.encode()
        self.known = tempfile.NamedTemporaryFile(suffix=".altsvc")

    def send(self, version, url, content=None):
        lines, body = [], bytearray()
        self.curl.reset()
        self.curl.setopt(CurlOpt.URL, url.encode())
        self.curl.setopt(CurlOpt.CAINFO, self.ca)
        self.curl.setopt(CurlOpt.HTTP_VERSION, version)
        # This build stops at TLS 1.2 unless it is told.
        self.curl.setopt(CurlOpt.SSLVERSION, TLS_1_3 | TLS_1_3 << 16)
        self.curl.setopt(CurlOpt.TIMEOUT, PATIENCE)
        self.curl.setopt(CurlOpt.ALTSVC, self.known.name.encode())
        self.curl.setopt(CurlOpt.HEADERFUNCTION, lambda line: lines.append(line.decode().strip()))
        self.curl.setopt(CurlOpt.WRITEFUNCTION, lambda piece: body.extend(piece))
        if content is not None:
            self.curl.setopt(CurlOpt.POSTFIELDS, content)
        self.curl.perform()
        return self.answer(lines, bytes(body))

    def answer(self, lines, body):
        at = [number for number, line in enumerate(lines) if line.startswith("HTTP/")]
        statuses = [int(lines[number].split()[1]) for number in at]
        # Trailers come behind the empty line that ends the last head.
        behind = lines[lines.index("", at[-1]) + 1 :]
        trailers = dict(line.split(": ", 1) for line in behind if line)
        shown = {"text": body.decode()} if len(body) <= TEXT else {}
        return {
            "status": statuses[-1],
            "interim": statuses[:-1],
            "bytes": len(body),
            "trailers": trailers,
            "version": {2: "1.1", 3: "2", 30: "3"}[self.curl.getinfo(CurlInfo.HTTP_VERSION)],
            **shown,
        }


def client(ca, address, action, authority, path, *more):
    client, url = Client(ca), f"https://{authority}{path}"
    if action == "get":
        got = client.send(CurlHttpVersion.V3ONLY, url)
    elif action == "post":
        got = client.send(CurlHttpVersion.V3ONLY, url, b"x" * int(more[0]))
    else:
        # The first answer is over TCP and says where HTTP/3 is spoken; libcurl learns it when its handle goes.
        first = client.send(CurlHttpVersion.V2TLS, url)
        got = client.send(CurlHttpVersion.V3, url)
        got["versions"] = [first["version"], got["version"]]
    print(json.dumps(got))


if sys.argv[1] == "version":
    parts = Curl().version().decode().split()
    print(" ".join(part for part in parts if part.startswith(("libcurl", "ngtcp2"))).replace("libcurl/", "").split("-")[0])
else:
    client(*sys.argv[2:])
