use super::*;
use wire::groups::Ways;

const GOOD: &str = "certificate = 'a'\nkey = 'b'\nnetwork = 'c'\nlisten = ['127.0.0.1:7700']\n";

fn load(text: &str) -> Result<Config, String> {
    let dir = crate::testing::directory("config");
    let path = dir.join("node.toml");
    std::fs::write(&path, text).unwrap();
    let loaded = Config::load(&path).map_err(|error| error.to_string());
    std::fs::remove_dir_all(&dir).unwrap();
    loaded
}

#[test]
fn the_least_configuration_is_enough() {
    let config = load(GOOD).unwrap();
    assert!(config.realtime_priority && !config.lab && config.probe_hops);
}

#[test]
fn an_issuer_that_renews_for_others_has_books_for_each_of_them() {
    let issuer = |renews: &str| {
        load(&format!(
            "{GOOD}[issuer]\ndelegation = 'd'\nbooks = 'issuer'\nendpoints = 'a:1'\nrenews = {renews}\n"
        ))
    };
    let config = issuer("['renews-lon.delegation', 'renews-par.delegation']").unwrap();
    let issuer_of = config.issuer.unwrap();
    let books: Vec<_> = issuer_of
        .renews
        .iter()
        .map(|it| issuer_of.books_of(it))
        .collect();
    assert!(issuer_of.renews[0].is_absolute());
    assert_eq!(books[0], issuer_of.books.join("renews-lon"));
    assert_eq!(books[1], issuer_of.books.join("renews-par"));
    let same = issuer("['a/x.delegation', 'b/x.delegation']").unwrap_err();
    assert!(same.contains("both would write the same books"), "{same}");
}

#[test]
fn other_issuers_are_read_in_order() {
    let key = "07".repeat(32);
    let config = load(&format!(
        "{GOOD}[renewal]\nfrom = 'a:1'\nkey = '{key}'\n[[renewal.others]]\nfrom = 'b:1'\nkey = '{key}'\n\
         [[renewal.others]]\nfrom = ['c:1', 'c:2']\nkey = '{key}'\n"
    ));
    let others = config.unwrap().renewal.unwrap().others;
    let from: Vec<_> = others.iter().map(|it| it.from.join(" ")).collect();
    assert_eq!(from, ["b:1", "c:1 c:2"]);
    assert_eq!(others[0].key, [7; 32]);
}

#[test]
fn one_address_to_listen_on_needs_no_list() {
    let config = load(&GOOD.replace("['127.0.0.1:7700']", "'127.0.0.1:7700'")).unwrap();
    assert_eq!(config.listen, ["127.0.0.1:7700".parse().unwrap()]);
}

