//! Fuzz targets of `wire`: every decoder. A decoded value is written and decoded again.

use wire::control::{
    Builder, Hello, Message, Messages, MtuAnswer, REPAIR_FRONT_BYTES, Repair, TailProbe, kind,
};
use wire::groups::{self, Groups, Setting, Ways};
use wire::handshake::{self, kem};
use wire::ipc::{Reply, Request};
use wire::link_state::{self, LinkState};
use wire::record::RecordKind;
use wire::relay::{self, entry};
use wire::stamp::Stamp;
use wire::transport::{EndRepair, Fragment, GroupKey, Kind, Range, Segment, Tally, group_copy};
use wire::{HEADER_BYTES, data, echo, exit, link, mapping, remote, scribe, tunnel};

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    ("wire_link", clear_header),
    ("wire_handshake", handshake_message),
    ("wire_data", overlay_header),
    ("wire_stamp", stamp),
    ("wire_transport", transport),
    ("wire_control", control),
    ("wire_link_state", link_state_body),
    ("wire_groups", groups_body),
    ("wire_echo", echo_packet),
    ("wire_ipc_request", ipc_request),
    ("wire_ipc_reply", ipc_reply),
    ("wire_remote", remote_frame),
    ("wire_remote_way", remote_way),
    ("wire_exit", exit_ask),
    ("wire_scribe", scribe_message),
    ("wire_relay_message", relay_message),
    ("wire_relay_item", relay_item),
    ("wire_relay_frame", relay_frame),
    ("wire_tunnel", tunnel_records),
    ("wire_mapping", router_answer),
    ("wire_mapping_upnp", upnp_answer),
];

fn clear_header(data: &[u8]) {
    if let Ok(clear) = link::Clear::parse(data) {
        assert_eq!(clear.to_bytes(), data[..link::CLEAR_BYTES]);
    }
}

/// Each message of a handshake is of one kind, and its fields are its content.
fn handshake_message(data: &[u8]) {
    let mut of_kinds = 0;
    if let Ok(init) = handshake::Init::parse(data) {
        assert_eq!(init.to_bytes(), data);
        of_kinds += 1;
    }
    if let Ok(response) = handshake::Response::parse(data) {
        let header = response.header();
        assert_eq!(header, data[..header.len()]);
        let of_header = handshake::Response::of_header(&header);
        assert_eq!(of_header, Ok((response.sender, response.version)));
        of_kinds += 1;
    }
    if let Ok(finish) = handshake::Finish::parse(data) {
        assert_eq!(finish.header(), data[..finish.header().len()]);
        of_kinds += 1;
    }
    if let Ok(cookie) = handshake::Cookie::parse(data) {
        let front = data.len() - handshake::MAC_BYTES;
        assert_eq!(cookie.to_bytes()[..front], data[..front]);
        of_kinds += 1;
    }
    if let Ok(piece) = kem::Piece::parse(data) {
        let header = kem::Piece::header(piece.of, piece.receiver, piece.number);
        assert_eq!([&header[..], piece.sealed].concat(), data);
        of_kinds += 1;
    }
    assert!(of_kinds <= 1);
}

/// The changes of a hop stay in their fields, and headers, extension and payload are the whole packet.
fn overlay_header(data: &[u8]) {
    let Ok(header) = data::Header::parse(data) else {
        return;
    };
    let extension = header.extension().map_or(0, |stamp| 2 + stamp.len());
    assert_eq!(
        HEADER_BYTES + extension + header.payload().len(),
        data.len()
    );

    let mut packet = data.to_vec();
    packet[..HEADER_BYTES].fill(0xa5);
    header
        .repr()
        .emit(&mut packet)
        .expect("the packet has room for its own header");
    assert_eq!(packet, data);

    let mut hop = data::Header::parse(&mut packet).expect("equal bytes were understood");
    hop.set_ttl(hop.ttl().wrapping_sub(1));
    hop.set_lane_seq(hop.lane_seq().plus(1));
    hop.set_remaining(data::Remaining::ZERO);
    assert_eq!(hop.flow_seq(), header.flow_seq());
    assert_eq!(hop.payload(), header.payload());
}

