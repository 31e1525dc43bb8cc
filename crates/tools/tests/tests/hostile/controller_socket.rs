//! The socket of a controller's operators: slow requests and answers that no one reads keep no other request out.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use hermes_tests::overlay::Hub;

/// More than requests were taken at once before there were turns.
const SLOW: usize = 40;

#[test]
fn slow_requests_of_a_user_keep_no_command_waiting() {
    let hub = Hub::start();
    let socket = format!("{}/controller.sock", hub.state());
    let begun = |text: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let heads: Vec<_> = (0..SLOW)
        .map(|_| begun("POST /apply HTTP/1.1\r\n"))
        .collect();
    let slow = "POST /apply HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n{";
    let bodies: Vec<_> = (0..SLOW).map(|_| begun(slow)).collect();
    let long = format!(
        "POST /apply HTTP/1.1\r\nhost: x\r\ncontent-length: 60000000\r\n\r\n{}",
        " ".repeat(100_000)
    );
    let long: Vec<_> = (0..4).map(|_| begun(&long)).collect();
    let unread: Vec<_> = (0..SLOW)
        .map(|_| begun("GET /audit HTTP/1.1\r\nhost: x\r\n\r\n"))
        .collect();

    let began = Instant::now();
    assert!(hub.ask(&["nodes"]).is_some());
    let took = began.elapsed();
    println!(
        "a command took {took:?} beside {} requests that stand still",
        3 * SLOW + 4
    );
    assert!(took < Duration::from_secs(5), "{took:?}");

    // Those that stood still are ended.
    for mut stream in bodies.into_iter().take(1).chain(heads.into_iter().take(1)) {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
    }
    drop((long, unread));
}

/// Resources of one kind that a hostile file has.
const RESOURCES: usize = 8_000;

#[test]
fn a_file_of_mistakes_without_end_is_refused_while_other_commands_are_answered() {
    let hub = Hub::start();
    let mut text = String::new();
    for number in 0..RESOURCES {
        text += &format!(
            "---\napiVersion: hermes/v1\nkind: Service\nmetadata: {{ name: service-{number} }}\nspec: {{ at: [{{ node: nowhere-{number}, address: '127.0.0.1:1' }}] }}\n\
             ---\napiVersion: hermes/v1\nkind: Name\nmetadata: {{ name: name-{number} }}\nspec: {{ name: NAME-{number}, service: servise-{number} }}\n"
        );
    }
    let began = Instant::now();
    let mut applying = hub.begin_apply(&text, &[]);
    let (mut slowest, mut asked) = (Duration::ZERO, 0);
    let code = loop {
        let each = Instant::now();
        assert!(hub.ask(&["nodes"]).is_some());
        slowest = slowest.max(each.elapsed());
        asked += 1;
        if let Some(ended) = applying.try_wait().unwrap() {
            break ended.code();
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it is not refused"
        );
    };
    println!(
        "{} mistakes were refused after {:?}; the slowest of {asked} commands beside took {slowest:?}",
        2 * RESOURCES,
        began.elapsed()
    );
    assert_eq!(code, Some(2));
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}
