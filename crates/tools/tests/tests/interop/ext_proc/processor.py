"""A processor of envoy.service.ext_proc.v3, of grpcio and the messages that envoy-data-plane generates of Envoy's own definitions.

Writes its port as a line. It marks heads and takes `x-secret` out of them; contents of requests become capitals, and `S` becomes `5` in those of
answers. Where a request says `x-deny` it answers itself.
"""

from concurrent import futures

import grpc
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.service.ext_proc import v3 as ext_proc
from envoy_data_plane.envoy.type import v3 as types

OVERWRITE = core.HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD


def marked(name):
    mark = core.HeaderValueOption(header=core.HeaderValue(key=name, raw_value=b"yes"), append_action=OVERWRITE)
    changes = ext_proc.HeaderMutation(set_headers=[mark], remove_headers=["x-secret"])
    return ext_proc.HeadersResponse(response=ext_proc.CommonResponse(header_mutation=changes))


def replaced(body):
    body = ext_proc.BodyMutation(body=body)
    return ext_proc.BodyResponse(response=ext_proc.CommonResponse(body_mutation=body))


def answer(question):
    if question.request_headers:
        if any(field.key == "x-deny" for field in question.request_headers.headers.headers):
            status = types.HttpStatus(code=types.StatusCode.Forbidden)
            return ext_proc.ProcessingResponse(immediate_response=ext_proc.ImmediateResponse(status=status, body=b"not this"))
        return ext_proc.ProcessingResponse(request_headers=marked("x-python"))
    if question.response_headers:
        return ext_proc.ProcessingResponse(response_headers=marked("x-python-answer"))
    if question.request_body:
        return ext_proc.ProcessingResponse(request_body=replaced(question.request_body.body.upper()))
    return ext_proc.ProcessingResponse(response_body=replaced(question.response_body.body.replace(b"S", b"5")))


def process(questions, _):
    for question in questions:
        yield answer(question)


handler = grpc.stream_stream_rpc_method_handler(process, ext_proc.ProcessingRequest.parse, bytes)
service = grpc.method_handlers_generic_handler("envoy.service.ext_proc.v3.ExternalProcessor", {"Process": handler})
server = grpc.server(futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers([service])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
server.wait_for_termination()