/// Transport headers are written with the same bytes, and the rest follows them.
fn transport(data: &[u8]) {
    let mut written = vec![0xa5; data.len()];
    match Kind::of(data) {
        Ok(Kind::Fragment) => {
            let Ok((fragment, bytes)) = Fragment::parse(data) else {
                return;
            };
            assert!(usize::from(fragment.offset) + bytes.len() <= fragment.total.into());
            fragment.emit(&mut written).expect("equal room");
            let header = data.len() - bytes.len();
            assert_eq!(written[..header], data[..header]);
        }
        Ok(Kind::Segment) => {
            let Ok(parsed) = Segment::parse(data) else {
                return;
            };
            let ranges: Vec<Range> = parsed.ranges().collect();
            let len = parsed
                .segment
                .emit(&ranges, &mut written)
                .expect("equal room");
            assert_eq!(written[..len], data[..len]);
            assert_eq!(parsed.bytes, &data[len..]);
        }
        Ok(Kind::Tally) => {
            let Ok(tally) = Tally::parse(data) else {
                return;
            };
            let len = match tally {
                Tally::Asked {
                    number,
                    session,
                    first,
                    counts,
                } => {
                    let lengths: Vec<u16> = counts.iter().collect();
                    Tally::ask((number, session, first), &lengths, &mut written)
                }
                Tally::Told { number, counts } => {
                    let opened: Vec<u16> = counts.iter().collect();
                    Tally::tell(number, &opened, &mut written)
                }
                Tally::AskedOfKey {
                    number,
                    name,
                    first,
                    counts,
                } => {
                    let lengths: Vec<u16> = counts.iter().collect();
                    Tally::ask_of_key((number, name, first), &lengths, &mut written)
                }
                Tally::ToldOfKey { number, counts } => {
                    let opened: Vec<u16> = counts.iter().collect();
                    Tally::tell_of_key(number, &opened, &mut written)
                }
            };
            assert_eq!(written[..len.expect("equal room")], *data);
        }
        Ok(Kind::GroupKey) => {
            if let Ok(message) = GroupKey::parse(data) {
                let len = message.emit(&mut written).expect("equal room");
                assert_eq!(written[..len], *data);
            }
        }
        Ok(Kind::GroupCopy) => {
            if let Ok(packet) = group_copy(data) {
                let header = data::Header::parse(packet).expect("it has been checked");
                assert!(header.destination().is_multicast());
                assert_eq!(packet, &data[1..]);
            }
        }
        Ok(Kind::EndRepair) => {
            let len = match EndRepair::parse(data) {
                Ok(EndRepair::Ask {
                    session,
                    first,
                    named,
                }) => EndRepair::ask(session, (first, named), &mut written),
                Ok(EndRepair::Report(report)) => report.emit(&mut written),
                Ok(EndRepair::Repair { session, repair }) => {
                    let front = EndRepair::begin_repair(session, &mut written).expect("equal room");
                    let Repair {
                        newest,
                        seed,
                        members,
                        ages,
                        sum,
                    } = repair;
                    let body = &mut written[front..];
                    let len = Repair::emit_front(newest, seed, members, ages, body);
                    let len = len.expect("equal room");
                    body[len..len + sum.len()].copy_from_slice(sum);
                    Ok(front + len + sum.len())
                }
                Err(_) => return,
            };
            assert_eq!(written[..len.expect("equal room")], *data);
        }
        // These are the kinds of `link`, for the two ends.
        Ok(Kind::End(kind)) => assert_eq!(data.first(), Some(&kind.byte())),
        Err(_) => {}
    }
}

