//! `net delegate --renews`.

use super::*;
use secure::Delegation;

fn delegation(net: &Path, file: &str) -> Delegation {
    identity::read_as(&net.join(file), Delegation::from_text).unwrap()
}

/// Makes a network of the issuers `ams` and `fra`, and of `lon`, which is not an issuer.
fn two_issuers(name: &str) -> (PathBuf, PathBuf) {
    let dir = directory(name);
    let net = dir.join("net");
    let at = net.display();
    sinew(&format!("init {at} --name voice")).unwrap();
    for (n, name) in ["ams", "fra", "lon"].iter().enumerate() {
        sinew(&format!("add {at} {name} --address 127.0.0.1:770{n}")).unwrap();
    }
    sinew(&format!(
        "delegate {at} ams --domain *.example.net --names -lab --tag backup --may-set-groups 239.1.0.0/16 --lifetime 7"
    ))
    .unwrap();
    sinew(&format!("delegate {at} fra")).unwrap();
    (dir, net)
}

#[test]
fn an_issuer_renews_for_another_within_the_same_limits_and_by_serials_of_its_own() {
    let (dir, net) = two_issuers("net-renews");
    let at = net.display();
    sinew(&format!("delegate {at} fra --renews ams")).unwrap();
    let (its, own) = (
        delegation(&net, "ams/node.delegation"),
        delegation(&net, "fra/node.delegation"),
    );
    let made = delegation(&net, "fra/renews-ams.delegation");
    let (its, own, made) = (its.fields(), own.fields(), made.fields());
    assert_eq!(made.issuer, own.issuer);
    assert_eq!(
        (made.addresses, made.names, made.lifetime_s, made.domains),
        (its.addresses, its.names, its.lifetime_s, its.domains)
    );
    assert!(made.serials.0 > its.serials.1 && made.serials.0 > own.serials.1);
    let config = Config::load(&net.join("fra/node.toml")).unwrap();
    let renews = config.issuer.unwrap().renews;
    assert_eq!(renews, [net.join("fra/renews-ams.delegation")]);
    // The second delegation is named only once.
    sinew(&format!("delegate {at} fra --renews ams --days 9")).unwrap();
    let config = Config::load(&net.join("fra/node.toml")).unwrap();
    assert_eq!(config.issuer.unwrap().renews.len(), 1);
    // The other issuer's configuration names it, too, and only once.
    let config = Config::load(&net.join("ams/node.toml")).unwrap();
    let told = config.issuer.unwrap().renewed_by;
    let told: Vec<_> = told.iter().map(|it| (it.from.join(" "), it.key)).collect();
    assert_eq!(told, [("127.0.0.1:7701".to_owned(), made.issuer)]);
    // The issuer's own delegation keeps its own addresses, which overlap with no other delegation.
    sinew(&format!("delegate {at} fra")).unwrap();
    let again = delegation(&net, "fra/node.delegation");
    assert_eq!(again.fields().addresses, own.addresses);
    let refused = [
        ("delegate {at} lon --renews ams", "lon is no issuer"),
        ("delegate {at} fra --renews lon", "lon is no issuer"),
        (
            "delegate {at} ams --renews ams",
            "renews what it has issued itself",
        ),
        ("delegate {at} fra --renews par", "no node `par`"),
        (
            "delegate {at} fra --renews ams --tag x",
            "cannot be used with",
        ),
        (
            "delegate {at} fra --renews ams --lifetime 9",
            "cannot be used with",
        ),
    ];
    for (words, expected) in refused {
        let words = words.replace("{at}", &at.to_string());
        let why = text(sinew(&words).unwrap_err());
        assert!(why.contains(expected), "{words}: {why}");
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn with_an_issuer_is_revoked_what_others_have_renewed_for_it() {
    let (dir, net) = two_issuers("net-renews-revoked");
    let at = net.display();
    sinew(&format!("delegate {at} fra --renews ams")).unwrap();
    let files = ["ams/node", "fra/node", "fra/renews-ams"];
    let serial = |file: &str| {
        delegation(&net, &format!("{file}.delegation"))
            .fields()
            .serial
    };
    let serials = files.map(serial);
    sinew(&format!("revoke {at} ams")).unwrap();
    let list = net.join("revocations");
    let network = identity::network(&net.join("network.pub"), Some(&list), None).unwrap();
    let revoked = serials.map(|serial| network.is_revoked(serial));
    assert_eq!(revoked, [true, false, true]);
    // A rotation does not bring back what was revoked, and no delegation is made for a revoked issuer.
    sinew(&format!("rotate {at}")).unwrap();
    assert_ne!(serial("fra/node"), serials[1]);
    assert_eq!(serial("fra/renews-ams"), serials[2]);
    let out = sinew(&format!("delegate {at} fra --renews ams"));
    assert!(text(out.unwrap_err()).contains("ams is revoked"));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_rotation_makes_delegations_for_other_issuers_last() {
    let (dir, net) = two_issuers("net-renews-rotated");
    let at = net.display();
    sinew(&format!("delegate {at} ams --renews fra")).unwrap();
    sinew(&format!("delegate {at} fra --renews ams")).unwrap();
    sinew(&format!("rotate {at}")).unwrap();
    let network = Directory::open(&net).unwrap().authority.network();
    let first = |file: &str| {
        let delegation = delegation(&net, file);
        assert_eq!(network.root_of_delegation(&delegation), Some(1), "{file}");
        delegation.fields().serials.0
    };
    let own = ["ams/node.delegation", "fra/node.delegation"].map(first);
    let others = ["ams/renews-fra.delegation", "fra/renews-ams.delegation"].map(first);
    assert!(own.iter().max() < others.iter().min(), "{own:?} {others:?}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_issuer_that_names_eight_others_gets_no_ninth_and_nothing_is_made() {
    let (dir, net) = two_issuers("net-renews-eight");
    let at = net.display();
    let config = net.join("ams/node.toml");
    let others: String = (0..8)
        .map(|n| {
            let key = format!("{n:02x}").repeat(32);
            format!("\n[[issuer.renewed_by]]\nfrom = [\"127.0.0.1:770{n}\"]\nkey = \"{key}\"\n")
        })
        .collect();
    let text_before = fs::read_to_string(&config).unwrap();
    fs::write(&config, text_before.clone() + &others).unwrap();
    let why = text(sinew(&format!("delegate {at} fra --renews ams")).unwrap_err());
    assert!(why.contains("remove one there"), "{why}");
    assert!(!net.join("fra/renews-ams.delegation").exists());
    let named = Config::load(&config).unwrap().issuer.unwrap().renewed_by;
    assert_eq!(named.len(), 8);
    // An issuer that is already one of the eight can be named again.
    let seven = others.rfind("\n[[").unwrap();
    fs::write(&config, text_before + &others[..seven]).unwrap();
    for _ in 0..2 {
        sinew(&format!("delegate {at} fra --renews ams")).unwrap();
        let named = Config::load(&config).unwrap().issuer.unwrap().renewed_by;
        assert_eq!(named.len(), 8);
    }
    fs::remove_dir_all(dir).unwrap();
}