#[test]
fn every_mistake_names_file_line_and_what_was_expected() {
    let neighbor = "[[neighbor]]\nname = 'x'\naddress = '10.1.1.1'\n";
    let neighbor = |more: &str| format!("{neighbor}{more}");
    for (extra, line, expected) in [
        ("listne = []".to_owned(), 5, "did you mean `listen`?"),
        (
            "[settings]\nhello_intervall = \"50ms\"".to_owned(),
            5,
            "did you mean `hello_interval`?",
        ),
        ("log_level = 'debug'".into(), 5, "error, warning or info"),
        ("lab".into(), 5, "expected"),
        ("map_port = 'on'".into(), 5, "`true`, `false` or \"auto\""),
        ("map_port = 1".into(), 5, "`true`, `false` or \"auto\""),
        ("lab = true\nlab = true".into(), 6, "duplicate key"),
        ("metrics = 'here'".into(), 5, "`here`: "),
        ("profile = 'fast'".into(), 5, "`modern` or `paper`"),
        ("lab = 'yes'".into(), 5, "boolean"),
        ("accept = 'none'".into(), 5, "any"),
        ("accept = ['10.7.0']".into(), 5, "10.7.0.3"),
        ("accept = 7".into(), 5, "[\"10.7.0.2\"]"),
        ("client_socket_mode = 'rw'".into(), 5, "expected u32"),
        ("client_socket_mode = 0o1777".into(), 5, "0o660"),
        ("client_socket_mode = -1".into(), 5, "expected u32"),
        ("[realtime]\nstrikes = 9".into(), 6, "choose 0 to 5"),
        ("[realtime]\nstrike = 1".into(), 6, "`strikes`"),
        ("[reliable]\nflows = 0".into(), 6, "choose 1 to 64"),
        ("[reliable]\ncongestion = 'bic'".into(), 6, "newreno"),
        (
            "[[neighbor]]\nname = 'x'".into(),
            5,
            "missing field `address`",
        ),
        (
            "[[renewal.others]]\nfrom = 'b:1'".into(),
            5,
            "missing field `key`",
        ),
        (
            format!(
                "[renewal]\nfrom = 'a:1'\nkey = '{0}'\n[[renewal.others]]\nfrom = 'b:1'\nkey = 'x'",
                "07".repeat(32)
            ),
            10,
            "64 hexadecimal digits",
        ),
        (
            "[[neighbor]]\nname = 'x'\naddress = '10.7.0.300'".into(),
            7,
            "10.7.0.3",
        ),
        (
            "[[neighbor]]\nname = 'x'\naddress = '239.1.1.1'".into(),
            7,
            "below 224.0.0.0",
        ),
        (neighbor("impair = 'loss=5'"), 8, "5%"),
        (neighbor("impair = 'loss=5%'"), 5, "lab = true"),
        (neighbor("endpoint = 5"), 8, "fra.example.net"),
        (neighbor("congestion = 'bic'"), 8, "newreno"),
        (neighbor("flows = 65"), 8, "choose 1 to 64"),
        (neighbor("random_losses = 'kept'"), 8, "spared"),
        (neighbor("hops = 0"), 8, "write 1 to 255"),
        (neighbor("hops = 256"), 8, "write 1 to 255"),
        (neighbor("hops = '3'"), 8, "expected"),
        ("probe_hops = 10".into(), 5, "boolean"),
        (neighbor("endpoint = 'fra'"), 8, "and a port"),
        (
            neighbor("endpoint = ['1.2.3.4:5', '1.2.3.4']"),
            8,
            "and a port",
        ),
        (neighbor(&neighbor("")), 8, "listed twice"),
        ("[[exit]]\nallow = ['10.1:80']".into(), 6, "example.org:80"),
        ("[[exit]]\nport = 99".into(), 5, "either `port` and `to`"),
        ("[clients]\nlisten = 'here'".into(), 6, "`here`"),
        ("[clients]\nlisten = '10.0.0.1:1'".into(), 5, "token_file"),
    ] {
        let message = load(&format!("{GOOD}{extra}")).unwrap_err();
        for expected in ["node.toml", &format!("line {line}"), expected] {
            assert!(message.contains(expected), "{extra}: {expected}: {message}");
        }
    }
    let none = GOOD.replace("'127.0.0.1:7700'", "");
    let message = load(&none).unwrap_err();
    assert!(
        message.contains("line 4") && message.contains("1 to 16"),
        "{message}"
    );
    let message = load("certificate = 'a'").unwrap_err();
    assert!(message.contains("missing field `key`"), "{message}");
}

#[test]
fn a_port_is_mapped_where_it_is_of_use_unless_it_is_said() {
    for (line, expected) in [
        ("", Wish::Auto),
        ("map_port = 'auto'\n", Wish::Auto),
        ("map_port = true\n", Wish::Yes),
        ("map_port = false\n", Wish::No),
    ] {
        let config = load(&format!("{GOOD}{line}")).unwrap();
        assert_eq!(config.map_port, expected, "{line}");
    }
}

