//! The names of groups on the command line and in configurations: groups of IPv4 and IPv6, source-specific groups with
//! their source, and ranges. All become groups and ranges of the overlay.

use crate::show::list;
use base::NodeAddr;
use gateway::multicast::channel::carrier;
use gateway::multicast::rules::is_source_specific;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Converts a group of IPv6, or a source-specific one with its source, to the overlay's group. Other words stay as they
/// are.
pub(super) fn groups(text: &str) -> Result<String, String> {
    let Some((group, source)) = text.split_once('@') else {
        return match text.parse() {
            Ok(IpAddr::V6(group)) if group.is_multicast() && !is_source_specific(group) => {
                Ok(carrier(group, Ipv6Addr::UNSPECIFIED).to_string())
            }
            Ok(IpAddr::V6(group)) if group.is_multicast() => {
                Err(needs_source(&group.to_string(), IPV6_CHANNELS))
            }
            _ => Ok(text.to_owned()),
        };
    };
    let bad = || format!("{text:?} is no group with a source, like 232.1.1.1@10.0.0.5");
    let group: IpAddr = group.parse().map_err(|_| bad())?;
    let source: IpAddr = source.parse().map_err(|_| bad())?;
    if group.is_ipv4() != source.is_ipv4() {
        return Err(bad());
    }
    if !is_source_specific(group) {
        return Err(format!(
            "{group}: only groups of 232.0.0.0/8 and ff3x::/32 have a tree for each source"
        ));
    }
    Ok(carrier(group, source).to_string())
}

/// The ranges of overlay groups that carry channels, of IPv4 and of IPv6.
const IPV4_CHANNELS: &str = "232.0.0.0/8";
const IPV6_CHANNELS: &str = "237.0.0.0/8";

fn needs_source(group: &str, range: &str) -> String {
    format!(
        "{group} is source-specific, and packets of each source travel in another overlay group: write {group}@SOURCE, \
         or {range} for all groups of all sources"
    )
}

/// Reads the group of a setting like [`groups`]. A single address of 232.0.0.0/8, or a part of this range, needs a
/// source: the addresses of packets in the overlay are hashes of a group and its source, so the setting would hold for
/// other groups than the user means, or for none.
pub(crate) fn set_groups(text: &str) -> Result<String, String> {
    let (base, bits) = text.split_once('/').unwrap_or((text, "32"));
    let is_channel = |base: NodeAddr| is_source_specific(Ipv4Addr::from(base.0));
    let is_part = bits.parse().is_ok_and(|bits: u8| bits > 8);
    if is_part && base.parse().is_ok_and(is_channel) {
        return Err(needs_source(base, IPV4_CHANNELS));
    }
    groups(text)
}

/// Returns what to write instead of a source-specific group without a source, unless it is an overlay group that
/// carries packets or has members.
pub(crate) fn lacks_source(group: NodeAddr, known: &Value) -> Option<String> {
    let is_empty = |key: &str| list(&known[key]).is_empty();
    let is_used = !is_empty("members") || !is_empty("sources") || known["clients"] != 0;
    let is_used = is_used && !known.is_null();
    let is_channel = is_source_specific(Ipv4Addr::from(group.0));
    (is_channel && !is_used).then(|| {
        let why = needs_source(&group.to_string(), IPV4_CHANNELS);
        format!("{why}; nobody has joined the overlay group {group}, and nobody sends to it")
    })
}

pub(crate) fn one_group(text: &str) -> Result<NodeAddr, String> {
    let group = groups(text)?;
    let bad = |_| format!("{text:?} is no group, like 239.1.1.1");
    group.parse().map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_source_specific_group_is_named_with_its_source() {
        let read = |text: &str| text.parse::<IpAddr>().unwrap();
        let [group, source] = ["232.1.1.1", "10.0.0.5"].map(read);
        let named = one_group("232.1.1.1@10.0.0.5");
        assert_eq!(named, Ok(carrier(group, source)));
        assert_eq!(one_group("239.1.1.1"), Ok(NodeAddr(0xef01_0101)));
        assert_eq!(groups("239.192.0.0/14"), Ok("239.192.0.0/14".to_owned()));
        let ours = ["ff1e::101", "fd00::5"].map(read);
        assert_eq!(one_group("ff1e::101"), Ok(carrier(ours[0], ours[1])));
        let channel = carrier(read("ff3e::8000:1"), ours[1]);
        assert_eq!(one_group("ff3e::8000:1@fd00::5"), Ok(channel));
        for text in [
            "232.1.1.1@",
            "x@10.0.0.5",
            "239.1.1.1@10.0.0.5",
            "ff3e::8000:1",
            "ff3e::8000:1@10.0.0.5",
        ] {
            assert!(groups(text).is_err(), "{text}");
        }
    }

    /// Packets to 232.9.9.9 travel in another group for each source, so a permission for the address alone would keep
    /// nobody out.
    #[test]
    fn a_source_specific_group_without_its_source_is_not_set() {
        for text in [
            "232.9.9.9",
            "232.9.9.9/32",
            "232.9.9.0/24",
            "232.128.0.0/9",
            "ff3e::8000:1",
        ] {
            let why = set_groups(text).unwrap_err();
            assert!(why.contains("@SOURCE"), "{text}: {why}");
        }
        let why = set_groups("232.9.9.9").unwrap_err();
        assert!(
            why.contains("write 232.9.9.9@SOURCE, or 232.0.0.0/8"),
            "{why}"
        );
        for text in [
            "232.0.0.0/8",
            "224.0.0.0/4",
            "239.1.1.1",
            "239.192.0.0/14",
            "232.9.9.9@10.7.0.1",
            "ff1e::101",
        ] {
            assert_eq!(set_groups(text), groups(text), "{text}");
        }
        // What was set by an earlier version can still be removed.
        assert_eq!(groups("232.9.9.9"), Ok("232.9.9.9".to_owned()));
    }

    #[test]
    fn a_source_specific_group_without_its_source_is_shown_only_if_packets_travel_in_it() {
        let read = |text: &str| text.parse().unwrap();
        let [alone, other] = ["232.9.9.9", "239.1.1.1"].map(read);
        let is_set = json!({"members": [], "clients": 0, "sources": [], "permits": [{}]});
        assert!(lacks_source(alone, &is_set).is_some_and(|why| why.contains("232.9.9.9@SOURCE")));
        assert!(lacks_source(alone, &Value::Null).is_some());
        assert_eq!(lacks_source(other, &is_set), None);
        // `sinew groups` lists the groups that carry channels.
        let carries = json!({"members": ["10.7.0.2"], "clients": 0, "sources": []});
        assert_eq!(lacks_source(alone, &carries), None);
    }
}
