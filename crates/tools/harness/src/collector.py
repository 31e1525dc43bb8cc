"""An OTLP/HTTP collector that believes nothing: it reads JSON by the protobuf definitions of OpenTelemetry.

Writes its port as the first line, then one line of JSON for each message. Ends with standard input.
"""

import base64
import http.server
import json
import sys
import threading

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

MESSAGES = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
IDENTIFIERS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def each_identifier(value, change):
    """OTLP writes identifiers in hexadecimal, where protobuf's own JSON has base64."""
    if isinstance(value, list):
        return [each_identifier(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    known = {key: change(key, item) for key, item in value.items() if key in IDENTIFIERS}
    return {key: known.get(key, each_identifier(item, change)) for key, item in value.items()}


def in_base64(key, text):
    raw = bytes.fromhex(text)
    assert len(raw) == IDENTIFIERS[key], f"{key} has {len(raw)} bytes"
    return base64.b64encode(raw).decode()


def in_hexadecimal(_, text):
    return base64.b64decode(text).hex()


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        said, status = {"path": self.path}, 200
        try:
            assert self.headers["content-type"] == "application/json"
            # An unknown field, a number that is too large or a wrong type is an error here.
            message = json_format.ParseDict(each_identifier(json.loads(body), in_base64), MESSAGES[self.path]())
            said["message"] = each_identifier(json_format.MessageToDict(message), in_hexadecimal)
        except Exception as error:
            said["error"], status = repr(error), 400
        print(json.dumps(said), flush=True)
        self.send_response(status)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
