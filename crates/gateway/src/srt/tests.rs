//! The callers that are let in, and the events that are reported.

use super::routes::Input;
use super::*;
use crate::video::Place;
use base::NodeAddr;
use client::Target;

/// Returns a gateway with streams that are called as given, without its threads.
fn gateway(connections: usize, inputs: &[&str], outputs: &[&str]) -> Shared {
    gateway_with(connections, inputs, outputs, Box::new(drop))
}

fn gateway_with(connections: usize, inputs: &[&str], outputs: &[&str], tell: Tell) -> Shared {
    let target = Target::new(NodeAddr(0x0a07_0001), 5);
    let inputs = inputs.iter().map(|name| Input {
        name: Some((*name).to_owned()),
        target,
    });
    let outputs = outputs.iter().map(|name| routes::Output {
        name: Some((*name).to_owned()),
        place: Place::Port(5),
    });
    let settings = Settings {
        listen: Vec::new(),
        call: Vec::new(),
        routes: Routes {
            inputs: inputs.collect(),
            outputs: outputs.collect(),
        },
        srt: srt::Options::default(),
        overlay: client::Options::best_effort(),
        connections,
    };
    Shared::new(&settings, tell).unwrap()
}

fn decided(gateway: &Shared, id: &str) -> Result<Direction, Refusal> {
    gateway.admit(id).map(|route| route.direction)
}

#[test]
fn viewers_do_not_take_the_place_of_an_encoder() {
    let gateway = gateway(3, &["s", "t"], &["s"]);
    let (send, receive) = ("#!::r=s,m=publish", "#!::r=s,m=request");
    assert_eq!(decided(&gateway, receive), Ok(Direction::Out));
    gateway.receiving.store(1, Ordering::Release);
    assert_eq!(decided(&gateway, receive), Err(Refusal::Overload));
    assert_eq!(decided(&gateway, send), Ok(Direction::In));
    gateway.senders[0].store(true, Ordering::Release);
    assert_eq!(decided(&gateway, send), Err(Refusal::Conflict));
    assert_eq!(decided(&gateway, "t"), Ok(Direction::In));
    // A malformed request is called malformed, even if there is no place.
    assert_eq!(decided(&gateway, "#!::s"), Err(Refusal::BadRequest));
}

#[test]
fn encoders_have_as_many_connections_as_may_be() {
    let gateway = gateway(1, &["s", "t"], &[]);
    gateway.senders[0].store(true, Ordering::Release);
    assert_eq!(decided(&gateway, "t"), Err(Refusal::Overload));
}

#[test]
fn a_node_that_stops_and_returns_is_told_once_each() {
    let (told, heard) = std::sync::mpsc::channel();
    let told = Mutex::new(told);
    let tell: Tell = Box::new(move |event| {
        let _ = told.lock().unwrap().send(event.label());
    });
    let gateway = gateway_with(3, &["s"], &["s"], tell);
    for _ in 0..2 {
        for end in [OUTLET, OUTLET + 1] {
            let farewell = client::Error::Refused {
                code: client::ErrorCode::Stopping,
                text: "the node is stopping".to_owned(),
            };
            gateway.tell_away(end, farewell);
            gateway.tell_away(end, client::Error::Closed);
        }
        for end in [OUTLET, OUTLET + 1] {
            gateway.tell_back(end);
        }
        let events: Vec<_> = heard.try_iter().collect();
        assert_eq!(events, ["node_away", "node_back"]);
    }
    // Other refusals are told, and the node is there.
    let refusal = client::Error::Refused {
        code: client::ErrorCode::Forbidden,
        text: "not this group".to_owned(),
    };
    gateway.tell_away(OUTLET, refusal);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["node_away"]);
}
