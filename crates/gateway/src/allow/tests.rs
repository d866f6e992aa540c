use super::*;

/// Returns whether the rule allows the host. A name is resolved to an Internet address.
fn allows(rule: &str, host: &str, port: u16) -> bool {
    let allowed = Allowed::new(vec![rule.parse().unwrap()]);
    let (host, at) = match host.parse() {
        Ok(ip) => (Host::Ip(ip), ip),
        Err(_) => (Host::Name(host), "192.0.2.99".parse().unwrap()),
    };
    allowed.may_permit(&host, port) && allowed.permit(&host, at, port).is_ok()
}

#[test]
fn a_rule_allows_what_it_says_and_nothing_else() {
    for (rule, host, port, allowed) in [
        ("10.1.0.0/16:443", "10.1.255.255", 443, true),
        ("10.1.0.0/16:443", "10.2.0.0", 443, false),
        ("10.1.0.0/16:443", "10.1.0.1", 444, false),
        ("10.1.0.0/16:443", "::ffff:10.1.0.1", 443, true),
        ("10.1.0.0/16:443", "example.org", 443, false),
        ("10.0.0.1:*", "10.0.0.1", 65_535, true),
        ("10.0.0.1:*", "10.0.0.2", 1, false),
        ("0.0.0.0/0:80", "192.0.2.1", 80, true),
        ("0.0.0.0/0:80", "2001:db8::1", 80, false),
        ("[::]/0:80", "2001:db8::1", 80, true),
        ("[2001:db8::]/32:1-1023", "2001:db8:7::1", 1_023, true),
        ("[2001:db8::]/32:1-1023", "2001:db9::1", 1_023, false),
        ("[2001:db8::]/32:1-1023", "2001:db8:7::1", 1_024, false),
        ("example.org:80", "Example.ORG.", 80, true),
        ("example.org:80", "www.example.org", 80, false),
        ("*.example.org:80", "www.example.org", 80, true),
        ("*.example.org:80", "example.org", 80, false),
        ("*.example.org:80", ".example.org", 80, false),
        ("*.example.org:80", "badexample.org", 80, false),
        ("*.example.org:80", "é.example.org", 80, true),
        ("*.example.org:80", "éxample.org", 80, false),
    ] {
        assert_eq!(allows(rule, host, port), allowed, "{rule} {host}:{port}");
    }
    let nothing = Allowed::default();
    assert!(nothing.is_empty() && !nothing.may_permit(&Host::Name("a"), 1));
}

#[test]
fn a_wide_rule_does_not_reach_this_host_its_link_or_its_site() {
    for (rule, host, allowed) in [
        ("0.0.0.0/0:*", "127.0.0.1", false),
        ("0.0.0.0/0:*", "0.0.0.0", false),
        ("0.0.0.0/0:*", "169.254.169.254", false),
        ("0.0.0.0/0:*", "10.0.0.1", false),
        ("8.0.0.0/6:*", "10.0.0.1", false),
        ("0.0.0.0/0:*", "100.64.0.1", false),
        ("0.0.0.0/0:*", "::ffff:127.0.0.1", false),
        ("0.0.0.0/0:*", "239.1.2.3", false),
        ("[::]/0:*", "::1", false),
        ("[::]/0:*", "fe80::1", false),
        ("[::]/0:*", "fd00:ec2::254", false),
        ("[::]/0:*", "::ffff:127.0.0.1", false),
        ("[64:ff9b::]/96:*", "64:ff9b::10.0.0.1", false),
        ("[64:ff9b::]/96:*", "64:ff9b::1.1.1.1", true),
        ("0.0.0.0/0:*", "1.1.1.1", true),
        ("127.0.0.1:9", "127.0.0.1", true),
        ("127.0.0.0/8:*", "127.0.0.1", true),
        ("10.0.0.0/8:*", "10.1.2.3", true),
        ("10.1.0.0/16:*", "10.1.2.3", true),
        ("[::1]:*", "::1", true),
        ("[fe80::]/10:*", "fe80::1", true),
    ] {
        assert_eq!(allows(rule, host, 9), allowed, "{rule} {host}");
    }
}

#[test]
fn a_listed_name_is_judged_by_what_it_resolves_to() {
    let rules = [
        "www.example:80",
        "*.example:80",
        "localhost:80",
        "10.1.0.0/16:80",
    ];
    let allowed = Allowed::new(rules.map(|rule| rule.parse().unwrap()).to_vec());
    for (name, at, good) in [
        ("www.example", "192.0.2.1", true),
        ("www.example", "127.0.0.1", false),
        ("www.example", "169.254.169.254", false),
        ("www.example", "10.2.0.1", false),
        // An address rule also covers it.
        ("www.example", "10.1.0.1", true),
        ("a.example", "::ffff:127.0.0.1", false),
        ("localhost", "127.0.0.1", true),
        ("LocalHost.", "::1", true),
        ("localhost", "192.0.2.1", false),
        ("else.test", "192.0.2.1", false),
    ] {
        let at = at.parse().unwrap();
        let permitted = allowed.permit(&Host::Name(name), at, 80);
        assert_eq!(permitted.is_ok(), good, "{name} {at}: {permitted:?}");
    }
    let refused = allowed.permit(&Host::Name("www.example"), "::1".parse().unwrap(), 80);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the exit does not list the target: ::1 is loopback, and only a rule within [::1]/128 \
         reaches it, like \"[::1]:80\""
    );
}

#[test]
fn addresses_of_this_host_are_told_from_others() {
    // Loopback stands for all own addresses.
    assert!(is_own("127.0.0.1".parse().unwrap()));
    assert!(!is_own("192.0.2.1".parse().unwrap()));
    let allowed = |rule: &str| Allowed::new(vec![rule.parse().unwrap()]);
    let ip: IpAddr = "203.0.113.5".parse().unwrap();
    let refused = |rule, own| {
        let judged = allowed(rule).judge(&Host::Ip(ip), ip, 80, |at| own && at == ip);
        judged.map_err(|refusal| matches!(refusal, Refusal::Own { .. }))
    };
    assert_eq!(refused("0.0.0.0/0:*", true), Err(true));
    assert_eq!(refused("203.0.113.0/24:80", true), Err(true));
    assert_eq!(refused("203.0.113.5:80", true), Ok(()));
    assert_eq!(refused("0.0.0.0/0:*", false), Ok(()));
}

#[test]
fn rules_round_trip_and_nonsense_is_refused() {
    for rule in [
        "10.1.0.0/16:443",
        "[2001:db8::]/32:1-1023",
        "example.org:80",
        "*.example.org:*",
    ] {
        assert_eq!(rule.parse::<Rule>().unwrap().to_string(), rule);
    }
    for bad in [
        "",
        "example.org",
        "example.org:",
        "example.org:0",
        ":80",
        "10.1:80",
        "*:80",
        "a b:1",
        "10.1.0.0/33:1",
        "10.1.0.0/x:1",
        "2001:db8::1:80",
        "a.b:9-1",
        "*.:1",
        "a/8:1",
    ] {
        let error = bad.parse::<Rule>().unwrap_err().to_string();
        assert!(error.contains("like 10.1.0.0/16:443"), "{bad}: {error}");
    }
}