/// A stamp is encoded with the same bytes, has no cycle, and its reverse is a stamp.
fn stamp(data: &[u8]) {
    let Ok(stamp) = Stamp::parse(data) else {
        return;
    };
    let mut again = vec![0xa5; data.len()];
    assert_eq!(stamp.emit(&mut again), Some(data.len()));
    assert_eq!(again, data);
    assert_eq!(stamp.emit_reversed(&mut again), Some(data.len()));
    let back = Stamp::parse(&again).expect("the way back is a stamp");
    if let (Stamp::Subgraph(there), Stamp::Subgraph(back)) = (stamp, back) {
        let nodes: Vec<_> = there.nodes().collect();
        for (from, to) in there.links() {
            let place = |node| nodes.iter().position(|n| *n == node);
            assert!(place(from) < place(to) && back.has_link(to, from));
            assert!(there.next(from).any(|next| next == to));
        }
    }
}

/// After an error no message follows. Messages are encoded with the same content.
fn control(data: &[u8]) {
    let mut failed = false;
    for message in Messages::new(data) {
        assert!(!failed, "a message after an error");
        match message {
            Ok(message) => message_again(&message, data.len()),
            Err(_) => failed = true,
        }
    }
}

fn message_again(message: &Message<'_>, room: usize) {
    let mut buffer = vec![0xa5; room];
    let mut builder = Builder::new(&mut buffer);
    let written = match message {
        Message::Hello(hello) => {
            assert_eq!(Hello::parse(&hello.to_bytes()), Ok(*hello));
            builder.hello(hello)
        }
        Message::TailProbe(probe) => {
            assert_eq!(TailProbe::parse(&probe.to_bytes()), Ok(*probe));
            builder.tail_probe(*probe)
        }
        Message::Nack(nack) => {
            assert_eq!(nack.missing().count(), nack.count());
            // Ranges may come in any order; one number alone is always in order.
            let first = nack.missing().next().map(|seq| u64::from(seq.value()));
            builder
                .nack(nack.strike, first.as_slice())
                .map(|named| assert_eq!(named, 1))
        }
        Message::Records(records) => records.iter().try_for_each(|record| {
            if record.kind == RecordKind::LINK_STATE {
                link_state_body(record.body);
            }
            builder.record(&record)
        }),
        Message::RecordAck(acks) => acks.iter().try_for_each(|key| builder.record_ack(key)),
        Message::ReliableAck(ack) => builder
            .reliable_ack(&ack.head, ack.ranges())
            .map(|told| assert_eq!(told, ack.received().count())),
        Message::ReliableSkip(skip) => builder.reliable_skip(*skip),
        Message::ReliableRate(rate) => builder.reliable_rate(*rate),
        Message::MtuProbe(probe) => builder.mtu_probe(*probe),
        Message::MtuAnswer(answer) => {
            assert_eq!(MtuAnswer::parse(&answer.to_bytes()), Ok(*answer));
            builder.mtu_answer(*answer)
        }
        Message::GroupReport(report) => {
            let of = (report.source, report.group);
            let receptions: Vec<_> = report.receptions().collect();
            builder.group_report(of, report.receivers, &receptions)
        }
        Message::LaneHolds(holds) => holds.holds().try_for_each(|hold| builder.lane_hold(hold)),
        Message::LinkDoubt(doubt) => builder.link_doubt(*doubt),
        Message::SeenAt(endpoint) => builder.seen_at(*endpoint),
        Message::StreamSeenAt(seen) => builder.stream_seen_at(*seen),
        Message::ClockOffset(clock) => builder.clock_offset(*clock),
        Message::FlowAims(aims) => aims.iter().try_for_each(|aim| builder.flow_aim(aim)),
        Message::Repair(repair) => {
            let mut body = vec![0; REPAIR_FRONT_BYTES + repair.sum.len()];
            let Repair {
                newest,
                seed,
                members,
                ages,
                sum,
            } = *repair;
            let front = Repair::emit_front(newest, seed, members, ages, &mut body)
                .expect("the newest is a member");
            body[front..front + sum.len()].copy_from_slice(sum);
            builder.message(kind::REPAIR, &body[..front + sum.len()])
        }
        Message::LaneReport(report) => builder.lane_report(*report),
        Message::Unknown { kind, body } => builder.message(*kind, body),
    };
    written.expect("what came in this many bytes fits into as many");
    let len = builder.len();
    let again: Vec<_> = Messages::new(&buffer[..len]).collect();
    match (message, &again[..]) {
        (Message::Nack(_), [Ok(Message::Nack(nack))]) => assert_eq!(nack.count(), 1),
        (_, [Ok(again)]) => assert_eq!(again, message),
        other => panic!("not one message: {other:?}"),
    }
}