#[test]
fn hops_are_those_of_the_neighbours_that_have_them() {
    let neighbor = |last: u8, more: &str| {
        format!("[[neighbor]]\nname = 'x'\naddress = '10.7.0.{last}'\n{more}\n")
    };
    let text = format!("{GOOD}{}{}", neighbor(2, "hops = 255"), neighbor(3, ""));
    let config = load(&text).unwrap();
    let expected = (NodeAddr(0x0a07_0002), NonZeroU8::MAX);
    assert_eq!(config.hops().collect::<Vec<_>>(), [expected]);
}

#[test]
fn a_source_specific_group_of_the_configuration_needs_its_source() {
    let group = |address: &str| {
        let config = load(&format!(
            "{GOOD}[[group]]\naddress = '{address}'\nsend = ['studio']\n"
        ))?;
        Ok::<_, String>(config.groups[0].address.clone())
    };
    for address in ["232.9.9.9", "232.9.0.0/16", "ff3e::8000:1"] {
        let why = group(address).unwrap_err();
        assert!(why.contains("@SOURCE"), "{address}: {why}");
    }
    assert_eq!(group("232.0.0.0/8").unwrap(), "232.0.0.0/8");
    let carried = crate::groups::one_group("232.1.1.1@10.0.0.5").unwrap();
    assert_eq!(group("232.1.1.1@10.0.0.5").unwrap(), carried.to_string());
}

#[test]
fn a_group_says_who_may_without_saying_how_it_is_carried() {
    use overlay::request::Operation;
    let group = |more: &str| {
        let config = load(&format!(
            "{GOOD}[[group]]\naddress = '239.1.0.0/16'\n{more}"
        ))?;
        config.groups[0].wanted().operations()
    };
    let who = group("send = ['studio', '*-cam', 'tag:studio']").unwrap();
    let [Operation::Permit(permit)] = &who[..] else {
        panic!("not who may: {who:?}");
    };
    assert_eq!((permit.prefix, &permit.receive), (16, &None));
    assert_eq!(permit.send.as_ref().map(Vec::len), Some(3));
    let chosen = group("send = ['cam-*']").unwrap_err();
    assert!(chosen.contains("`cam-*`: `*` may only"), "{chosen}");
    let both = group("send = []\nrate = '5mbit'").unwrap();
    assert!(matches!(
        &both[..],
        [Operation::Permit(_), Operation::SetGroup { prefix: 16, .. }]
    ));
    // A group without these words is open to all, whatever was set before.
    let how = group("ways = 2").unwrap();
    let [Operation::Permit(permit), Operation::SetGroup { .. }] = &how[..] else {
        panic!("not how it is carried: {how:?}");
    };
    assert!(permit.is_open());
    for (written, ways) in [
        ("1", Ways::One),
        ("2", Ways::Two),
        ("'targeted'", Ways::Targeted),
        ("'auto'", Ways::Auto),
    ] {
        let how = group(&format!("ways = {written}")).unwrap();
        let [_, Operation::SetGroup { setting, .. }] = &how[..] else {
            panic!("not how it is carried: {how:?}");
        };
        assert_eq!(setting.map(|setting| setting.ways), Some(ways));
    }
    for (bad, says) in [
        ("ways = 3", "write 1, 2, targeted or auto"),
        ("ways = true", "write 1, 2, targeted or auto"),
        ("ways = 'default'", "or leave the key out"),
        (
            "ways = 'targeted'\ntree = 'scribe'",
            "Scribe builds one tree",
        ),
        (
            "ways = 'targeted'\nlink = 'reliable'",
            "wait for the slower",
        ),
    ] {
        let why = group(bad).unwrap_err();
        assert!(why.contains(says), "{bad}: {why}");
    }
    for (bad, says) in [
        ("send = ['']", "write a name like ams"),
        ("receive = ['@No Domain']", "a domain has"),
        ("send = ['@a*']", "a domain has"),
        ("send = ['tag:No']", "a tag has"),
    ] {
        let why = group(bad).unwrap_err();
        assert!(why.contains(says), "{bad}: {why}");
    }
}
