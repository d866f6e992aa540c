//! The loop's part in serving residents.

use super::{Driver, HostError, TOKEN_RESIDENTS};
use crate::resident::{self, Desk, RESIDENTS_MAX, Resident, Wish, Wishes};
use crate::status::BridgeStatus;
use base::{Duration, Engine, Input, Outbox, Time};
use net::epoll::Interest;
use overlay::Request;
use overlay::event::{Drop, Event};
use wire::SEALED_HEADROOM;

/// A resident, with the loop's state of it.
#[derive(Debug)]
pub(super) struct Lodger {
    resident: Box<dyn Resident>,
    /// It is to read its descriptor in this turn.
    is_ready: bool,
    /// While this is set, the poller does not watch its descriptor. The resident reads it at this time.
    gathers_until: Option<Time>,
}

impl Driver {
    /// Takes in a resident. Its first wishes are handled when the loop runs.
    pub fn take_in(&mut self, resident: Box<dyn Resident>) -> Result<(), HostError> {
        let i = self.lodgers.len();
        if i >= RESIDENTS_MAX {
            return Err(HostError::Io(std::io::Error::other("too many residents")));
        }
        let token = TOKEN_RESIDENTS + i as u64;
        self.poller.add(resident.fd(), token, Interest::READ)?;
        self.io.desks.push(Desk::default());
        let client = resident::client(i);
        let request = Request::Options(resident.options());
        self.station.handle(
            self.io.now,
            Input::Request { client, request },
            &mut self.io,
        );
        let is_ready = true;
        self.lodgers.push(Lodger {
            resident,
            is_ready,
            gathers_until: None,
        });
        Ok(())
    }

    pub(super) fn on_resident(&mut self, i: usize) {
        if let Some(lodger) = self.lodgers.get_mut(i) {
            lodger.is_ready = true;
        }
    }

    /// Gives a turn to each resident that has something to do. Returns true if there was any.
    pub(super) fn serve_residents(&mut self) -> Result<bool, HostError> {
        let mut any = false;
        for i in 0..self.lodgers.len() {
            let lodger = &mut self.lodgers[i];
            let desk = &mut self.io.desks[i];
            lodger.is_ready |= lodger.gathers_until.is_some_and(|at| at <= self.io.now);
            let has_work = lodger.is_ready || desk.has_received();
            if !has_work && !lodger.resident.wait().is_zero() {
                continue;
            }
            any = true;
            let is_ready = core::mem::take(&mut lodger.is_ready);
            let came = desk.take();
            lodger.resident.turn(is_ready, &came, desk);
            desk.give_back(came);
            if is_ready {
                self.let_gather(i)?;
            }
            let wishes = self.io.desks[i].take_wishes();
            self.do_wishes(i, wishes);
        }
        Ok(any)
    }

    /// Watches a resident's descriptor, or waits for the time until which it lets packets gather.
    fn let_gather(&mut self, i: usize) -> Result<(), HostError> {
        let lodger = &mut self.lodgers[i];
        let span = lodger.resident.gather();
        let gathers = span.is_some();
        if gathers != lodger.gathers_until.is_some() {
            let interest = if gathers {
                Interest::NONE
            } else {
                Interest::READ
            };
            let token = TOKEN_RESIDENTS + i as u64;
            self.poller.modify(lodger.resident.fd(), token, interest)?;
        }
        lodger.gathers_until = span.map(|span| self.io.now + nanoseconds(span));
        Ok(())
    }

    fn do_wishes(&mut self, i: usize, mut wishes: Wishes) {
        let client = resident::client(i);
        for wish in wishes.members.drain(..) {
            let request = match wish {
                Wish::Join(group, port) => Request::Join { group, port },
                Wish::Leave(group, port) => Request::Leave { group, port },
            };
            let input = Input::Request { client, request };
            self.station.handle(self.io.now, input, &mut self.io);
        }
        let mut from = 0;
        for (to, port, end) in wishes.packets.drain(..) {
            let packet = &wishes.bytes[from..end];
            from = end;
            // A longer payload is fragmented inside the node and needs no headroom.
            let is_short = packet.len() <= overlay::node::MAX_PAYLOAD;
            let headroom = if is_short { SEALED_HEADROOM } else { 0 };
            let Some(payload) = self.io.pool.copy_of(headroom, packet) else {
                let reason = Drop::NoBuffer;
                self.io.report(Event::Dropped { reason, packets: 1 });
                continue;
            };
            let request = Request::Send { to, port, payload };
            let input = Input::Request { client, request };
            self.station.handle(self.io.now, input, &mut self.io);
        }
        wishes.bytes.clear();
        self.io.desks[i].give_back_wishes(wishes);
    }

