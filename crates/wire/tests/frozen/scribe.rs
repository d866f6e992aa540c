//! Pastry rings and Scribe trees.

use super::{A, B, GROUP, open, written};
use base::NodeAddr;
use wire::scribe::{Addresses, BeatFlags, Digest, Enter, Hops, Message, Refusal};

#[test]
fn messages() {
    let mut fixtures = open!("scribe");
    let last = NodeAddr(GROUP.0 + 1);
    let (nodes, groups) = ([A, B], [GROUP, last]);
    let (nodes, groups) = (Addresses::new(&nodes), Addresses::new(&groups));
    let digest = Digest {
        first: NodeAddr(0xe000_0000),
        last: NodeAddr(0xffff_ffff),
        count: 258,
        digest: 0x0102_0304_0506_0708,
    };
    let hops = Hops {
        count: 2,
        another_way: true,
    };
    let enter = Enter {
        joiner: A,
        nonce: 7,
        hops,
    };
    let flags = BeatFlags {
        answer_me: true,
        an_answer: false,
        entering: true,
    };
    let refuse = |reason, instead| Message::Refuse {
        reason,
        instead,
        groups,
    };
    let messages = [
        ("enter", Message::Enter(enter)),
        (
            "state",
            Message::State {
                nonce: 7,
                last: true,
                nodes,
            },
        ),
        ("beat", Message::Beat { flags, nodes }),
        ("ask-row", Message::AskRow { row: 31 }),
        ("join", Message::Join(groups)),
        ("accept", Message::Accept(groups)),
        ("refuse-full", refuse(Refusal::Full, Some(B))),
        ("refuse-order", refuse(Refusal::Order, None)),
        ("refuse-not-a-group", refuse(Refusal::NotAGroup, None)),
        ("refuse-capacity", refuse(Refusal::Capacity, None)),
        ("leave", Message::Leave(groups)),
        ("keep", Message::Keep(digest)),
        ("kept", Message::Kept(digest)),
        ("differs", Message::Differs { first: GROUP, last }),
        (
            "groups",
            Message::Groups {
                first: GROUP,
                last,
                groups,
            },
        ),
        (
            "locate",
            Message::Locate {
                asker: A,
                hops,
                groups,
            },
        ),
        ("root", Message::Root(groups)),
    ];
    for (name, message) in messages {
        let bytes = written(|bytes| message.emit(bytes));
        fixtures.hold(name, &bytes, |frozen| {
            let read = Message::parse(frozen).unwrap();
            // Received addresses have another form than sent ones, so the test compares their content.
            assert_eq!(format!("{read:?}"), format!("{message:?}"));
            assert_eq!(written(|bytes| read.emit(bytes)), frozen);
        });
    }
    fixtures.end();
}
