//! Exchanges of clocks that get no answer, on every system.

mod common;

use common::{Agent, Event, frame};
use ullage_clock::rgap::{Body, LENGTH, Message, Server, Standing, Token};

const BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

#[test]
fn strangers_and_garbage_get_no_time() {
    let mut agent = Agent::serve();
    let request = |token| Message {
        token: Token(token),
        sequence: 1,
        t1: 2,
        body: Body::Request,
    };
    // Before hello there is no token.
    agent.send_bytes(&frame(4, &request(BYTES).encode()));
    agent.hello();
    agent.send_bytes(&frame(4, &request([7; 16]).encode()));
    agent.send_bytes(&frame(4, b""));
    agent.send_bytes(&frame(4, &[0xA1; LENGTH]));
    let answer = Server::new(Token(BYTES)).receive(&request(BYTES).encode(), 3);
    let answer = answer.expect("a request").answer(4, Standing::ROOT);
    agent.send_bytes(&frame(4, &answer));
    agent.send_bytes(&frame(4, &[0; LENGTH + 1]));
    assert_eq!(agent.code(), "too-long", "and nothing before it");
    agent.send_bytes(&frame(4, &request(BYTES).encode()));
    let Event::Clock(bytes) = agent.next() else {
        panic!("an answer is wanted")
    };
    let message = Message::parse(&bytes).expect("a message");
    assert_eq!((message.sequence, message.t1), (1, 2));
    let Body::Response { t2, t3, .. } = message.body else {
        panic!("{message:?}")
    };
    assert!(t2 < t3);
}