/// Members and settings survive encoding, and only groups are named.
fn groups_body(data: &[u8]) {
    let Some((part, body)) = data.split_first() else {
        return;
    };
    let Some(kind) = RecordKind::groups(part % groups::PARTS as u8) else {
        return;
    };
    let Ok(view) = Groups::parse(kind, body) else {
        return;
    };
    let members: Vec<_> = view.members().collect();
    let settings: Vec<_> = view.settings().collect();
    assert!(members.iter().all(|group| groups::is_group(*group)));
    let mut permits = [0xa5; groups::ITEMS_BYTES_MAX];
    let mut w = wire::bytes::Writer::new(&mut permits);
    for permit in view.permits() {
        let [send, receive] = [permit.send, permit.receive]
            .map(|words| words.map(|words| words.iter().collect::<Vec<_>>()));
        let range = (permit.group, permit.prefix);
        groups::Permit::write(&mut w, range, send.as_deref(), receive.as_deref())
            .expect("what came in one record fits one");
    }
    let repr = groups::Repr {
        origin: view.origin,
        seq: view.seq,
        lifetime_s: view.lifetime_s,
        certificate_serial: view.certificate_serial,
        part: view.part,
        members: &members,
        settings: &settings,
        permits: w.written(),
    };
    let mut again = [0xa5; 1_200];
    // The order may differ: full settings are written behind the others, and ways in the order of both.
    let is_full = |setting: &&Setting| setting.ways == Ways::Two || setting.delivery.is_some();
    let (full, short): (Vec<&Setting>, Vec<&Setting>) = settings.iter().partition(is_full);
    let Ok(len) = repr.emit(&mut again, |_| *view.signature()) else {
        assert!(
            !full.is_empty() && !short.is_empty(),
            "what came in one record fits one"
        );
        return;
    };
    let again = Groups::parse(kind, &again[..len]).expect("what was written is read");
    assert!(again.members().eq(members.iter().copied()));
    assert!(again.settings().eq(short.into_iter().chain(full).copied()));
    assert!(again.permits().eq(view.permits()));
    assert_eq!(again.key(), view.key());
}

/// Encoded protections of links can be decoded again, for as many links that differ from most as are named.
fn protections_come_back(
    view: &LinkState<'_>,
    links: &[link_state::Link],
    told: &[(u8, link_state::Protection)],
    options: &[u8],
) {
    let repr = link_state::Repr {
        origin: view.origin,
        seq: view.seq,
        lifetime_s: view.lifetime_s,
        certificate_serial: view.certificate_serial,
        strikes: view.strikes,
        links,
        options,
    };
    let mut body = vec![0; 4_096];
    let Ok(len) = repr.emit(&mut body, |_| *view.signature()) else {
        panic!("a record of {} links has room for options", links.len());
    };
    let again = LinkState::parse(&body[..len]).expect("what was written is read");
    let again = again.protections().into_iter().flatten();
    let others = again.zip(told).filter(|(again, (_, told))| again != told);
    let count = |of: &link_state::Protection| told.iter().filter(|it| it.1 == *of).count();
    let most = told.iter().map(|it| count(&it.1)).max().unwrap_or(0);
    let unnamed = (told.len() - most).saturating_sub(link_state::PROTECTION_ENTRIES_MAX);
    assert_eq!(others.count(), unnamed);
}

