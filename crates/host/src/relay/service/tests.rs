use super::super::allow::Allowed;
use super::*;
use crate::testing::{AMS, FRA, TestNode, hop, identity, open};

fn node(test: &TestNode, passes: &[&str]) -> Node {
    let (network, commander) = (test.authority.network(), test.commander.clone());
    let strangers = Arc::new(Places::new(GREETING_MAX, GREETING_SHARE));
    let names = passes.iter().map(|name| (*name).to_owned());
    let (_, lines) = Lines::new("ams", Clock::new(), true);
    let limits = Limits {
        transfers: 1,
        probe_bytes: 0,
        allow: Allowed::default(),
    };
    Node {
        trust: Trust::new(test.identity.clone(), None, network, commander).unwrap(),
        roots: Roots::new(AMS, Vec::new()),
        passes: Passes::Some(names.collect()),
        admission: None,
        links: false,
        ledger: Arc::new(Ledger::new(FRA, limits, strangers)),
        stripes: Stripes::default(),
        recent: Arc::new(Recent::new()),
        vain: Vain::new(),
        counted: Counted::default(),
        clock: Clock::new(),
        log: Mutex::new(Log::new(lines.clone())),
        lines,
    }
}

#[test]
fn a_copy_without_an_order_is_in_nobody_s_name() {
    let mut test = TestNode::start("relay-service-passes");
    let fra = identity(&mut test.authority, [2; 64], FRA);
    let end = hop(NodeAddr(0x0a07_0003), Some(&b"x"[..]), &[]);
    let route = hop(AMS, None, &end);
    let certificate = fra.certificate();
    let open = Open {
        certificate: certificate.as_bytes(),
        ..open(&route, &[])
    };
    // The neighbour is named by name or address; the last one is another node.
    for (named, is_one) in [("fra", true), ("10.7.0.2", true), ("lon", false)] {
        let node = node(&test, &[named]);
        let passes = |asks: Asks| node.passes_on(&open, FRA, asks);
        assert_eq!(passes(Asks::Probe).is_ok(), is_one, "{named}");
        let why = passes(Asks::Copy).unwrap_err();
        assert!(why.text.contains("who began the transfer"), "{why}");
    }
}
