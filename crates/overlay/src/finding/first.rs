//! The neighbours by which a node enters the network: they are configured, and dialled as long as the links of its own
//! choice are too few.
//!
//! ```text
//!   no link at all       one, and one more every 2 s
//!   too few chosen ones  one, and one more every 10 s
//!   else                 none; but who is not reached by any way is looked for now and then
//! ```
//! The last rule joins parts of a network that have lost each other.

use super::LEAST;
use super::view::place;
use base::{Duration, NodeAddr, Time};

/// One more is dialled after so long without any link.
const NO_ANSWER: Duration = Duration::from_secs(2);
/// And after so long with too few.
const TOO_FEW: Duration = Duration::from_secs(10);
/// One that is not reached is looked for once in so long, for so long.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_FOR: Duration = Duration::from_secs(5);

/// One of them, and how it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrance {
    pub(crate) addr: NodeAddr,
    pub(crate) is_up: bool,
    pub(crate) is_reached: bool,
}

/// Which of them are wanted.
#[derive(Debug, Default)]
pub(crate) struct First {
    alone_since: Option<Time>,
    few_since: Option<Time>,
    looked_for: Option<(NodeAddr, Time)>,
    last_look: Option<NodeAddr>,
    next_look: Time,
    wanted: Vec<NodeAddr>,
}

impl First {
    /// The link to it is kept for now.
    pub(crate) fn wants(&self, of: NodeAddr) -> bool {
        self.wanted.contains(&of)
    }

    /// Chooses anew, for a node with so many `links`, and so many of its own choice among them.
    pub(crate) fn review(
        &mut self,
        now: Time,
        own: NodeAddr,
        all: &[Entrance],
        (links, chosen): (usize, usize),
    ) {
        let steps = |since: Time, step: Duration| {
            1 + (now.since(since).as_nanos() / step.as_nanos()) as usize
        };
        self.alone_since = (links == 0).then(|| self.alone_since.unwrap_or(now));
        self.few_since = (chosen < LEAST).then(|| self.few_since.unwrap_or(now));
        let alone = self.alone_since.map(|since| steps(since, NO_ANSWER));
        let few = self
            .few_since
            .map(|since| steps(since, TOO_FEW).min(LEAST - chosen));
        let count = alone.or(few).unwrap_or(0);
        // Each node begins elsewhere, so that the one which all know does not carry all.
        let mut order: Vec<&Entrance> = all.iter().collect();
        let mixed = |it: &Entrance| place(NodeAddr(it.addr.0 ^ own.0.rotate_left(16)));
        order.sort_by_key(|it| (!it.is_up, mixed(it)));
        self.wanted = order.iter().take(count).map(|it| it.addr).collect();
        if links == 0 {
            // The others come with the first records.
            self.next_look = now + TOO_FEW;
        }
        self.look(now, all);
        self.wanted.extend(self.looked_for.map(|(of, _)| of));
    }

    fn look(&mut self, now: Time, all: &[Entrance]) {
        let mut lost: Vec<NodeAddr> = all
            .iter()
            .filter(|it| !it.is_reached)
            .map(|it| it.addr)
            .collect();
        lost.sort_unstable();
        let goes_on = |(of, since): &(NodeAddr, Time)| {
            lost.binary_search(of).is_ok() && now.since(*since) < LOOK_FOR
        };
        self.looked_for = self.looked_for.filter(goes_on);
        if self.looked_for.is_some() || now < self.next_look {
            return;
        }
        let mut after = lost.iter().filter(|of| self.last_look < Some(**of));
        let next = after.next().or(lost.first()).copied();
        if let Some(next) = next {
            self.looked_for = Some((next, now));
            self.last_look = Some(next);
            self.next_look = now + LOOK_EVERY;
        }
    }
}
