//! Real phones over the overlay, over the same path without the overlay, and over a path without
//! losses.

use crate::direct::{Scratch, call_directly};
use crate::gateway::{Site, Sites};
use crate::phone::{Phone, Setup};
use crate::programs::{BARESIP, missing, quiet};
use crate::speech::Speech;
use std::fs;
use std::path::Path;
use std::time::Duration;
use voice::score::RawPesq;

/// The model of the middle link: 10 ms, and a loss that breaks up calls. [Amir06 §II-C]
const CLEAN: &str = "delay=10ms";
const LOSSY: &str = "delay=10ms loss=5% burst=25%";

/// Sets up a phone of a site as its user would: with the gateway as outbound proxy.
pub(crate) fn phone(site: Site, user: &'static str) -> Setup {
    let mut setup = Setup::new(user, site.phone, "eth0");
    setup.domain = Some(site.domain);
    setup.outbound = Some(format!("sip:{};transport=udp", site.sip()));
    setup
}

/// Makes a call from `from` to `to`. Returns the quality of what `to` heard.
fn call(sites: &Sites, dir: &Path, speech: &Speech, from: Site, to: Site) -> RawPesq {
    fs::create_dir_all(dir).unwrap();
    let mut speaker = phone(from, "speaker");
    speaker.says = Some(speech.write(dir));
    let mut listener = Phone::start(sites.land.at(to.place), dir, &phone(to, "listener"));
    let mut speaker = Phone::start(sites.land.at(from.place), dir, &speaker);
    speaker.dial(&format!("sip:listener@{}", to.domain));
    speaker.wait_for("CALL_ESTABLISHED");
    let ended = listener.wait_within("CALL_CLOSED", Duration::from_secs(90));
    assert!(ended.is_some(), "{}", listener.log());
    // The media came through the gateway next to the phone.
    let media = format!("c=IN IP4 {}", to.gateway);
    assert!(listener.log().contains(&media), "{}", listener.log());
    speech.score(&listener.heard())
}

#[test]
#[ignore = "listens: wants a machine that does nothing else"]
fn phones_are_heard_over_the_overlay_as_if_nothing_were_lost() {
    if missing("phones_are_heard_over_the_overlay", &[BARESIP]) {
        return;
    }
    let _quiet = quiet();
    let speech = Speech::of(1);
    let scratch = Scratch::new("phones-overlay");
    let sites = Sites::with_gateways("phones-overlay", &[("mid", LOSSY)]);
    let score = call(&sites, &scratch.0, &speech, sites.a, sites.b);
    let ceiling = speech.ceiling();
    println!("phones over the overlay, 5 % lost: {score}, ceiling {ceiling}");
    // In twelve seconds, a few packets make a difference. The long test has more speech.
    assert!(score.0 > ceiling.0 - 0.5, "{score}");
}

/// Three minutes of speech each way: `cargo test -p sinew --test phones -- --ignored --nocapture
/// quality`, 8 minutes.
#[test]
#[ignore = "takes 8 minutes"]
fn phones_lose_at_most_a_tenth_of_a_point() {
    if missing("phones_lose_at_most_a_tenth", &[BARESIP]) {
        return;
    }
    let _quiet = quiet();
    let speech = Speech::of(3);
    let scratch = Scratch::new("phones-quality");
    let overlay = |link: &'static str, name: &str| {
        let sites = Sites::with_gateways(name, &[("mid", link)]);
        let mut scores = Vec::new();
        for round in 0..2 {
            for (from, to) in [(sites.a, sites.b), (sites.b, sites.a)] {
                let dir = scratch.0.join(format!("{name}-{round}-{}", from.node));
                scores.push(call(&sites, &dir, &speech, from, to));
            }
        }
        scores
    };
    let directly = |link: &str, name: &str| {
        let rounds = (0..2).map(|round| {
            let dir = scratch.0.join(format!("{name}-{round}"));
            fs::create_dir_all(&dir).unwrap();
            call_directly(&dir, &speech, link)
        });
        rounds.collect::<Vec<_>>()
    };
    let mean = |scores: &[RawPesq]| {
        RawPesq(scores.iter().map(|score| score.0).sum::<f32>() / scores.len() as f32)
    };
    let show = |scores: &[RawPesq]| {
        let each = scores.iter().map(|score| format!("{:.2}", score.0));
        format!("{} of {}", mean(scores), each.collect::<Vec<_>>().join(" "))
    };
    let clean = overlay(CLEAN, "phones-clean");
    let lossy = overlay(LOSSY, "phones-lossy");
    println!("ceiling              {}", speech.ceiling());
    println!("overlay, no loss     {}", show(&clean));
    println!("overlay, 5 % lost    {}", show(&lossy));
    println!(
        "directly, no loss    {}",
        show(&directly("delay=10ms", "phones-direct"))
    );
    let direct = directly(LOSSY, "phones-broken");
    println!("directly, 5 % lost   {}", show(&direct));
    assert!(mean(&lossy).0 >= mean(&clean).0 - 0.1);
    assert!(mean(&lossy).0 > mean(&direct).0 + 0.5);
}
