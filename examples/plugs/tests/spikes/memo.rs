//! A handler between requests and their next hop.

use hermes_example_plugs::memo::Memo;
use hermes_plug::{Handler, HandlerRequest, Handling, Plugs, Response};
use http::{HeaderName, HeaderValue};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::node::{Node, hear, say};

/// Stands between, and adds a field to each request and to each answer.
struct Stamp(&'static str);

impl Handler for Stamp {
    fn handle(&self, mut request: HandlerRequest) -> Handling<'_> {
        Box::pin(async move {
            let name = HeaderName::from_static("stamp");
            let value = HeaderValue::from_static(self.0);
            request.head.fields.append(name.clone(), value.clone());
            let onward = request.onward.unwrap();
            let content = request.content.into_incoming();
            let (mut head, content) = onward.send(request.head, content).await?;
            head.fields.append(name, value);
            Ok(Response::Stream(head, content))
        })
    }

    fn stands_between(&self) -> bool {
        true
    }
}

/// A node whose routes lead through these to an origin at this port.
fn node(through: &str, port: u16) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         policy: {{ default: allow, rules: [ {{ name: late, match: {{ fields: {{ x-late: \"1\" }} }}, deny: true }} ] }}\n\
         routes: [ {{ through: [{through}], terminate: \"127.0.0.1:{port}\" }} ]\n"
    );
    let plugs = Plugs::new()
        .handler("memo", Memo::default())
        .handler("one", Stamp("one"))
        .handler("two", Stamp("two"));
    Node::start("memo", &yaml, plugs)
}

/// Sends a request of these lines after the first.
async fn ask(node: &Node, request: &str, wanted: &str) -> String {
    let mut client = node.connect().await;
    say(&mut client, &format!("{request}\r\n\r\n")).await;
    hear(&mut client, wanted).await
}

const GET: &str = "GET http://SITE/page HTTP/1.1\r\nHost: SITE";

#[tokio::test]
async fn an_answer_is_kept_and_given_again_and_the_policy_is_asked_each_time() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node("memo", origin.local_addr().unwrap().port());
    let serve = async {
        let (mut link, _) = origin.accept().await.unwrap();
        let question = hear(&mut link, "\r\n\r\n").await;
        // Of one node, once.
        assert_eq!(question.matches("via: ").count(), 1, "{question}");
        say(
            &mut link,
            "HTTP/1.1 200 OK\r\nCache-Control: public\r\nContent-Length: 5\r\n\r\nhello",
        )
        .await;
        link
    };
    let (_link, first) = tokio::join!(serve, ask(&node, GET, "hello"));
    assert!(!first.contains("memo: kept"), "{first}");
    assert_eq!(first.matches("via: ").count(), 1, "{first}");

    let second = ask(&node, GET, "hello").await;
    assert!(second.contains("memo: kept"), "{second}");
    let denied = ask(&node, &format!("{GET}\r\nX-Late: 1"), "\r\n\r\n").await;
    assert!(denied.starts_with("HTTP/1.1 403 "), "{denied}");
    node.end().await;
}

#[tokio::test]
async fn contents_pass_both_ways_through_several_in_their_order() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node("one, two", origin.local_addr().unwrap().port());
    let serve = async {
        let (mut link, _) = origin.accept().await.unwrap();
        let question = hear(&mut link, "question").await.to_lowercase();
        let one = question.find("stamp: one").unwrap();
        assert!(one < question.find("stamp: two").unwrap(), "{question}");
        say(
            &mut link,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nanswer\r\n0\r\n\r\n",
        )
        .await;
        link
    };
    let post = "POST http://SITE/ HTTP/1.1\r\nHost: SITE\r\nContent-Length: 8\r\n\r\nquestion";
    let mut client = node.connect().await;
    say(&mut client, post).await;
    let (_link, answer) = tokio::join!(serve, hear(&mut client, "answer\r\n0\r\n\r\n"));
    let answer = answer.to_lowercase();
    assert!(
        answer.find("stamp: two").unwrap() < answer.find("stamp: one").unwrap(),
        "{answer}"
    );
    node.end().await;
}

#[tokio::test]
async fn a_failure_on_the_way_is_an_answer_and_tunnels_pass_by() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = origin.local_addr().unwrap().port();
    let node = node("memo", port);
    let tunnel = async {
        let mut client = node.connect().await;
        say(
            &mut client,
            "CONNECT SITE:80 HTTP/1.1\r\nHost: SITE:80\r\n\r\nping",
        )
        .await;
        hear(&mut client, "\r\n\r\npong").await
    };
    let serve = async {
        let (mut link, _) = origin.accept().await.unwrap();
        let mut ping = [0; 4];
        link.read_exact(&mut ping).await.unwrap();
        say(&mut link, "pong").await;
        link
    };
    let (_, tunnelled) = tokio::join!(serve, tunnel);
    assert!(tunnelled.starts_with("HTTP/1.1 200 "), "{tunnelled}");

    drop(origin);
    let failed = ask(&node, GET, "\r\n\r\n").await;
    assert!(failed.starts_with("HTTP/1.1 502 "), "{failed}");
    assert!(failed.to_lowercase().contains("proxy-status: "), "{failed}");
    node.end().await;
}

#[tokio::test]
async fn a_handler_that_answers_by_itself_does_not_stand_between() {
    struct Own;
    impl Handler for Own {
        fn handle(&self, _: HandlerRequest) -> Handling<'_> {
            Box::pin(std::future::pending())
        }
    }
    let yaml = |route: &str| {
        format!("listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {route} ]\n")
    };
    let plugs = Plugs::new().handler("own", Own);
    let node = Node::start("memo", &yaml("{ handle: own }"), plugs);
    let refused = node.refused("memo", &yaml("{ through: [own], terminate: true }"));
    assert!(refused.contains("routes[0].through[0]"), "{refused}");
    assert!(
        refused.contains("the handler `own` answers by itself"),
        "{refused}"
    );
    assert!(refused.contains("handle: own"), "{refused}");
    node.end().await;
}
