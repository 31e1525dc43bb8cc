//! gRPC: its four kinds of calls, and a first message that comes late, by the official Python library.

use std::net::SocketAddr;
use std::process::Command;

use crate::four::Four;
use crate::late::Server;

/// A service whose messages are bytes, so that nothing has to be generated.
const SERVICE: &str = "
import concurrent.futures, grpc, time
def count(request, context):
    for number in range(int(request)):
        yield str(number).encode()
def total(requests, context):
    context.set_trailing_metadata([('x-total', 'told')])
    return str(sum(int(request) for request in requests)).encode()
def echo(requests, context):
    for request in requests:
        yield request
def late(request, context):
    # Until then not even the head is sent.
    time.sleep(float(request))
    yield b'at last'
def fail(request, context):
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, 'not today')
methods = {
    'Count': grpc.unary_stream_rpc_method_handler(count),
    'Total': grpc.stream_unary_rpc_method_handler(total),
    'Echo': grpc.stream_stream_rpc_method_handler(echo),
    'Late': grpc.unary_stream_rpc_method_handler(late),
    'Fail': grpc.unary_unary_rpc_method_handler(fail),
}
server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('test.Service', methods)])
print(server.add_insecure_port('127.0.0.1:0'), flush=True)
server.start()
server.wait_for_termination()
";

/// Calls every method; fails where an answer is not what it should be.
const CALLS: &str = "
import grpc, queue, sys
channel = grpc.insecure_channel(sys.argv[1], options=[('grpc.default_authority', 'GRPC'), ('grpc.enable_http_proxy', 0)])
path = '/test.Service/'
counted = list(channel.unary_stream(path + 'Count')(b'1000', timeout=30))
assert counted == [str(number).encode() for number in range(1000)], counted[:3]
answer, call = channel.stream_unary(path + 'Total').with_call((str(number).encode() for number in range(1000)), timeout=30)
assert answer == b'499500', answer
assert ('x-total', 'told') in [tuple(pair) for pair in call.trailing_metadata()], call.trailing_metadata()
asked = queue.Queue()
replies = channel.stream_stream(path + 'Echo')(iter(asked.get, None), timeout=30)
for number in range(100):
    # Each is sent after the one before has come back.
    asked.put(b'%d' % number * 1000)
    assert next(replies) == b'%d' % number * 1000, number
asked.put(None)
assert list(replies) == []
try:
    channel.unary_unary(path + 'Fail')(b'', timeout=30)
    sys.exit('no failure')
except grpc.RpcError as error:
    assert (error.code(), error.details()) == (grpc.StatusCode.FAILED_PRECONDITION, 'not today'), error
late = channel.unary_stream(path + 'Late')(sys.argv[2].encode(), timeout=60)
assert list(late) == [b'at last'], late
print('all calls')
";

fn calls(version: u8, server: SocketAddr, late: &str) {
    let four = Four::start(version, server, "http: 2");
    let python =
        std::env::var("HERMES_PYTHON").expect("HERMES_PYTHON names Python: ./test real sets it");
    let address = four.entry().address("site").to_string();
    let ended = Command::new(python)
        .args(["-c", CALLS, &address, late])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(
        said,
        "all calls\n",
        "{version}: {}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

#[test]
fn every_kind_of_call_passes_four_nodes_over_http2_and_http3() {
    let server = Server::python(SERVICE);
    let address = server.address;
    std::thread::scope(|scope| {
        // Once 10 s would have been too late.
        for version in [2, 3] {
            scope.spawn(move || calls(version, address, "11"));
        }
    });
}
