//! Watches what appears and disappears while the bridge runs: the interface and the node. Also publishes the counters.

use super::{Loop, NOT_SENT_HOLD, TOKEN_NODE, TOKEN_PORT};
use crate::multicast::GROUPS_TOLD_MAX;
use crate::multicast::device::Found;
use crate::multicast::drops::Drop;
use crate::multicast::igmp::{Address, Querier};
use crate::multicast::overlay::{Link, Overlay};
use crate::multicast::report::{Carried, Event, GroupReport, Report};
use base::{Duration, Time};
use client::Error;
use net::epoll::Interest;
use net::sched;
use std::io;
use std::sync::atomic::Ordering;
use std::thread;

/// The time between checks of an existing interface, and of a missing one.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_FOR_EVERY: Duration = Duration::from_millis(250);
/// The time between attempts to reach the node again.
const NODE_EVERY: core::time::Duration = core::time::Duration::from_millis(250);

impl<O: Overlay> Loop<O> {
    /// Checks whether the interface exists, and its properties.
    pub(super) fn look(&mut self, now: Time) -> io::Result<()> {
        let found = self.device.look();
        self.next_look = now
            + match self.device.is_here() {
                true => LOOK_EVERY,
                false => LOOK_FOR_EVERY,
            };
        match found? {
            Found::Same => {}
            Found::Here { port, is_new } => {
                if is_new {
                    let name = self.device.name().to_owned();
                    self.effects.events.push(Event::Interface {
                        name,
                        is_here: true,
                    });
                    if let Some(fd) = self.device.fd() {
                        // The descriptor of a TAP is watched since the first time.
                        match self.poller.add(fd, TOKEN_PORT, Interest::READ) {
                            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                                return Err(error);
                            }
                            _ => {}
                        }
                    }
                }
                self.bridge.set_port(now, Some(port), &mut self.effects);
            }
            Found::Gone => self.on_port_gone(now),
        }
        Ok(())
    }

    pub(super) fn lose_port(&mut self, now: Time, error: &io::Error) {
        // The kernel reports this once when an interface goes down.
        if error.kind() == io::ErrorKind::Interrupted {
            return;
        }
        // The kernel would report the error again and again, also if the interface was down before it disappeared.
        let was_here = self.device.is_here();
        self.device.lose();
        self.next_look = now + LOOK_FOR_EVERY;
        if was_here {
            self.on_port_gone(now);
        }
    }

    fn on_port_gone(&mut self, now: Time) {
        let name = self.device.name().to_owned();
        let is_here = false;
        self.effects.events.push(Event::Interface { name, is_here });
        self.bridge.set_port(now, None, &mut self.effects);
    }

    /// Handles the loss of the node. A thread of its own tries to reconnect, because this may wait.
    pub(super) fn lose_node(&mut self, now: Time, error: Error) {
        self.link = None;
        self.reaches = None;
        self.bridge.set_reach(now, false, &mut self.effects);
        self.effects.events.push(Event::NodeAway(error));
        let shared = self.shared.clone();
        let look = move || {
            while !shared.stop.load(Ordering::Acquire) {
                thread::sleep(NODE_EVERY);
                // Another node at the same place would send under a different address.
                let found = shared.overlay.connect().ok();
                if let Some(link) = found.filter(|link| link.node() == shared.node) {
                    *shared.found() = Some(link);
                    return shared.waker.wake();
                }
            }
        };
        let thread = thread::Builder::new().name("multicast-node".into());
        if let Err(error) = thread.spawn(look) {
            self.warn(format!("the node is not looked for: {error}"));
        }
    }

    pub(super) fn on_wake(&mut self) {
        self.shared.waker.drain();
        let found = self.shared.found().take();
        if let Some(link) = found {
            if let Err(error) = self.poller.add(&link, TOKEN_NODE, Interest::READ) {
                self.warn(format!("the node cannot be watched: {error}"));
            }
            self.link = Some(link);
            self.effects.members.on_node();
            self.effects.events.push(Event::NodeBack);
        }
    }

    /// Publishes the counters and the members for [`Report`].
    pub(super) fn publish(&mut self) {
        let unknown = self.device.unknown();
        let new = unknown.saturating_sub(self.unknown);
        self.bridge.on_refused(Drop::Offload, new);
        self.unknown = unknown;
        let (v4, v6) = self.bridge.queriers();
        let told = groups(v4).chain(groups(v6)).take(GROUPS_TOLD_MAX);
        let now = self.shared.clock.now();
        self.not_sent.retain(|_, said| *said + NOT_SENT_HOLD > now);
        let carried = self.bridge.tallies().take(GROUPS_TOLD_MAX);
        let report = Report {
            refused_sends: self.not_sent.len(),
            carried: carried
                .map(|(by, ip, &tally)| Carried { by, ip, tally })
                .collect(),
            interface: self.device.name().to_owned(),
            is_here: self.device.is_here(),
            role: self.bridge.role(),
            is_querier: v4.is_querier(),
            other_querier: v4.other(),
            other_querier_v6: v6.other(),
            connected: self.link.is_some(),
            groups: v4.groups().len() + v6.groups().len(),
            is_cut_off: self.bridge.is_cut_off(),
            joined: self.effects.members.joined(),
            refused: self.effects.members.refused(),
            members: told.collect(),
            counters: *self.bridge.counters(),
            cpu: sched::thread_cpu(),
            reported: 0,
        };
        let mut last = self.shared.report();
        let reported = last.reported + 1;
        *last = Report { reported, ..report };
    }
}

fn groups<A: Address>(querier: &Querier<A>) -> impl Iterator<Item = GroupReport> + '_ {
    querier.groups().map(|(group, state)| GroupReport {
        group: group.into(),
        sources: state
            .included()
            .map(|sources| sources.map(Into::into).collect()),
    })
}