/// Options and links are encoded with the same bytes, and so are the signed bytes.
fn link_state_body(body: &[u8]) {
    let Ok(view) = LinkState::parse(body) else {
        return;
    };
    let links: Vec<_> = view.links().collect();
    assert!(view.hops().all(|(place, _)| place < links.len()));
    assert!(view.tunnels().all(|place| place < links.len()));
    let mut alarms = view.alarms().into_iter().flatten();
    assert!(alarms.all(|place| place < links.len()));
    assert!(view.hosts().count() <= link_state::HOSTS_MAX);
    assert!(view.hosts().all(|host| host.is_dialable()));
    if let Some(nodes) = view.bulk().and_then(|bulk| bulk.relays_for) {
        relays_for_comes_back(&nodes, &links);
    }
    let mut kept = view.offer().into_iter().flatten();
    assert!(kept.all(|place| place < links.len()));
    if let Some(told) = view.protections() {
        assert_eq!(told.len(), links.len());
        let told: Vec<_> = (0..).zip(told).collect();
        let mut option = [0; link_state::OPTIONS_BYTES_MAX];
        let mut w = wire::bytes::Writer::new(&mut option);
        link_state::write_protections(&mut w, &told).expect("it bounds itself");
        protections_come_back(&view, &links, &told, w.written());
    }
    let mut options = [0xa5; link_state::OPTIONS_BYTES_MAX];
    let mut w = wire::bytes::Writer::new(&mut options);
    for option in view.options() {
        link_state::write_option(&mut w, option).expect("parse holds options to the limit");
    }
    let repr = link_state::Repr {
        origin: view.origin,
        seq: view.seq,
        lifetime_s: view.lifetime_s,
        certificate_serial: view.certificate_serial,
        strikes: view.strikes,
        links: &links,
        options: w.written(),
    };
    let mut written = vec![0xa5; body.len()];
    let sign = |signed: &[u8]| {
        assert_eq!(signed, view.signed_bytes());
        *view.signature()
    };
    assert_eq!(repr.emit(&mut written, sign), Ok(body.len()));
    assert_eq!(written, body);
}

/// The list of nodes for which a node relays survives encoding.
fn relays_for_comes_back(nodes: &link_state::RelaysFor, links: &[link_state::Link]) {
    let mut option = [0; link_state::OPTIONS_BYTES_MAX];
    let mut w = wire::bytes::Writer::new(&mut option);
    let some = link_state::Bulk {
        is_for_some: true,
        relays_for: Some(*nodes),
        ..link_state::Bulk::default()
    };
    link_state::write_bulk(&mut w, some).expect("it bounds itself");
    link_state::write_relays_for(&mut w, nodes).expect("it bounds itself");
    let repr = link_state::Repr {
        origin: base::NodeAddr(1),
        seq: wire::record::RecordSeq(1),
        lifetime_s: 1,
        certificate_serial: 1,
        strikes: 0,
        links,
        options: w.written(),
    };
    let mut body = [0; wire::record::BODY_BYTES_MAX];
    let sign = |_: &[u8]| [0; link_state::SIGNATURE_BYTES];
    let len = repr.emit(&mut body, sign).expect("so many links came");
    let read = LinkState::parse(&body[..len]).expect("it was written");
    assert_eq!(read.bulk(), Some(some));
}

fn echo_packet(data: &[u8]) {
    if let Ok(packet) = echo::Echo::parse(data) {
        let mut payload = data.to_vec();
        payload[..echo::ECHO_BYTES].fill(0xa5);
        packet
            .emit(&mut payload)
            .expect("the payload has room for its own front");
        assert_eq!(payload, data);
    }
}

/// Answers of a router, and requests to it: a value is the same after it is written and read again.
fn router_answer(data: &[u8]) {
    use mapping::{Answer, nat_pmp, pcp};
    let mut bytes = [0xa5; pcp::REQUEST_BYTES];
    let answer = Answer::parse(data);
    let written = match answer {
        Ok(Answer::Pcp(answer)) => answer.emit(&mut bytes),
        Ok(Answer::NatPmp(answer)) => answer.emit(&mut bytes),
        Ok(Answer::Other(_)) | Err(_) => Ok(0),
    };
    let len = written.expect("the longest answer is that long");
    if len > 0 {
        assert!(len <= data.len());
        assert_eq!(Answer::parse(&bytes[..len]), answer);
    }
    if let Ok(request) = pcp::Request::parse(data) {
        assert_eq!(pcp::Request::parse(&request.to_bytes()), Ok(request));
    }
    if let Ok(request) = nat_pmp::Request::parse(data) {
        let len = request.emit(&mut bytes).expect("it is short");
        assert_eq!(nat_pmp::Request::parse(&bytes[..len]), Ok(request));
        assert!(len <= data.len());
    }
}

