"""A service that takes logged decisions, as Open Policy Agent sends them: gzip'd lists of JSON by POST.

Writes its port as the first line, then one line of JSON for each message. Ends with standard input.

/logs takes them; /wrong answers 404; /slow never answers; /later answers 503 to the first message and takes those after it.
"""

import gzip
import http.server
import json
import sys
import threading

REFUSED = []
NEVER = threading.Event()


class Service(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        said = {"path": self.path, "type": self.headers["content-type"], "encoding": self.headers["content-encoding"]}
        said["decisions"] = json.loads(gzip.decompress(body))
        print(json.dumps(said), flush=True)

        status = 200
        if self.path == "/slow":
            NEVER.wait()
        elif self.path == "/wrong":
            status = 404
        elif self.path == "/later" and not REFUSED:
            REFUSED.append(self.path)
            status = 503
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
server.daemon_threads = True
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