    /// Returns the status of the residents that are bridges.
    pub(super) fn bridges(&self) -> Vec<BridgeStatus> {
        let lodgers = self.lodgers.iter();
        lodgers
            .filter_map(|lodger| lodger.resident.bridge())
            .collect()
    }

    /// Returns how long residents can wait.
    pub(super) fn residents_wait(&self, now: Time) -> Option<Duration> {
        let waits = self.lodgers.iter().map(|lodger| {
            let own = nanoseconds(lodger.resident.wait());
            let gathers = lodger.gathers_until.map(|at| at.since(now));
            gathers.map_or(own, |gathers| gathers.min(own))
        });
        waits.min()
    }

    pub(super) fn leave_residents(&mut self) {
        for lodger in &mut self.lodgers {
            lodger.resident.leave();
        }
    }
}

fn nanoseconds(span: std::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{AMS, driver, identity};
    use base::{Burst, NodeAddr};
    use secure::Authority;
    use std::cell::Cell;
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;
    use std::time::Duration as Span;

    const LONG: Span = Span::from_secs(3_600);

    #[derive(Debug)]
    struct Listener {
        input: UnixStream,
        gather: Rc<Cell<Option<Span>>>,
        looks: Rc<Cell<usize>>,
    }

    impl Resident for Listener {
        fn options(&self) -> overlay::request::Options {
            overlay::request::Options::default()
        }
        fn fd(&self) -> BorrowedFd<'_> {
            self.input.as_fd()
        }
        fn turn(&mut self, is_ready: bool, _: &[(NodeAddr, Burst)], _: &mut Desk) {
            if is_ready {
                self.looks.update(|looks| looks + 1);
                // It is no error if there is nothing to read.
                let _ = self.input.read(&mut [0; 16]);
            }
        }
        fn wait(&self) -> Span {
            LONG * 2
        }
        fn gather(&self) -> Option<Span> {
            self.gather.get()
        }
        fn leave(&mut self) {}
    }

    fn turn(driver: &mut Driver) {
        let mut ready = Vec::new();
        driver
            .poller
            .wait(Some(Duration::ZERO), &mut ready)
            .unwrap();
        driver.turn(&ready, &mut true).unwrap();
    }

    #[test]
    fn what_gathers_is_looked_at_when_its_time_has_come_and_not_before() {
        let mut authority = Authority::generate(&[7; 32]);
        let identity = identity(&mut authority, [1; 64], AMS);
        let mut driver = driver(identity, authority.network(), None);
        let (input, mut far) = UnixStream::pair().unwrap();
        input.set_nonblocking(true).unwrap();
        let (gather, looks) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(0)));
        let listener = Listener {
            input,
            gather: Rc::clone(&gather),
            looks: Rc::clone(&looks),
        };
        driver.take_in(Box::new(listener)).unwrap();
        turn(&mut driver);
        assert_eq!(looks.get(), 1);
        turn(&mut driver);
        assert_eq!(looks.get(), 1, "nothing came");
        gather.set(Some(LONG));
        far.write_all(b"a").unwrap();
        turn(&mut driver);
        assert_eq!(looks.get(), 2);
        far.write_all(b"b").unwrap();
        turn(&mut driver);
        assert_eq!(looks.get(), 2, "it gathers");
        assert!(driver.residents_wait(driver.io.now) <= Some(nanoseconds(LONG)));
        // This simulates that its time has come.
        driver.lodgers[0].gathers_until = Some(Time::ZERO);
        assert_eq!(driver.residents_wait(driver.io.now), Some(Duration::ZERO));
        gather.set(None);
        turn(&mut driver);
        assert_eq!(looks.get(), 3);
        turn(&mut driver);
        assert_eq!(looks.get(), 3, "nothing came");
        far.write_all(b"c").unwrap();
        turn(&mut driver);
        assert_eq!(looks.get(), 4, "it is waited for again");
    }
}
