//! Uses of phones besides simple calls: hold, resume, cancel, hang up; by TCP.

use crate::gateway::{Site, Sites};
use crate::phone::{Phone, Setup};
use crate::programs::{BARESIP, missing, quiet};
use crate::speech::Speech;
use serde_json::Value;

fn phone(site: Site, user: &'static str) -> Setup {
    let mut setup = crate::quality::phone(site, user);
    setup.outbound = Some(format!("sip:{};transport=tcp", site.sip()));
    setup
}

#[test]
fn phones_by_tcp_hold_resume_hang_up_and_change_their_minds() {
    if missing("phones_by_tcp", &[BARESIP]) {
        return;
    }
    let _quiet = quiet();
    let mut sites = Sites::new("phones-talk", &[("mid", "")]);
    let (a, b) = (sites.a, sites.b);
    for site in [a, b] {
        let local = format!("--local {}={}:5060;transport=tcp", site.domain, site.phone);
        sites.start_gateway(site, &local, None);
    }
    let dir = sites.land.world.dir.clone();
    let mut talker = phone(a, "alice");
    talker.says = Some(Speech::of(1).write(&dir));
    let mut alice = Phone::start(sites.land.at(a.place), &dir, &talker);
    let mut shy = phone(b, "bob");
    shy.answers = false;
    let mut bob = Phone::start(sites.land.at(b.place), &dir, &shy);

    // Alice cancels while the other phone rings.
    alice.dial("sip:bob@b.example");
    bob.wait_for("CALL_INCOMING");
    alice.wait_for("CALL_RINGING");
    alice.tell("hangup", "");
    bob.wait_for("CALL_CLOSED");
    let released = || sites.media_ports("ams") == 0 && sites.media_ports("fra") == 0;
    sites.land.world.wait("the ports are released", released);

    // Bob declines the call.
    alice.dial("sip:bob@b.example");
    bob.wait_for("CALL_INCOMING");
    bob.tell("hangup", "");
    alice.wait_for("CALL_CLOSED");
    sites.land.world.wait("the ports are released", released);

    // Bob accepts. Alice puts him on hold, and resumes. Bob hangs up.
    alice.dial("sip:bob@b.example");
    bob.wait_for("CALL_INCOMING");
    bob.tell("accept", "");
    alice.wait_for("CALL_ESTABLISHED");
    bob.wait_for("CALL_RTPESTAB");
    assert!(
        alice.log().contains(&format!("c=IN IP4 {}", a.gateway)),
        "{}",
        alice.log()
    );
    alice.tell("hold", "");
    let held = || bob.log().contains("a=sendonly");
    sites.land.world.wait("bob is on hold", held);
    alice.tell("resume", "");
    let resumed = || {
        let log = bob.log();
        let direction = |line: &&str| line.starts_with("a=send") && !line.contains(':');
        log.lines().rfind(direction) == Some("a=sendrecv")
    };
    sites.land.world.wait("bob is not on hold", resumed);
    // Alice's gateway knows what Bob gets, because his gateway has reported it.
    let far = || {
        let output = sites.land.world.try_sinew("calls --json --node net/ams");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let far = &told["calls"][0]["streams"][0]["far"];
        far["from_caller"]["quality"]["loss_before_recovery"].is_number()
    };
    sites
        .land
        .world
        .wait("the far gateway tells what it hears", far);
    bob.tell("hangup", "");
    alice.wait_for("CALL_CLOSED");
    sites.land.world.wait("the ports are released", released);
    let told = || sites.events("ams", "ended").len() == 3;
    sites.land.world.wait("the gateway tells three calls", told);
    let ends = sites.events("ams", "ended");
    println!(
        "ends of three calls: {:?}",
        ends.iter().map(|end| &end["end"]).collect::<Vec<_>>()
    );
    // Alice speaks, Bob listens.
    let last = &ends[2]["streams"][0];
    let packets = last["from_caller"]["packets"].as_u64();
    assert!(packets.is_some_and(|packets| packets > 0), "{last}");
    let far = &last["far"]["from_caller"]["quality"];
    assert!(far["loss"].is_number(), "{last}");
}
