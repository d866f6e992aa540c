//! Kamailio as registrar and proxy of each site, phones that know only their domain, and names by DNS. Nothing in the
//! setup is changed for the gateway.
//!
//! ```text
//!   alice ──▶ Kamailio of a.example ──▶ gateway ══ overlay ══ gateway ──▶ Kamailio of b.example ──▶ bob
//!       DNS: _sip._udp.a.example SRV                            DNS: _sip._udp.b.example SRV
//! ```

use crate::gateway::{Site, Sites};
use crate::phone::{Phone, Setup};
use crate::programs::{BARESIP, DNSMASQ, KAMAILIO, Running, missing, quiet};
use crate::speech::{RESEMBLES, Speech};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Returns a file that docs/gateway-sip.md shows.
fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/phones/kamailio")
        .join(name);
    fs::read_to_string(path).unwrap()
}

/// Starts the site's Kamailio, and a name server for the whole site.
fn proxy(sites: &Sites, site: Site, dir: &Path) -> [Running; 2] {
    let dir = dir.join(site.domain);
    fs::create_dir_all(&dir).unwrap();
    let at = sites.land.at(site.place);
    let start = |program: &str, args: &[&str]| {
        let log = fs::File::create(dir.join(format!("{program}.log"))).unwrap();
        let mut command = at.command(program).unwrap();
        command.args(args).current_dir(&dir).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Running(command.spawn().unwrap())
    };
    let config = file("kamailio.cfg")
        .replace("\"a.example\"", &format!("\"{}\"", site.domain))
        .replace("10.1.0.5", &site.proxy.to_string())
        .replace("10.1.0.1", &site.gateway.to_string());
    fs::write(dir.join("kamailio.cfg"), config).unwrap();
    let names = file("dnsmasq.conf")
        .replace("10.1.0.5", &sites.a.proxy.to_string())
        .replace("10.2.0.5", &sites.b.proxy.to_string())
        .replace("10.1.0.1", &sites.a.gateway.to_string())
        .replace("10.2.0.1", &sites.b.gateway.to_string());
    fs::write(dir.join("dnsmasq.conf"), names).unwrap();
    let run = dir.to_string_lossy().into_owned();
    let listen = format!("--listen-address={}", site.proxy);
    [
        start(
            "kamailio",
            &[
                "-f",
                "kamailio.cfg",
                "-DD",
                "-E",
                "-Y",
                &run,
                "-m",
                "32",
                "-M",
                "4",
            ],
        ),
        start(
            "dnsmasq",
            &[
                "-C",
                "dnsmasq.conf",
                "-k",
                "--user=root",
                "--pid-file=",
                &listen,
            ],
        ),
    ]
}

/// Sets up a phone that knows its domain and its name server.
fn phone(site: Site, user: &'static str, says: Option<PathBuf>) -> Setup {
    let mut setup = Setup::new(user, site.phone, "eth0");
    setup.domain = Some(site.domain);
    setup.outbound = Some(format!("sip:{}", site.domain));
    setup.registers = true;
    setup.dns = Some((site.proxy, 53).into());
    setup.says = says;
    setup
}

#[test]
fn phones_behind_kamailio_call_each_other_over_the_overlay() {
    if missing("phones_behind_kamailio", &[BARESIP, KAMAILIO, DNSMASQ]) {
        return;
    }
    let _quiet = quiet();
    let speech = Speech::of(1);
    let mut sites = Sites::new(
        "phones-kamailio",
        &[("mid", "delay=10ms loss=5% burst=25%")],
    );
    let dir = sites.land.world.dir.clone();
    let (a, b) = (sites.a, sites.b);
    let _proxies = [a, b].map(|site| proxy(&sites, site, &dir));
    for site in [a, b] {
        let local = format!("--local {0}={0}", site.domain);
        sites.start_gateway(site, &local, Some(site.proxy));
    }
    let mut bob = Phone::start(sites.land.at(b.place), &dir, &phone(b, "bob", None));
    let said = speech.write(&dir);
    let mut alice = Phone::start(sites.land.at(a.place), &dir, &phone(a, "alice", Some(said)));
    for phone in [&alice, &bob] {
        phone.wait_until_registered();
    }
    alice.dial("sip:bob@b.example");
    alice.wait_for("CALL_ESTABLISHED");
    let ended = bob.wait_within("CALL_CLOSED", Duration::from_secs(60));
    assert!(ended.is_some(), "{}", bob.log());
    // The test `quality` measures the quality on a machine without other load. Here the speech only has to be
    // recognisable.
    let heard = bob.heard();
    let resemblance = speech.resemblance(&heard);
    println!(
        "behind Kamailio, 5 % lost: {}, resemblance {resemblance:.3}",
        speech.score(&heard)
    );
    assert!(resemblance > RESEMBLES, "{resemblance}");
    // Both Kamailios and both gateways were on the path, and the media came from the gateway.
    let log = bob.log();
    for of in [a.proxy, a.gateway, b.gateway, b.proxy] {
        assert!(log.contains(&format!("{of}")), "{of}\n{log}");
    }
    assert!(log.contains(&format!("c=IN IP4 {}", b.gateway)), "{log}");
}

#[test]
fn the_documentation_shows_these_files() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gateway-sip.md");
    let docs = fs::read_to_string(docs).unwrap();
    for name in ["kamailio.cfg", "dnsmasq.conf"] {
        assert!(
            docs.contains(file(name).trim_end()),
            "docs/gateway-sip.md has another {name}"
        );
    }
}