/// Answers of a router by UPnP. An address is the same after it is written and read again, and a request to it has the
/// required lines.
fn upnp_answer(data: &[u8]) {
    use mapping::upnp::{Url, description, http, soap, ssdp};
    let at = |url: &Url| {
        assert_eq!(Url::parse(&url.to_string()).as_ref(), Ok(url));
        assert_eq!(http::get(url).split(|it| *it == b'\n').count(), 5);
    };
    if let Ok(location) = ssdp::location(data) {
        at(&location);
    }
    for is_all in [false, true] {
        if let Ok(Some(answer)) = http::Answer::parse(data, is_all) {
            assert!(answer.body.len() <= data.len());
        }
    }
    let location = Url::parse("http://192.168.1.1:5000/dev/root.xml").expect("it is one");
    let controls = description::controls(data, &location).unwrap_or_default();
    controls.iter().for_each(|it| at(&it.url));
    for action in [
        soap::Action::Address,
        soap::Action::Unmap { external_port: 1 },
    ] {
        let outcome = soap::Outcome::parse(data, action);
        let is_address = matches!(outcome, Ok(soap::Outcome::Address(_)));
        assert!(!is_address || action == soap::Action::Address);
    }
}

fn ipc_request(data: &[u8]) {
    if let Ok(request) = Request::parse(data) {
        let mut message = vec![0xa5; data.len()];
        assert_eq!(request.emit(&mut message), Ok(data.len()));
        assert_eq!(Request::parse(&message), Ok(request));
    }
}

fn ipc_reply(data: &[u8]) {
    if let Ok(reply) = Reply::parse(data) {
        let mut message = vec![0xa5; data.len()];
        assert_eq!(reply.emit(&mut message), Ok(data.len()));
        assert_eq!(Reply::parse(&message), Ok(reply));
    }
}

/// A frame of a client on another host is written with the same bytes.
fn remote_frame(data: &[u8]) {
    let Some((first, rest)) = data.split_first_chunk() else {
        return;
    };
    let Ok((kind, len)) = remote::head(*first) else {
        return;
    };
    let Some(body) = rest.get(..len) else {
        return;
    };
    if let Ok(frame) = remote::Frame::parse(kind, body) {
        let mut written = vec![0; data.len()];
        let len = frame.emit(&mut written).expect("it fitted before");
        assert_eq!(written[..len], data[..len]);
    }
}

/// An encrypted datagram beside a client's connection is written with the same bytes.
fn remote_way(data: &[u8]) {
    if let Ok(sealed) = remote::way::Sealed::parse(data) {
        let mut written = vec![0; data.len()];
        let len = sealed.emit(&mut written).expect("it fitted before");
        assert_eq!(written[..len], *data);
    }
}

/// A gateway's request to an exit is written with the same bytes.
fn exit_ask(data: &[u8]) {
    if let Ok((address, used)) = exit::Address::parse_ask(data) {
        let mut written = [0; exit::ASK_BYTES_MAX];
        let len = address.emit_ask(&mut written).expect("it is an address");
        assert_eq!(written[..len], data[..used]);
    }
}

/// Every byte of a message has one meaning.
fn scribe_message(data: &[u8]) {
    if let Ok(message) = scribe::Message::parse(data) {
        let mut again = [0; scribe::MESSAGE_BYTES_MAX];
        let len = message.emit(&mut again).expect("it came from as many");
        assert_eq!(&again[..len], data);
    }
}

