//! Tests the life of a network in files: nodes are added, renewed, and revoked.

mod renews;

use super::directory::Directory;
use super::*;
use crate::config::Config;
use crate::failure::Failure;
use crate::testing::directory;
use crate::{identity, invitation};
use clap::Parser;
use secure::{Certificate, CertificateError, Validity};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    net: Net,
}

#[derive(Debug, Parser)]
struct Invitation {
    #[command(flatten)]
    invite: invitation::Invite,
}

/// Runs `sinew net` with these words.
fn sinew(words: &str) -> Result<(), Failure> {
    let line = Line::try_parse_from(format!("net {words}").split_whitespace());
    run(&line.map_err(Failure::misused)?.net)
}

fn text(failure: Failure) -> String {
    failure.text().to_owned()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn certificate(dir: &Path, node: &str) -> Certificate {
    identity::read_as(&dir.join(node).join("node.cert"), Certificate::from_text).unwrap()
}

#[test]
fn a_directory_that_cannot_be_right_is_misuse() {
    let dir = directory("authority-misuse");
    let at = dir.join("net");
    for words in ["list", "renew --all"] {
        let why = sinew(&format!("{words} {}", at.display()));
        assert!(matches!(why, Err(Failure::Misused(_))), "{words}: {why:?}");
    }
    let init = format!("init {} --name try", at.display());
    sinew(&init).unwrap();
    let why = sinew(&init);
    assert!(matches!(why, Err(Failure::Misused(_))), "{why:?}");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn nodes_get_addresses_links_and_files_that_make_a_node() {
    let dir = directory("net-add");
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    sinew(&format!("add {at} ams --address ams.example.net:7700")).unwrap();
    sinew(&format!(
        "add {at} fra --address 127.0.0.1:7702 --address [::1]:7702 --lab"
    ))
    .unwrap();
    sinew(&format!(
        "add {at} lon --address 127.0.0.1:7703 --link fra --overlay 10.7.0.77"
    ))
    .unwrap();
    sinew(&format!(
        "add {at} par --address 127.0.0.1:7704 --link none --domain a.example.net"
    ))
    .unwrap();

    assert_eq!(mode(&net.join("network.key")), 0o600);
    assert_eq!(mode(&net.join("ams/node.key")), 0o600);
    assert_eq!(mode(&net), 0o700);
    let configs = ["ams", "fra", "lon", "par"]
        .map(|node| Config::load(&net.join(node).join("node.toml")).unwrap());
    let neighbors = configs.each_ref().map(|config| {
        let names: Vec<&str> = config.neighbors.iter().map(|n| n.name.as_str()).collect();
        names.join(" ")
    });
    assert_eq!(neighbors, ["", "ams", "fra", ""]);
    assert_eq!(
        configs[2].neighbors[0].endpoints,
        ["127.0.0.1:7702", "[::1]:7702"]
    );
    assert_eq!(configs[1].neighbors[0].endpoints, ["ams.example.net:7700"]);
    assert!(configs[1].lab && !configs[0].lab);
    let listen = |i: usize| {
        configs[i]
            .listen
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (listen(0), listen(2)),
        (vec!["0.0.0.0:7700".into()], vec!["127.0.0.1:7703".into()])
    );
    assert_eq!(listen(1), ["127.0.0.1:7702", "[::1]:7702"]);

    for (config, address) in configs
        .iter()
        .zip(["10.7.0.1", "10.7.0.2", "10.7.0.77", "10.7.0.3"])
    {
        let identity = identity::identity(&config.key, &config.certificate).unwrap();
        let network =
            identity::network(&config.network, config.revocations.as_deref(), None).unwrap();
        let peer = network
            .verify(identity.certificate(), ::net::Clock::new().unix_s())
            .unwrap();
        assert_eq!(peer.address().to_string(), address);
    }
    let domains: Vec<String> = certificate(&net, "par")
        .fields()
        .subject
        .domains
        .iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(domains, ["a.example.net"]);
    sinew(&format!("list {at} --json")).unwrap();
    sinew(&format!("list {at}")).unwrap();
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn mistakes_are_told_and_change_nothing() {
    let dir = directory("net-mistakes");
    let net = dir.join("net");
    let at = net.display();
    let error = |words: &str| text(sinew(words).unwrap_err());
    assert!(error(&format!("list {at}")).contains("sinew net init"));
    sinew(&format!("init {at} --name voice --prefix 10.9.0.0/30")).unwrap();
    assert!(error(&format!("init {at} --name other")).contains("another directory"));
    sinew(&format!("add {at} ams --address 127.0.0.1:7701")).unwrap();
    let before = fs::read_to_string(net.join("network.toml")).unwrap();
    for (words, expected) in [
        ("ams --address 127.0.0.1:1", "in the network already"),
        ("Ams --address 127.0.0.1:1", "differs from ams in capitals"),
        (
            "fra --address 127.0.0.1:7701",
            "ams is reached at 127.0.0.1:7701",
        ),
        ("../x --address 127.0.0.1:1", "not a name"),
        ("issued --address 127.0.0.1:1", "not a name"),
        ("fra --address fra", "fra"),
        (
            "fra --address 127.0.0.1:1 --overlay 10.9.0.1",
            "the address of ams",
        ),
        (
            "fra --address 127.0.0.1:1 --overlay 10.7.0.1",
            "10.9.0.0/30",
        ),
        (
            "fra --address 127.0.0.1:1 --overlay 239.0.0.1",
            "not an address for a node",
        ),
        ("fra --address 127.0.0.1:1 --link lon", "there are: ams"),
        (
            "fra --address 127.0.0.1:1 --domain UPPER",
            "not a list of domains",
        ),
        (
            "fra --address 127.0.0.1:1 --request missing",
            "cannot read missing",
        ),
        (
            "fra --address 127.0.0.1:1 --days 0",
            "0 is not in 1..=36500",
        ),
    ] {
        let told = error(&format!("add {at} {words}"));
        assert!(told.contains(expected), "{words}: {told}");
    }
    assert!(error(&format!("renew {at} fra")).contains("sinew net list"));
    assert!(error(&format!("revoke {at} fra")).contains("sinew net list"));
    assert_eq!(
        fs::read_to_string(net.join("network.toml")).unwrap(),
        before
    );
    assert!(!net.join("fra").exists() && !net.join("lock").exists());
    sinew(&format!("add {at} fra --address 127.0.0.1:7702")).unwrap();
    assert!(error(&format!("add {at} lon --address 127.0.0.1:1")).contains("no address is free"));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_key_made_on_the_node_stays_there() {
    let dir = directory("net-request");
    let (net, home) = (dir.join("net"), dir.join("home"));
    let (at, there) = (net.display(), home.display());
    sinew(&format!("init {at} --name voice")).unwrap();
    sinew(&format!("add {at} ams --address 127.0.0.1:7701")).unwrap();
    let request = format!(
        "request {there} home --network {at}/network.pub --overlay 10.7.0.9 --domain h.example"
    );
    sinew(&request).unwrap();
    assert_eq!(mode(&home.join("node.key")), 0o600);
    let key = fs::read_to_string(home.join("node.key")).unwrap();
    sinew(&request).unwrap();
    assert_eq!(
        fs::read_to_string(home.join("node.key")).unwrap(),
        key,
        "a key is never lost"
    );

    let add = format!("add {at} home --request {there}/node.request --link ams");
    for (extra, expected) in [
        ("--overlay 10.7.0.8", "10.7.0.9"),
        ("--domain x", "--domain"),
    ] {
        let told = text(sinew(&format!("{add} {extra}")).unwrap_err());
        assert!(told.contains(expected), "{told}");
    }
    sinew(&add).unwrap();
    assert!(!net.join("home/node.key").exists());
    fs::copy(net.join("home/node.cert"), home.join("node.cert")).unwrap();
    let identity = identity::identity(&home.join("node.key"), &home.join("node.cert")).unwrap();
    assert_eq!(identity.address().to_string(), "10.7.0.9");

    // The node cannot be dialled, so it must dial every later node.
    sinew(&format!("add {at} fra --address 127.0.0.1:7702")).unwrap();
    let fra = Config::load(&net.join("fra/node.toml")).unwrap();
    assert!(
        fra.neighbors
            .iter()
            .any(|n| n.name == "home" && n.endpoints.is_empty())
    );
    let home = Config::load(&net.join("home/node.toml")).unwrap();
    let dials = home.neighbors.iter().find(|n| n.name == "fra").unwrap();
    assert_eq!(dials.endpoints, ["127.0.0.1:7702"]);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_renewed_certificate_has_the_same_key_and_revocation_covers_both() {
    let dir = directory("net-renew");
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    sinew(&format!("add {at} ams --address 127.0.0.1:7701 --days 10")).unwrap();
    sinew(&format!("add {at} fra --address 127.0.0.1:7702")).unwrap();
    let old = certificate(&net, "ams");
    sinew(&format!("renew {at} ams --days 20")).unwrap();
    let new = certificate(&net, "ams");
    assert!(new.fields().serial > old.fields().serial);
    assert!(new.fields().not_after_s >= old.fields().not_after_s + 10 * 86_400);
    assert_eq!(new.fields().subject, old.fields().subject);
    identity::identity(&net.join("ams/node.key"), &net.join("ams/node.cert")).unwrap();

    sinew(&format!("revoke {at} ams")).unwrap();
    let now_s = ::net::Clock::new().unix_s();
    let revocations = net.join("fra/revocations");
    let network = identity::network(&net.join("network.pub"), Some(&revocations), None).unwrap();
    for certificate in [&old, &new] {
        assert_eq!(
            network.verify(certificate, now_s).err(),
            Some(CertificateError::Revoked)
        );
    }
    assert!(network.verify(&certificate(&net, "fra"), now_s).is_ok());
    let told = text(sinew(&format!("renew {at} ams")).unwrap_err());
    assert!(told.contains("is revoked"), "{told}");

    // The node of the same name gets a new key and its old address.
    let key = fs::read_to_string(net.join("ams/node.key")).unwrap();
    sinew(&format!("add {at} ams --address 127.0.0.1:7701")).unwrap();
    assert_ne!(fs::read_to_string(net.join("ams/node.key")).unwrap(), key);
    let again = network
        .verify(&certificate(&net, "ams"), now_s + 1)
        .unwrap();
    assert_eq!(again.address().to_string(), "10.7.0.1");
    assert!(net.join("ams/revocations").exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_lock_that_nobody_holds_any_more_is_no_obstacle() {
    let dir = directory("net-lock");
    let net = dir.join("net");
    sinew(&format!("init {} --name voice", net.display())).unwrap();
    // No process has this id: the kernel's limit is 4194304.
    fs::write(net.join("lock"), "4194305").unwrap();
    let opened = Directory::open(&net).unwrap();
    assert!(net.join("lock").exists());
    drop(opened);
    assert!(!net.join("lock").exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_node_gets_other_domains_addresses_and_links_and_keeps_its_key() {
    let dir = directory("net-set");
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    sinew(&format!("add {at} ams --address 127.0.0.1:7701")).unwrap();
    sinew(&format!("add {at} fra --address 127.0.0.1:7702")).unwrap();
    sinew(&format!("add {at} home --link ams")).unwrap();
    sinew(&format!("add {at} lon --address 127.0.0.1:7704")).unwrap();
    let domains = |node: &str| -> Vec<String> {
        let certificate = certificate(&net, node);
        let domains = certificate.fields().subject.domains;
        domains.iter().map(str::to_owned).collect()
    };
    let load = |node: &str| Config::load(&net.join(node).join("node.toml")).unwrap();
    let names = |node: &str| -> Vec<String> {
        load(node)
            .neighbors
            .iter()
            .map(|n| n.name.clone())
            .collect()
    };

    let old = certificate(&net, "ams");
    sinew(&format!(
        "set {at} ams --domain a.example --domain b.example"
    ))
    .unwrap();
    let new = certificate(&net, "ams");
    assert_eq!(domains("ams"), ["a.example", "b.example"]);
    assert!(new.fields().serial > old.fields().serial);
    assert_eq!(new.fields().not_after_s, old.fields().not_after_s);
    identity::identity(&net.join("ams/node.key"), &net.join("ams/node.cert")).unwrap();
    sinew(&format!("set {at} ams --domain none")).unwrap();
    assert_eq!(domains("ams"), [] as [&str; 0]);

    // Text that a user has written into a configuration stays.
    let path = net.join("fra/node.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        format!("# mine\n{text}capacity = \"20mbit\" # ours\n"),
    )
    .unwrap();
    sinew(&format!("set {at} ams --address ams.example.net:7800")).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("# mine") && text.contains("# ours"),
        "{text}"
    );
    let ams = &load("fra").neighbors[0];
    assert_eq!(
        (ams.endpoints.as_slice(), ams.capacity),
        (&["ams.example.net:7800".to_owned()][..], Some(20_000_000))
    );
    assert_eq!(load("ams").listen, ["0.0.0.0:7800".parse().unwrap()]);
    assert_eq!(load("lon").neighbors[0].endpoints, ["ams.example.net:7800"]);

    sinew(&format!("set {at} fra --link ams,lon,home")).unwrap();
    assert_eq!(names("fra"), ["ams", "lon", "home"]);
    assert_eq!(load("fra").neighbors[0].capacity, Some(20_000_000));
    assert!(
        names("home").contains(&"fra".to_owned()),
        "who cannot be dialled dials"
    );
    sinew(&format!("set {at} fra --link none")).unwrap();
    assert_eq!(names("fra"), [] as [&str; 0]);

    for (words, expected) in [
        ("fra", "say what to set"),
        ("par --link ams", "no node `par`"),
        ("fra --link nobody", "there are: ams, home, lon"),
        ("fra --address 127.0.0.1:7704", "lon is reached at"),
        ("fra --domain UPPER", "not a list of domains"),
        ("fra --link ams --node x", "on SIGHUP"),
    ] {
        let told = text_of(sinew(&format!("set {at} {words}")));
        assert!(told.contains(expected), "{words}: {told}");
    }
    fs::remove_dir_all(dir).unwrap();
}

fn text_of(outcome: Result<(), Failure>) -> String {
    text(outcome.unwrap_err())
}

#[test]
fn a_root_key_that_everybody_can_read_is_not_used() {
    let dir = directory("net-open");
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    let key = net.join("network.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let told = text_of(sinew(&format!("list {at}")));
    assert!(told.contains("chmod 600"), "{told}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    sinew(&format!("list {at}")).unwrap();
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_first_node_sets_groups_and_others_if_they_are_let() {
    let dir = directory("net-rights");
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    sinew(&format!("add {at} ams --address 127.0.0.1:7701")).unwrap();
    sinew(&format!("add {at} fra --address 127.0.0.1:7702")).unwrap();
    sinew(&format!(
        "add {at} lon --address 127.0.0.1:7703 --may-set-groups 239.1.0.0/16 --may-set-groups 239.9.9.9"
    ))
    .unwrap();
    let groups = |node| rights::described(&certificate(&net, node));
    assert_eq!(groups("ams"), ["all"]);
    assert!(groups("fra").is_empty());
    assert_eq!(groups("lon"), ["239.1.0.0/16", "239.9.9.9"]);
    sinew(&format!(
        "set {at} fra --may-set-groups all --domain a.example"
    ))
    .unwrap();
    sinew(&format!("renew {at} lon")).unwrap();
    sinew(&format!("set {at} lon --domain b.example")).unwrap();
    assert_eq!(groups("fra"), ["all"]);
    assert_eq!(groups("lon"), ["239.1.0.0/16", "239.9.9.9"], "they stay");
    sinew(&format!("set {at} fra --may-set-groups none")).unwrap();
    assert!(groups("fra").is_empty());
    let domains: Vec<String> = certificate(&net, "fra")
        .fields()
        .subject
        .domains
        .iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(domains, ["a.example"], "they stay");
    for wrong in ["10.7.0.1", "239.1.0.1/16", "239.0.0.0/2", "some"] {
        let refused = sinew(&format!("set {at} fra --may-set-groups {wrong}"));
        assert!(text(refused.unwrap_err()).contains("--may-set-groups"));
    }
    sinew(&format!("delegate {at} ams --may-set-groups 239.1.0.0/16")).unwrap();
    let path = net.join("ams/node.delegation");
    let delegation = identity::read_as(&path, secure::Delegation::from_text).unwrap();
    let bound = delegation.fields().bound().unwrap();
    assert_eq!(bound.ranges(), ["239.1.0.0/16".parse().unwrap()]);
    sinew(&format!("delegate {at} ams")).unwrap();
    let delegation = identity::read_as(&path, secure::Delegation::from_text).unwrap();
    assert_eq!(delegation.fields().bound().unwrap().ranges(), []);
    sinew(&format!("list {at}")).unwrap();
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn nodes_have_tags_that_stay_and_names_that_look_like_no_address() {
    let dir = directory("net-tags");
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    sinew(&format!(
        "add {at} ams --address 127.0.0.1:7701 --tag site-ams --tag backup"
    ))
    .unwrap();
    sinew(&format!("add {at} fra --address 127.0.0.1:7702")).unwrap();
    let tags = |node| {
        let certificate = certificate(&net, node);
        let tags = rights::tags(&certificate);
        tags.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(tags("ams"), ["backup", "site-ams"]);
    assert!(tags("fra").is_empty());
    sinew(&format!("renew {at} ams")).unwrap();
    sinew(&format!("set {at} ams --domain a.example")).unwrap();
    assert_eq!(tags("ams"), ["backup", "site-ams"], "they stay");
    sinew(&format!("set {at} ams --tag backup")).unwrap();
    sinew(&format!("set {at} fra --tag web --may-set-groups all")).unwrap();
    assert_eq!(
        (tags("ams"), tags("fra")),
        (vec!["backup".to_owned()], vec!["web".to_owned()])
    );
    sinew(&format!("set {at} ams --tag none")).unwrap();
    assert!(tags("ams").is_empty());
    for wrong in ["Backup", "tag:x", "*"] {
        let refused = sinew(&format!("set {at} fra --tag {wrong}")).unwrap_err();
        assert!(text(refused).contains("not a list of tags"), "{wrong}");
    }
    sinew(&format!("delegate {at} ams --tag backup --tag *-lab")).unwrap();
    let path = net.join("ams/node.delegation");
    let delegation = identity::read_as(&path, secure::Delegation::from_text).unwrap();
    let patterns: Vec<&str> = delegation.fields().tags().collect();
    assert_eq!(patterns, ["backup", "*-lab"]);
    let refused = sinew(&format!("delegate {at} ams --tag lab-*")).unwrap_err();
    assert!(text(refused).contains("not a list of tags"));
    let issuer = net.join("ams").display().to_string();
    let invite = |more: &str| {
        let words = format!("invite {issuer} {more}");
        let line = Invitation::try_parse_from(words.split_whitespace());
        invitation::invite(&line.unwrap().invite)
    };
    invite("--tag backup --tag x-lab").unwrap();
    let refused = text(invite("--tag prod").unwrap_err());
    assert!(refused.contains("with `--tag prod`"), "{refused}");
    // Rules also name nodes by addresses.
    for name in ["10.7.0.9", "12", "1.2", "::1", "fe80::1"] {
        let refused =
            text(sinew(&format!("add {at} {name} --address 127.0.0.1:7703")).unwrap_err());
        assert!(refused.contains("looks like an address"), "{refused}");
        let refused = text(invite(&format!("--name {name}")).unwrap_err());
        assert!(refused.contains("looks like an address"), "{refused}");
    }
    sinew(&format!("list {at}")).unwrap();
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_rotation_certifies_all_again_and_says_who_still_lacks_it() {
    let dir = directory("net-rotate");
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    for (n, name) in ["ams", "fra", "lon"].iter().enumerate() {
        sinew(&format!("add {at} {name} --address 127.0.0.1:770{n}")).unwrap();
    }
    sinew(&format!(
        "delegate {at} fra --domain *.example.net --names -lab"
    ))
    .unwrap();
    sinew(&format!("revoke {at} lon")).unwrap();
    let before = fs::read_to_string(net.join("network.key")).unwrap();
    let (old, revoked) = (certificate(&net, "ams"), certificate(&net, "lon"));
    // No node runs there, so the command makes no root key.
    let nobody = sinew(&format!("rotate {at} --node {at}/ams"));
    assert!(text(nobody.unwrap_err()).contains("no running node"));
    assert_eq!(fs::read_to_string(net.join("network.key")).unwrap(), before);

    sinew(&format!("rotate {at} --overlap 1h --days 20")).unwrap();
    let kept = net.join("network.key.root-0");
    assert_eq!(
        (mode(&kept), fs::read_to_string(&kept).unwrap()),
        (0o600, before)
    );
    let now_s = ::net::Clock::new().unix_s();
    let all = Directory::open(&net).unwrap().authority.network();
    for name in ["", "ams", "fra", "lon"] {
        let list = net.join(name).join("revocations");
        let network = net.join(name).join("network.pub");
        let network = identity::network(&network, Some(&list), None).unwrap();
        assert_eq!(network.successions(), all.successions(), "{name}");
        assert_eq!(network.revocations_edition(), (1, 2), "{name}");
        assert!(network.has_revoked(&revoked), "{name}");
        assert!(network.verify(&old, now_s + 3_599).is_ok());
        let late = network.verify(&old, now_s + 3_700);
        assert_eq!(late.err(), Some(CertificateError::OldRoot));
    }
    let renewed = certificate(&net, "ams");
    assert_eq!(all.root_of(&renewed), Some(1));
    assert!(all.verify(&renewed, now_s + 19 * 86_400).is_ok());
    let stays = certificate(&net, "lon");
    assert_eq!((all.root_of(&stays), stays), (Some(0), revoked));
    let delegation = net.join("fra/node.delegation");
    let delegation = identity::read_as(&delegation, secure::Delegation::from_text).unwrap();
    let fields = delegation.fields();
    assert_eq!(
        (fields.names, fields.permits("a.example.net")),
        ("-lab", true)
    );
    assert!(fields.serial > renewed.fields().serial);
    // All commands still work: the new root signs what comes next, and can revoke it.
    sinew(&format!("add {at} par --address 127.0.0.1:7709")).unwrap();
    sinew(&format!("renew {at} fra")).unwrap();
    sinew(&format!("delegate {at} fra")).unwrap();
    sinew(&format!("rotate {at}")).unwrap();
    sinew(&format!("revoke {at} fra")).unwrap();
    sinew(&format!("list {at}")).unwrap();
    let list = net.join("revocations");
    let network = identity::network(&net.join("par/network.pub"), Some(&list), None).unwrap();
    assert_eq!(network.root_number(), 2);
    assert!(network.has_revoked(&certificate(&net, "fra")));
    assert!(network.is_revoked(fields.serial), "its delegations, too");
    assert!(network.verify(&certificate(&net, "par"), now_s + 1).is_ok());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_rotation_that_cannot_write_for_one_node_leaves_a_directory_that_works() {
    let dir = directory("net-rotate-unwritable");
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    for (n, name) in ["ams", "fra", "lon"].iter().enumerate() {
        sinew(&format!("add {at} {name} --address 127.0.0.1:770{n}")).unwrap();
    }
    // A directory is in the way of the file, so even root cannot write the file.
    let in_the_way = net.join("fra/network.pub");
    fs::remove_file(&in_the_way).unwrap();
    fs::create_dir_all(in_the_way.join("full")).unwrap();
    let failed = sinew(&format!("rotate {at}")).unwrap_err();
    assert_eq!(failed.status(), 3);
    let told = text(failed);
    assert!(told.contains("NOT written for fra"), "{told}");
    assert!(!told.contains("NOT written for lon"), "{told}");

    let all = Directory::open(&net).unwrap().authority.network();
    assert_eq!(all.root_number(), 1);
    for name in ["ams", "lon"] {
        assert_eq!(all.root_of(&certificate(&net, name)), Some(1), "{name}");
        let stored = identity::network(&net.join(name).join("network.pub"), None, None);
        assert_eq!(stored.unwrap().root_number(), 1, "{name}");
    }
    sinew(&format!("list {at}")).unwrap();
    sinew(&format!("renew {at} ams")).unwrap();
    fs::remove_dir_all(&in_the_way).unwrap();
    sinew(&format!("renew {at} fra")).unwrap();
    let stored = identity::network(&in_the_way, None, None).unwrap();
    assert!(stored.root_of(&certificate(&net, "fra")) == Some(1));
    assert!(net.join("fra/revocations").exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn nothing_is_rotated_by_a_clock_that_is_behind() {
    let dir = directory("net-rotate-clock");
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    sinew(&format!("add {at} ams --address 127.0.0.1:7701")).unwrap();
    // Sign a certificate an hour in the future, by this machine's clock.
    let mut opened = Directory::open(&net).unwrap();
    let now_s = ::net::Clock::new().unix_s();
    let later = Validity {
        not_before_s: now_s + 3_600,
        not_after_s: now_s + 7_200,
    };
    let old = certificate(&net, "ams");
    let renewed = opened.authority.renew(&old, later).unwrap();
    opened.save().unwrap();
    opened.keep(&renewed).unwrap();
    drop(opened);
    let told = text(sinew(&format!("rotate {at} --overlap 0s")).unwrap_err());
    assert!(
        told.contains("the clock of this machine is wrong"),
        "{told}"
    );
    assert!(told.contains("would end at"), "{told}");
    let all = Directory::open(&net).unwrap().authority.network();
    assert_eq!(all.root_number(), 0);
    assert!(!net.join("network.key.root-0").exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_rotation_keeps_the_ends_of_certificates_and_lets_nobody_in_who_was_out() {
    let dir = directory("net-rotate-ends");
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    for (n, (name, days)) in [("ams", 3), ("fra", 700), ("lon", 9)].iter().enumerate() {
        sinew(&format!(
            "add {at} {name} --address 127.0.0.1:770{n} --days {days}"
        ))
        .unwrap();
    }
    // The certificate of lon has expired.
    let mut opened = Directory::open(&net).unwrap();
    let now_s = ::net::Clock::new().unix_s();
    let over = Validity {
        not_before_s: now_s - 100,
        not_after_s: now_s - 50,
    };
    let ended = opened.authority.renew(&certificate(&net, "lon"), over);
    let ended = ended.unwrap();
    opened.keep(&ended).unwrap();
    let lon = opened.register.nodes.iter_mut().find(|it| it.name == "lon");
    lon.unwrap().serial = ended.fields().serial;
    opened.save().unwrap();
    drop(opened);
    let all = ["ams", "fra", "lon"];
    let before = all.map(|name| certificate(&net, name));
    sinew(&format!("rotate {at}")).unwrap();
    let after = all.map(|name| certificate(&net, name));
    for (old, new) in before.iter().zip(&after).take(2) {
        assert!(new.fields().serial > old.fields().serial);
        assert_eq!(new.fields().not_after_s, old.fields().not_after_s);
    }
    assert_eq!(after[2], before[2], "it got none");
    sinew(&format!("rotate {at} --days 20")).unwrap();
    let fields = certificate(&net, "ams");
    assert!(fields.fields().not_after_s >= now_s + 20 * 86_400);
    assert_eq!(certificate(&net, "lon"), before[2]);
    sinew(&format!("renew {at} lon")).unwrap();
    fs::remove_dir_all(dir).unwrap();
}
