//! How groups are carried, and where IP multicast enters: `[[group]]` and `[multicast]`.

use super::parse::{group_address, rate, span, ways};
use host::control::{AskedWays, Given, GroupSet};
use serde::Deserialize;

/// A bridge for IP multicast: the options of `sinew gateway multicast`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Multicast {
    /// The name of the TAP interface that the bridge makes; by default `sinew0`, unless `interface` is given.
    pub tap: Option<String>,
    /// The existing interface that the bridge uses.
    pub interface: Option<String>,
    /// The address of the TAP interface, like `10.1.0.1/24`.
    pub address: Option<String>,
    /// The longest packet of the TAP interface.
    pub mtu: Option<u16>,
    /// Groups that the bridge carries.
    pub groups: Option<String>,
    /// The deadline of packets in milliseconds.
    pub deadline_ms: Option<u64>,
    /// The share of packets that may remain lost on a link.
    pub target: Option<f64>,
    /// Most repair packets per packet.
    pub repair: Option<f64>,
    /// What packets need: `video` or `best-effort`.
    #[serde(alias = "class")]
    pub service: Option<String>,
    /// Deliver packets as they arrive, without ordering.
    pub unordered: bool,
    /// Drop packets with TTL 1.
    pub router_ttl: bool,
    /// Do not query for members.
    pub no_querier: bool,
    /// Groups that the bridge always joins.
    pub join: Vec<String>,
    /// Most groups that one host may be the first to join.
    pub host_groups: Option<u32>,
    /// The highest rate of one source, in Mbit/s.
    pub source_rate: Option<u32>,
    /// The priority of this bridge: if there are several, the one with the lowest priority carries the packets.
    pub priority: Option<u8>,
}

impl Multicast {
    /// Returns the same options as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let share = |share: Option<f64>| share.map(|share| share.to_string());
        let values = [
            ("--tap", self.tap.clone()),
            ("--interface", self.interface.clone()),
            ("--address", self.address.clone()),
            ("--mtu", number(self.mtu.map(u64::from))),
            ("--groups", self.groups.clone()),
            ("--deadline", number(self.deadline_ms)),
            ("--target", share(self.target)),
            ("--repair", share(self.repair)),
            ("--service", self.service.clone()),
            ("--host-groups", number(self.host_groups.map(u64::from))),
            ("--source-rate", number(self.source_rate.map(u64::from))),
            ("--priority", number(self.priority.map(u64::from))),
        ];
        let flags = [
            ("--unordered", self.unordered),
            ("--router-ttl", self.router_ttl),
            ("--no-querier", self.no_querier),
        ];
        let mut words = vec!["multicast".to_owned()];
        for (name, value) in values {
            words.extend(value.map(|value| format!("{name}={value}")));
        }
        words.extend(
            flags
                .iter()
                .filter(|(_, on)| *on)
                .map(|(name, _)| (*name).to_owned()),
        );
        words.extend(self.join.iter().map(|group| format!("--join={group}")));
        words
    }
}

/// How a group is to be carried, for the whole network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The group's address, with its source if it is source-specific (`232.1.1.1@10.0.0.5`), or a range like
    /// `239.192.0.0/14`. Here it is already the overlay's group or range.
    #[serde(deserialize_with = "group_address")]
    pub address: String,
    /// The rate of all its sources together, like `10mbit`.
    #[serde(default, deserialize_with = "rate")]
    pub rate: Option<u64>,
    /// The deadline of its packets, like `500ms`.
    #[serde(default, deserialize_with = "span")]
    pub deadline: Option<base::Duration>,
    /// `best-effort`, `real-time` or `reliable`.
    #[serde(default)]
    pub link: Option<String>,
    /// The metric by which its tree is computed.
    #[serde(default)]
    pub routing: Option<String>,
    /// The priority, 0 to 7.
    #[serde(default)]
    pub priority: Option<u8>,
    /// `link-state` or `scribe`.
    #[serde(default)]
    pub tree: Option<String>,
    /// 1; 2 for two trees; `"targeted"` for a second path to members in trouble; or `"auto"`.
    #[serde(default, deserialize_with = "ways")]
    pub ways: Option<AskedWays>,
    /// `as-it-comes`, `in-order` or `as-sent`.
    #[serde(default)]
    pub delivery: Option<String>,
    /// How long after its sending a packet is delivered.
    #[serde(default, deserialize_with = "span")]
    pub release: Option<base::Duration>,
    /// The share of its packets that may remain lost on a link.
    #[serde(default)]
    pub target: Option<f64>,
    /// Most repair packets per packet.
    #[serde(default)]
    pub repair: Option<f64>,
    /// The nodes that may send, by names (`ams`, `*-cam`, `10.7.0.3`), or by tags (`tag:studio`) and domains
    /// (`@example.com`) of certificates; all by default.
    #[serde(default)]
    pub send: Option<Vec<String>>,
    /// The nodes that may receive; all by default.
    #[serde(default)]
    pub receive: Option<Vec<String>>,
}

impl Group {
    /// Returns the same settings as the operator's command would have them.
    pub fn wanted(&self) -> GroupSet {
        // A missing list removes the limit, whatever was set before.
        let words = |words: &Option<Vec<String>>| {
            Some(words.clone().unwrap_or_else(|| vec!["*".to_owned()]))
        };
        let kbps = |bps: u64| u32::try_from(bps.div_ceil(1_000)).unwrap_or(u32::MAX);
        let ms = |time: base::Duration| u16::try_from(time.as_millis().max(1)).unwrap_or(u16::MAX);
        let word = |word: &Option<String>| word.clone().map(Given::Value);
        GroupSet {
            group: self.address.clone(),
            rate_kbps: self.rate.map(kbps).map(Given::Value),
            deadline_ms: self.deadline.map(ms).map(Given::Value),
            link: word(&self.link),
            routing: word(&self.routing),
            priority: self.priority.map(Given::Value),
            tree: word(&self.tree),
            ways: self.ways.clone(),
            delivery: word(&self.delivery),
            release_ms: self.release.map(ms).map(Given::Value),
            target: self.target.map(Given::Value),
            repair: self.repair.map(Given::Value),
            send: words(&self.send),
            receive: words(&self.receive),
            force: true,
        }
    }
}
