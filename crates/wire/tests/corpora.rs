//! Checks that the stored fuzz inputs match their names. If a format changes, they must change, too; otherwise their
//! mutations only reach the first check.

use wire::control::{Message, Messages};
use wire::data::Header;
use wire::handshake::kem::Piece;
use wire::handshake::{Cookie, Finish, Init, Response};
use wire::ipc::{Reply, Request};
use wire::link::Clear;
use wire::link_state::LinkState;
use wire::transport::{Fragment, Segment};
use wire::{Malformed, echo::Echo};

macro_rules! input {
    ($path:literal) => {
        include_bytes!(concat!("../../../fuzz/corpus/wire_", $path)).as_slice()
    };
}

fn control(bytes: &[u8]) -> Result<Vec<Message<'_>>, Malformed> {
    Messages::new(bytes).collect()
}

#[test]
fn each_input_is_understood() {
    let understood = [
        Clear::parse(input!("link/control")).map(drop),
        Clear::parse(input!("link/data")).map(drop),
        Init::parse(input!("handshake/init")).map(drop),
        Response::parse(input!("handshake/response")).map(drop),
        Finish::parse(input!("handshake/finish")).map(drop),
        Cookie::parse(input!("handshake/cookie")).map(drop),
        Piece::parse(input!("handshake/kem-key")).map(drop),
        Piece::parse(input!("handshake/kem-ciphertext")).map(drop),
        Header::parse(input!("data/voice")).map(drop),
        Header::parse(input!("data/no-payload")).map(drop),
        Header::parse(input!("data/stamped")).map(drop),
        Header::parse(input!("data/fragment")).map(drop),
        LinkState::parse(input!("link_state/two-links-two-options")).map(drop),
        LinkState::parse(input!("link_state/no-links")).map(drop),
        Echo::parse(input!("echo/reply")).map(drop),
        Echo::parse(input!("echo/request-with-filler")).map(drop),
        Fragment::parse(input!("transport/fragment")).map(drop),
        Segment::parse(input!("transport/segment-two-ranges")).map(drop),
        Segment::parse(input!("transport/reset")).map(drop),
        Segment::parse(input!("transport/syn-messages")).map(drop),
        Request::parse(input!("ipc_request/hello")).map(drop),
        Request::parse(input!("ipc_request/bind")).map(drop),
        Request::parse(input!("ipc_request/options")).map(drop),
        Request::parse(input!("ipc_request/send-to")).map(drop),
        Request::parse(input!("ipc_request/connect")).map(drop),
        Request::parse(input!("ipc_request/raw")).map(drop),
        Request::parse(input!("ipc_request/listen")).map(drop),
        Request::parse(input!("ipc_request/connect-stream")).map(drop),
        Request::parse(input!("ipc_request/reset")).map(drop),
        Request::parse(input!("ipc_request/bind-range")).map(drop),
        Request::parse(input!("ipc_request/send-from")).map(drop),
        Reply::parse(input!("ipc_reply/welcome")).map(drop),
        Reply::parse(input!("ipc_reply/bound")).map(drop),
        Reply::parse(input!("ipc_reply/error")).map(drop),
        Reply::parse(input!("ipc_reply/datagram")).map(drop),
        Reply::parse(input!("ipc_reply/dropped")).map(drop),
        Reply::parse(input!("ipc_reply/done")).map(drop),
        Reply::parse(input!("ipc_reply/connected")).map(drop),
        Reply::parse(input!("ipc_reply/incoming")).map(drop),
        Reply::parse(input!("ipc_reply/finished")).map(drop),
        Reply::parse(input!("ipc_reply/reset")).map(drop),
        Reply::parse(input!("ipc_reply/datagrams")).map(drop),
        Header::parse(input!("data/recovered")).map(drop),
        Request::parse(input!("ipc_request/finish")).map(drop),
        Reply::parse(input!("ipc_reply/room")).map(drop),
    ];
    assert_eq!(understood, [Ok(()); 45]);
}

#[test]
fn control_inputs_hold_every_message() {
    let all = control(input!("control/hello-nack-probe-unknown"));
    let [
        Message::Hello(_),
        Message::Nack(_),
        Message::TailProbe(_),
        Message::Unknown { .. },
    ] = all.as_deref().expect("it is understood")
    else {
        panic!("other messages: {all:?}");
    };
    let all = control(input!("control/records-and-acks"));
    let [Message::Records(_), Message::RecordAck(_)] = all.as_deref().expect("it is understood")
    else {
        panic!("other messages: {all:?}");
    };
    let all = control(input!("control/reliable"));
    let [Message::ReliableAck(_), Message::ReliableSkip(_)] =
        all.as_deref().expect("it is understood")
    else {
        panic!("other messages: {all:?}");
    };
    let all = control(input!("control/mtu"));
    let [Message::MtuProbe(_), Message::MtuAnswer(_)] = all.as_deref().expect("it is understood")
    else {
        panic!("other messages: {all:?}");
    };
    let all = control(input!("control/link-doubt"));
    assert!(
        matches!(all.as_deref(), Ok([Message::LinkDoubt(_)])),
        "{all:?}"
    );
    let all = control(input!("control/seen-at"));
    assert!(
        matches!(all.as_deref(), Ok([Message::SeenAt(_)])),
        "{all:?}"
    );
    let all = control(input!("control/stream-seen-at"));
    assert!(
        matches!(all.as_deref(), Ok([Message::StreamSeenAt(_)])),
        "{all:?}"
    );
    let all = control(input!("control/clock-offset"));
    assert!(
        matches!(all.as_deref(), Ok([Message::ClockOffset(_)])),
        "{all:?}"
    );
    let all = control(input!("control/flow-aims"));
    assert!(
        matches!(all.as_deref(), Ok([Message::FlowAims(_)])),
        "{all:?}"
    );
    let all = control(input!("control/repair"));
    let Ok(
        [
            Message::Repair(_),
            Message::Repair(whole),
            Message::LaneReport(_),
        ],
    ) = all.as_deref()
    else {
        panic!("other messages: {all:?}");
    };
    assert_eq!(whole.members, 0b111);
    let critical = input!("control/critical");
    assert_eq!(control(critical), Err(Malformed::Critical));
    let rest = control(&critical[3..]);
    assert!(
        matches!(rest.as_deref(), Ok([Message::Hello(_)])),
        "{rest:?}"
    );
}
