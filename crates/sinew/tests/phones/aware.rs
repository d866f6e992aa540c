//! Ends that know the overlay, and ends that do not. [Amir06 §VI]

use crate::gateway::Sites;
use crate::programs::{missing, quiet};
use crate::sip::{Callee, Caller, Heard, Message, missed, speak};
use crate::sipp::kept;
use client::{DatagramSocket, Node, Options, Target};
use std::fs;
use std::time::{Duration, Instant};
use voice::sdp::{Announce, OPTION_TAG};

/// Returns the announcement in the first line of its kind.
fn announced(message: &Message) -> Option<Announce> {
    let line = message
        .body()
        .lines()
        .find_map(|line| line.strip_prefix("a=sinew:"))?;
    Some(Announce::parse(line.as_bytes()).unwrap())
}

/// Makes an end with its own socket at a node. Returns the socket and the line that announces it.
fn end(sites: &Sites, node: &str, domain: &str) -> (DatagramSocket, String) {
    let at = Node::at(sites.land.world.socket(node));
    let options = Options::voice(Duration::from_millis(150));
    let socket = at.bind(0, options).unwrap();
    let local = socket.local();
    let announce = Announce::new(local.node, local.port, local.port, domain).unwrap();
    (socket, format!("a=rtcp-mux\r\na={announce}\r\n"))
}

/// Sends packets over the overlay, and counts the packets that arrived.
fn speak_over(socket: &DatagramSocket, to: &Announce, packets: u16) -> usize {
    socket.set_nonblocking(true).unwrap();
    let to = Target::new(to.node(), to.rtp().0);
    let mut heard = 0;
    let mut buffer = [0; 2048];
    let started = Instant::now();
    // The function keeps receiving for a while after the last packet.
    for n in 0..packets + 25 {
        if n < packets {
            let mut packet = vec![0x80, 0];
            packet.extend(n.to_be_bytes());
            packet.extend([0; 168]);
            socket.send_to(&packet, to).unwrap();
        }
        let next = Duration::from_millis(20) * u32::from(n + 1);
        std::thread::sleep(next.saturating_sub(started.elapsed()));
        while socket.recv_from(&mut buffer).is_ok() {
            heard += 1;
        }
    }
    heard
}

#[test]
fn two_aware_ends_use_node_and_virtual_port_directly() {
    if missing("two_aware_ends", &[]) {
        return;
    }
    let _quiet = quiet();
    let sites = Sites::with_gateways("phones-aware", &[("mid", "")]);
    let (here, line_here) = end(&sites, "ams", "a.example");
    let (there, line_there) = end(&sites, "fra", "b.example");
    let callee = Callee::who_announces(sites.land.at("bob"), sites.b.phone, &line_there);
    let mut caller: Caller = sites.caller();
    caller.announces.clone_from(&line_here);
    caller.supports = format!("Supported: {OPTION_TAG}\r\n");
    let call = caller.call("sip:callee@b.example").unwrap_or_else(|code| {
        panic!("{code}\n{}\n{}", caller.trace, sites.log("ams"));
    });
    let invite = &callee.seen()[0].invite;
    let dir = kept("aware");
    fs::write(dir.join("caller.sip"), &caller.trace).unwrap();
    fs::write(dir.join("callee.sip"), &invite.0).unwrap();
    let said = announced(invite).unwrap_or_else(|| panic!("{}", invite.0));
    assert_eq!(
        (said.node(), said.rtp()),
        (here.local().node, here.local().port)
    );
    assert!(
        invite.one("Supported", "k").contains(OPTION_TAG),
        "{}",
        invite.0
    );
    let answered = announced(&call.answer).unwrap_or_else(|| panic!("{}", call.answer.0));
    let local = there.local();
    assert_eq!((answered.node(), answered.rtp()), (local.node, local.port));
    // Their media does not pass through the gateways.
    let heard = std::thread::scope(|scope| {
        let there = scope.spawn(|| speak_over(&there, &said, 50));
        [speak_over(&here, &answered, 50), there.join().unwrap()]
    });
    println!(
        "two aware ends: {heard:?} of 50 heard; trace in {}",
        dir.display()
    );
    assert!(heard.iter().all(|heard| *heard > 45), "{heard:?}");
    assert_eq!(caller.end(&call), Some(200));
}

#[test]
fn who_knows_of_the_overlay_speaks_with_who_does_not() {
    if missing("who_knows_of_the_overlay", &[]) {
        return;
    }
    let _quiet = quiet();
    let mut sites = Sites::new("phones-unaware", &[("mid", "")]);
    // A phone whose domain no node serves, beyond the router of its site, which is ams.
    let [carol_at, _] = sites.land.beside("ams", "carol");
    sites
        .land
        .at("ams")
        .sysctl("net/ipv4/ip_forward", "1")
        .unwrap();
    let more = format!(
        "--local a.example={} --direct c.example={carol_at}",
        sites.a.phone
    );
    sites.start_gateway(sites.a, &more, None);
    let carol = Callee::new(sites.land.at("carol"), carol_at);
    let mut caller = sites.caller();
    let call = caller.call("sip:carol@c.example").unwrap_or_else(|code| {
        panic!("{code}\n{}\n{}", caller.trace, sites.log("ams"));
    });
    let seen = &carol.seen()[0];
    let dir = kept("unaware");
    fs::write(dir.join("caller.sip"), &caller.trace).unwrap();
    fs::write(dir.join("callee.sip"), &seen.invite.0).unwrap();
    // The gateway asked her phone, which did not know the overlay. So the call is an ordinary one,
    // from phone to phone.
    assert!(announced(&seen.invite).is_some(), "{}", seen.invite.0);
    assert!(announced(&call.answer).is_none(), "{}", call.answer.0);
    assert_eq!(call.media, carol.rtp.local_addr().unwrap());
    assert_eq!(seen.media, caller.rtp.local_addr().ok());
    let length = Duration::from_millis(600);
    let heard: [Heard; 2] = std::thread::scope(|scope| {
        let there = scope.spawn(|| speak(&carol.rtp, seen.media.unwrap(), length));
        [
            speak(&caller.rtp, call.media, length),
            there.join().unwrap(),
        ]
    });
    for heard in heard {
        assert!(heard.len() > 15 && missed(&heard) == 0, "{}", heard.len());
    }
    assert_eq!(caller.end(&call), Some(200));
    let released = || sites.media_ports("ams") == 0;
    sites.land.world.wait("the ports are released", released);
}