/// A message between relays is written with the same bytes.
fn relay_message(data: &[u8]) {
    let Some((first, rest)) = data.split_first_chunk() else {
        return;
    };
    let Ok((kind, len)) = relay::head(*first) else {
        return;
    };
    let Some(body) = rest.get(..len) else {
        return;
    };
    if let Ok(message) = relay::Message::parse(kind, body) {
        let mut again = vec![0xa5; data.len()];
        let written = message.emit(&mut again).expect("it fitted before");
        // A later version may append data to these messages, so their length may differ.
        let may_grow = matches!(
            message,
            relay::Message::Speaks(..) | relay::Message::Issuers(_)
        );
        let from = if may_grow {
            relay::MESSAGE_HEAD_BYTES
        } else {
            0
        };
        assert_eq!(again[0], kind);
        assert_eq!(again[from..written], data[from..written]);
        if let relay::Message::Open(open) = message {
            let nodes = |hop: &relay::Hop<'_>| hop.below().count();
            assert!(nodes(&open.route) < relay::HOPS_MAX && open.route.ends() > 0);
            relay_order(open.ordered);
        }
    }
}

/// The node that has begun a transfer is written with the same bytes.
fn relay_order(data: &[u8]) {
    if let Ok(ordered) = relay::Ordered::parse(data) {
        let mut again = vec![0xa5; data.len()];
        assert_eq!(ordered.emit(&mut again), Ok(data.len()));
        assert_eq!(again, data);
        let mut body = [0; relay::ORDERED_BYTES_MAX];
        let signed = ordered.signed_part((&[0; relay::TRANSFER_BYTES], 2), &mut body);
        assert!(signed.is_ok());
    }
}

/// An entry is written with the same bytes.
fn relay_item(data: &[u8]) {
    if let Ok((item, used)) = entry::Item::read(data) {
        let mut again = vec![0xa5; used];
        let written = item.emit(&mut again).expect("it was read");
        if let entry::Item::Speaks(_) = item {
            // A later version may append data here, which is skipped.
            assert!(written <= used);
            assert_eq!(entry::Item::read(&again), Ok((item, written)));
        } else {
            assert_eq!(written, used);
            assert_eq!(again, data[..used]);
        }
        if let entry::Item::Entry(entry) = item {
            assert!(entry::is_path(entry.path));
        }
    }
}

/// A frame's head and a preamble are written with the same bytes.
fn relay_frame(data: &[u8]) {
    if let Some(head) = data.first_chunk()
        && let Ok(frame) = relay::Frame::parse(head)
    {
        assert_eq!(frame.to_bytes(), *head);
    }
    if let Ok((version, preamble)) = relay::Preamble::parse(data) {
        let mut again = vec![0xa5; data.len()];
        assert_eq!(preamble.emit(version, &mut again), Ok(data.len()));
        assert_eq!(again, data);
    }
}

/// A stream gives the same records in whatever pieces it arrives, and they are written with the same bytes. The amount
/// of incomplete data is bounded.
fn tunnel_records(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else {
        return;
    };
    let (mut decoder, mut again) = (tunnel::Decoder::default(), Vec::new());
    let mut refused = None;
    for piece in stream.chunks(usize::from(piece).max(1)) {
        decoder.push(piece);
        refused = loop {
            match decoder.take() {
                Ok(Some(record)) => record.append(&mut again).expect("it was read"),
                Ok(None) => break None,
                Err(why) => break Some(why),
            }
        };
        if refused.is_some() {
            break;
        }
        assert!(decoder.pending() < tunnel::RECORD_BYTES_MAX);
    }
    assert_eq!(again, stream[..again.len()]);
    let mut whole = tunnel::Decoder::default();
    whole.push(stream);
    let mut at_once = Vec::new();
    let ended = loop {
        match whole.take() {
            Ok(Some(record)) => record.append(&mut at_once).expect("it was read"),
            Ok(None) => break None,
            Err(why) => break Some(why),
        }
    };
    assert_eq!((again, refused), (at_once, ended));
}
