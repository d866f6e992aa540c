use super::*;
use crate::testing::{hop, open};
use wire::relay::{Done, Have, Keys};

const AMS: NodeAddr = NodeAddr(0x0a07_0001);
const LON: NodeAddr = NodeAddr(0x0a07_0003);
const PAR: NodeAddr = NodeAddr(0x0a07_0004);

fn ended(node: NodeAddr, key: &Ephemeral) -> Message<'static> {
    Message::Ended(Ended {
        node,
        key: key.public(),
        signature: [0; SIGNATURE_BYTES],
        certificate: &[],
    })
}

/// Creates a source that has its sink's key, and what the sink shares with it.
fn pair() -> (Sinks, Agreed) {
    let route = hop(LON, Some(b"data"), &[]);
    let open = open(&route, &[]);
    let (source, sink) = (Ephemeral::new([1; 32]), Ephemeral::new([2; 32]));
    let pair = Pair {
        transfer: open.transfer,
        beginner: AMS,
        end: LON,
    };
    let agreed = sink.agree(&source.public(), &pair, false).unwrap();
    let mut sinks = Sinks::of(AMS, &open, source);
    hear(&mut sinks, &ended(LON, &sink)).unwrap();
    (sinks, agreed)
}

/// Returns what a source understands of a message.
fn hear(sinks: &mut Sinks, message: &Message<'_>) -> Result<String, Untrue> {
    let mut heard = String::new();
    sinks.hear(message, |message| {
        heard = format!("{message:?}");
        Ok::<(), Untrue>(())
    })?;
    Ok(heard)
}

/// Returns a message as it is sent over control.
fn sent(message: &Message<'_>, speech: &mut Speech) -> Vec<u8> {
    let mut bytes = vec![0; 4_096];
    say(message, Some(speech), |message| {
        let len = message.emit(&mut bytes).unwrap();
        bytes.truncate(len);
        Ok(())
    })
    .unwrap();
    bytes
}

fn came(bytes: &[u8]) -> Message<'_> {
    Message::parse(bytes[0], &bytes[MESSAGE_HEAD_BYTES..]).unwrap()
}

#[test]
fn a_sink_is_believed_and_nobody_who_speaks_for_it() {
    let have = Message::Have(LON, Have::default());
    let done = Done {
        bytes: 1,
        entries: 1,
        digest: [9; 32],
    };
    let done = Message::Done(LON, done);
    let keys = [0; 8];
    let kept = Message::Kept(LON, Keys::parse(&keys).unwrap());
    let (mut sinks, agreed) = pair();
    let (mut speech, _) = agreed.speech();
    let said = [kept, have, done].map(|message| sent(&message, &mut speech));
    for (bytes, message) in said.iter().zip([kept, have, done]) {
        assert!(
            !bytes.windows(32).any(|window| window == [9; 32]),
            "a digest"
        );
        assert_eq!(
            hear(&mut sinks, &came(bytes)).unwrap(),
            format!("{message:?}")
        );
    }
    assert_eq!(is_done(&came(&said[2])), Some(LON));
    assert_eq!(is_done(&came(&said[1])), None);
    let is_refused = |message: &Message<'_>| hear(&mut pair().0, message).is_err();
    // Messages that are not encrypted, out of order, changed, in the name of another node, or from a node that is no
    // end.
    for message in [kept, have, done, came(&said[1])] {
        assert!(is_refused(&message), "{message:?}");
    }
    assert!(!is_refused(&came(&said[0])));
    for at in MESSAGE_HEAD_BYTES..said[0].len() {
        let mut changed = said[0].clone();
        changed[at] ^= 1;
        assert!(is_refused(&came(&changed)), "byte {at}");
    }
    assert!(is_refused(&Message::Ack(PAR, 0)));
    assert!(!is_refused(&Message::Ack(LON, 0)));
    assert!(is_refused(&ended(PAR, &Ephemeral::new([3; 32]))), "no end");
    assert!(is_refused(&ended(LON, &Ephemeral::new([3; 32]))), "twice");
}

#[test]
fn a_sink_opens_what_its_source_has_sealed() {
    let (sinks, agreed) = pair();
    let key = StreamKey::new([5; 32]);
    let wrapped = sinks.wrap(&key);
    let message = Message::Wrapped(WrappedKeys::parse(&wrapped).unwrap());
    let secrets = |node, agreed| Secrets {
        here: node,
        awaited: None,
        agreed: Some(agreed),
        is_sealed: true,
        stream: None,
    };
    let mut other = secrets(PAR, pair().1);
    assert!(other.hear(&message).is_err(), "it is for another");
    let mut sink = secrets(LON, agreed);
    sink.hear(&message).unwrap();
    let (inbound, transfer) = (Inbound::new(sink), Transfer::new(1));
    let mut frame = vec![1; 100 + inbound.overhead()];
    key.seal(300, &mut frame);
    let mut elsewhere = frame.clone();
    let opened = inbound.open(300, &mut frame, &transfer).unwrap();
    assert!(opened.is_some() && frame[..100] == [1; 100]);
    let opened = inbound.open(301, &mut elsewhere, &transfer).unwrap();
    assert!(opened.is_none());
}

/// Present sinks are asked, answer with encryption, and are refused if both share no version.
#[test]
fn the_versions_of_a_sink_are_heard_from_itself_alone() {
    let versions = VersionRange { min: 1, max: 2 };
    let speaks = Message::Speaks(LON, versions);
    let (mut sinks, agreed) = pair();
    let (mut speech, _) = agreed.speech();
    let bytes = sent(&speaks, &mut speech);
    assert_eq!(bytes[0], 16, "relays see a Said, as ever");
    let heard = hear(&mut sinks, &came(&bytes)).unwrap();
    assert_eq!(heard, format!("{speaks:?}"));
    // A relay sends it in the sink's name, and repeats what the sink has sent.
    let forged = hear(&mut sinks, &speaks).unwrap_err();
    assert!(matches!(forged, Untrue::Forged(LON)), "{forged}");
    let repeated = hear(&mut sinks, &came(&bytes)).unwrap_err();
    assert!(matches!(repeated, Untrue::Forged(LON)), "{repeated}");
    // The same holds for what it would remove.
    let (mut sinks, agreed) = pair();
    let (mut speech, _) = agreed.speech();
    let gone = Message::Gone(LON, b"a/b");
    let bytes = sent(&gone, &mut speech);
    assert_eq!(bytes[0], 16);
    let heard = hear(&mut sinks, &came(&bytes)).unwrap();
    assert_eq!(heard, format!("{gone:?}"));
    let forged = hear(&mut sinks, &gone).unwrap_err();
    assert!(matches!(forged, Untrue::Forged(LON)), "{forged}");
    let none = no_version(AMS, LON, VersionRange { min: 3, max: 4 });
    let text = none.to_string();
    assert!(text.contains("speaks 3 to 4, this node 1 to 2"), "{text}");
}
