//! External authorisation over gRPC: the server is the official Python library, with messages that it makes of Envoy's field numbers.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use hermes_tests::{Node, curl};
use serde_json::json;

/// A server that decides by `token`: roles, a refusal, and all the ways in which a server can be wrong.
const SERVER: &str = r#"
import concurrent.futures, grpc, time
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields
TYPES = {
    'CheckRequest': [('attributes', 1, '.t.Context')],
    'Context': [('source', 1, '.t.Peer'), ('destination', 2, '.t.Peer'), ('request', 4, '.t.Request'), ('extensions', 10, '.t.Entry*')],
    'Peer': [('address', 1, '.t.Address'), ('principal', 4, 'string')],
    'Address': [('socket', 1, '.t.Socket')],
    'Socket': [('address', 2, 'string'), ('port', 3, 'uint32')],
    'Request': [('time', 1, '.t.Time'), ('http', 2, '.t.Http')],
    'Time': [('seconds', 1, 'int64'), ('nanos', 2, 'int32')],
    'Http': [('method', 2, 'string'), ('headers', 3, '.t.Entry*'), ('path', 4, 'string'), ('host', 5, 'string'),
             ('scheme', 6, 'string'), ('protocol', 10, 'string')],
    'Entry': [('key', 1, 'string'), ('value', 2, 'string')],
    'CheckResponse': [('status', 1, '.t.Status'), ('denied', 2, '.t.Denied'), ('ok', 3, '.t.Ok')],
    'Status': [('code', 1, 'int32'), ('message', 2, 'string')],
    'Code': [('code', 1, 'int32')],
    'Denied': [('status', 1, '.t.Code'), ('headers', 2, '.t.Option*'), ('body', 3, 'string')],
    'Ok': [('headers', 2, '.t.Option*'), ('remove', 5, 'string*')],
    'Option': [('header', 1, '.t.Entry')],
}
file = descriptor_pb2.FileDescriptorProto(name='t.proto', package='t', syntax='proto3')
SCALARS = {'string': 9, 'uint32': 13, 'int32': 5, 'int64': 3}
for name, fields in TYPES.items():
    message = file.message_type.add(name=name)
    for field, number, kind in fields:
        added = message.field.add(name=field, number=number, label=3 if kind.endswith('*') else 1)
        kind = kind.rstrip('*')
        if kind in SCALARS:
            added.type = SCALARS[kind]
        else:
            added.type, added.type_name = 11, kind
pool = descriptor_pool.DescriptorPool()
pool.Add(file)
kind = lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName('t.' + name))
Request, Response, Option, Entry = kind('CheckRequest'), kind('CheckResponse'), kind('Option'), kind('Entry')
def check(request, context):
    context_of = request.attributes
    http = context_of.request.http
    for message in (request, context_of, context_of.source, context_of.destination, context_of.request, context_of.request.time, http):
        assert len(unknown_fields.UnknownFieldSet(message)) == 0, message
    assert abs(context_of.request.time.seconds - time.time()) < 300, context_of.request.time
    headers = {entry.key: entry.value for entry in http.headers}
    extensions = {entry.key: entry.value for entry in context_of.extensions}
    token = headers.get('token')
    if token == 'slow':
        time.sleep(5)
    if token == 'abort':
        context.abort(grpc.StatusCode.UNAVAILABLE, 'not today')
    response = Response()
    if token == 'empty':
        return response
    if token in ('admin', 'user'):
        response.status.code = 0
        response.status.SetInParent()
        response.ok.headers.append(Option(header=Entry(key='x-secure', value=token)))
        response.ok.remove.append('token')
        return response
    response.status.code = 16
    response.denied.status.code = 401
    response.denied.headers.append(Option(header=Entry(key='x-why', value=f"{extensions['user']} {http.method} {http.path} {http.host} {context_of.source.address.socket.address}")))
    response.denied.body = 'who?'
    return response
methods = {'Check': grpc.unary_unary_rpc_method_handler(check, Request.FromString, Response.SerializeToString)}
server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('envoy.service.auth.v3.Authorization', methods)])
print(server.add_insecure_port('127.0.0.1:0'), flush=True)
server.start()
server.wait_for_termination()
"#;

struct Server {
    process: Child,
    port: String,
}

impl Server {
    fn start() -> Self {
        let python = std::env::var("HERMES_PYTHON")
            .expect("HERMES_PYTHON names Python: ./test interop sets it");
        let mut process = Command::new(python)
            .args(["-c", SERVER])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        said.read_line(&mut port).unwrap();
        Self {
            process,
            port: port.trim().to_owned(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn node(port: &str, keys: &str) -> Node {
    let yaml = format!(
        r#"
        fields: [user, x-secure]
        listeners: {{ web: {{ http: 127.0.0.1:0, user: alice }} }}
        authorize:
          - {{ name: grpc, kind: grpc, url: "http://127.0.0.1:{port}", send: [token], allow_fields: [x-secure], {keys} }}
        routes:
          - {{ match: {{ fields: {{ token: true }} }}, respond: {{ status: 200, body: token }} }}
          - {{ match: {{ fields: {{ x-secure: admin }} }}, respond: {{ status: 200, body: admin }} }}
          - {{ match: {{ fields: {{ x-secure: user }} }}, respond: {{ status: 200, body: user }} }}
          - {{ respond: {{ status: 200, body: stranger }} }}
        "#
    );
    Node::start("sap", &yaml)
}

fn ask(node: &Node, token: &str) -> curl::Output {
    let url = node.url("web");
    let token = format!("token: {token}");
    curl(&[
        "-x",
        &url,
        "-H",
        &token,
        "-H",
        "x-secure: admin",
        "http://a/b?c=d",
    ])
}

#[test]
fn a_grpc_server_gives_the_role_that_decides_the_route() {
    let server = Server::start();
    let node = node(&server.port, "timeout: 60s");
    for role in ["admin", "user"] {
        let got = ask(&node, role);
        assert_eq!((got.status, got.text().as_str()), (200, role), "{got:?}");
    }
    let record = node.record(|record| record["status"] == 200);
    assert_eq!(record["filters"], json!(["grpc allowed: OK"]));

    let got = ask(&node, "none");
    assert_eq!((got.status, got.text().as_str()), (401, "who?"), "{got:?}");
    let why = got.field("x-why");
    assert_eq!(why.as_deref(), Some("alice GET /b?c=d a 127.0.0.1"));
}

#[test]
fn a_grpc_server_that_is_wrong_slow_or_gone_opens_nothing() {
    let server = Server::start();
    let patient = node(&server.port, "timeout: 60s");
    for token in ["abort", "empty"] {
        assert_eq!(ask(&patient, token).status, 503, "{token}");
    }
    let hasty = node(&server.port, "timeout: 100ms");
    assert_eq!(ask(&hasty, "slow").status, 503);

    // What a client can bring about never opens; a server that is gone may.
    let open = node(&server.port, "timeout: 60s, fail: open");
    assert_eq!(ask(&open, "empty").status, 503);
    drop(server);
    assert_eq!(ask(&patient, "admin").status, 503);
    let got = ask(&open, "admin");
    assert_eq!((got.status, got.text().as_str()), (200, "token"), "{got:?}");
}
