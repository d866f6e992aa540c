//! The subject of a log line, for programs: the name of the event and its values, as in the event itself.
//!
//! ```text
//!   json      {"event":"link-down","node":"ams","peer":"10.7.0.2","text":"link to 10.7.0.2 is down: silence","why":"silence",…}
//!   journal   SINEW_EVENT=link-down  SINEW_PEER=10.7.0.2  SINEW_WHY=silence
//! ```
//! The names are a contract: a program that searches for them must not break when the wording of a text changes.

use overlay::event::Event;
use std::fmt::Display;

/// The fields of one line. A line without a subject has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(&'static str, String)>);

impl Fields {
    /// Creates the fields of an event with this name.
    pub fn event(name: &'static str) -> Fields {
        Fields(vec![("event", name.to_owned())])
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Display) -> Fields {
        self.0.push((key, value.to_string()));
        self
    }

    /// Returns all fields.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(key, value)| (*key, value.as_str()))
    }

    /// Returns the fields of an event that is logged; no fields for other events.
    pub(super) fn of(event: &Event) -> Fields {
        let of = Fields::event;
        match *event {
            Event::Established { peer, at } => of("session").with("peer", peer).with("at", at),
            Event::Refused { from, why } => of("handshake-refused")
                .with("at", from)
                .with("why", why.label()),
            Event::EndRefused { node, why } => of("end-refused")
                .with("peer", node)
                .with("why", why.label()),
            Event::Unanswered { peer, at, silence } => of("unanswered")
                .with("peer", peer)
                .with("at", at)
                .with("silence_ms", silence.as_millis()),
            Event::PathBad { to, lost } => {
                of("path-bad").with("to", to).with("lost_pct", pct(lost))
            }
            Event::Suspected {
                suspect,
                to,
                lost,
                among,
            } => of("suspected")
                .with("suspect", suspect)
                .with("to", to)
                .with("lost_pct", pct(lost))
                .with("among", among),
            Event::Unsuspected { suspect, to } => {
                of("unsuspected").with("suspect", suspect).with("to", to)
            }
            Event::GroupStarved { group, to, lost } => of("group-starved")
                .with("group", group)
                .with("to", to)
                .with("lost_pct", pct(lost)),
            Event::GroupWhole { group, to } => {
                of("group-whole").with("group", group).with("to", to)
            }
            Event::LinkUp { peer } => of("link-up").with("peer", peer),
            Event::LinkDown { peer, why } => of("link-down").with("peer", peer).with("why", why),
            Event::Way { peer, is_stream } => of("way")
                .with("peer", peer)
                .with("over", if is_stream { "tcp" } else { "udp" }),
            Event::PathChanged {
                peer,
                from,
                to,
                why,
            } => of("path-changed")
                .with("peer", peer)
                .with("from", from)
                .with("from_socket", from.socket)
                .with("at", to)
                .with("at_socket", to.socket)
                .with("why", why),
            Event::Moved { peer, at } => of("moved").with("peer", peer).with("at", at),
            Event::RecordRefused { origin } => of("record-refused").with("peer", origin),
            Event::Double { node, is_own } => {
                of("double").with("peer", node).with("is_own", is_own)
            }
            Event::RootSucceeded { number, until_s } => of("root-succeeded")
                .with("root", number)
                .with("until_s", until_s),
            Event::RootRefused { number } => of("root-refused").with("root", number),
            Event::GroupsIgnored { by, group, prefix } => of("groups-ignored")
                .with("peer", by)
                .with("group", format_args!("{group}/{prefix}")),
            _ => Fields::default(),
        }
    }
}

/// Converts per mille to per cent.
fn pct(lost: u16) -> f64 {
    f64::from(lost) / 10.0
}
