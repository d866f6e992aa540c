//! Sums of the kernel's information about the connections of one segment, and for how long they idled, and why.

/// Sums since the segment began, and the present round trips.
#[derive(Clone, Default)]
pub(super) struct Totals {
    pub(super) bytes: u64,
    pub(super) resent: u64,
    /// For each connection in use: how long it had something to send, and for how long the other end took nothing.
    pub(super) each_us: Vec<(u64, u64)>,
    pub(super) rtt_us: u32,
    pub(super) min_rtt_us: u32,
}

impl Totals {
    /// Notes the present and the least round trip of each uplink. Each uplink has a queue of its own: the longest queue
    /// counts, added to the longest path. If the longest total counted instead, a millisecond of jitter would look like
    /// a path that has become longer.
    pub(super) fn note_round_trips(&mut self, uplinks: &[(u32, u32)]) {
        let queues = uplinks
            .iter()
            .map(|(rtt, least)| rtt.saturating_sub(*least));
        let queue_us = queues.max().unwrap_or_default();
        let ways = uplinks.iter().map(|(_, least)| *least);
        self.min_rtt_us = ways.max().unwrap_or_default();
        self.rtt_us = self.min_rtt_us + queue_us;
    }

    /// Returns the shares of a span, in 1000ths, in which the next node took nothing, and in which there was nothing to
    /// send, averaged over all connections.
    pub(super) fn shares(&self, last: &Totals, span_us: u64) -> (u16, u16) {
        let each = self.each_idle(last, span_us);
        let count = each.len().max(1) as u64;
        let mean = |sum: u64| u16::try_from(sum / count).unwrap_or(1_000);
        let waited = each.iter().map(|(waited, _)| u64::from(*waited)).sum();
        let starved = each.iter().map(|(_, starved)| u64::from(*starved)).sum();
        (mean(waited), mean(starved))
    }

    /// Returns the same shares of the connection that idled least: if one connection is stuck, the others wait for it,
    /// and yet the segment is as slow as the network makes it.
    pub(super) fn least_idle(&self, last: &Totals, span_us: u64) -> (u16, u16) {
        let each = self.each_idle(last, span_us).into_iter();
        let least = each.min_by_key(|(waited, starved)| waited + starved);
        least.unwrap_or((0, 1_000))
    }

    /// Returns the shares of a span, in 1000ths, in which each connection could not send, because the next node took
    /// nothing, and because there was nothing to send.
    fn each_idle(&self, last: &Totals, span_us: u64) -> Vec<(u16, u16)> {
        let share = |now_us: u64, then_us: u64| {
            let us = now_us.saturating_sub(then_us);
            u16::try_from((us * 1_000 / span_us.max(1)).min(1_000)).unwrap_or(1_000)
        };
        let both = self.each_us.iter().zip(&last.each_us);
        let both = both.map(|(now, last)| (share(now.1, last.1), 1_000 - share(now.0, last.0)));
        both.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_uplinks_of_unequal_length_the_longest_queue_counts_wherever_it_is() {
        let noted = |uplinks: &[(u32, u32)]| {
            let mut totals = Totals::default();
            totals.note_round_trips(uplinks);
            (totals.rtt_us, totals.min_rtt_us)
        };
        assert_eq!(
            noted(&[(15_000, 10_000), (151_000, 150_000)]),
            (155_000, 150_000)
        );
        assert_eq!(
            noted(&[(11_000, 10_000), (155_000, 150_000)]),
            (155_000, 150_000)
        );
        assert_eq!(noted(&[(60_000, 10_000)]), (60_000, 10_000));
        assert_eq!(noted(&[]), (0, 0));
    }

    #[test]
    fn the_connection_that_cannot_get_on_is_no_idle_one() {
        let of = |each_us: &[(u64, u64)]| Totals {
            each_us: each_us.to_vec(),
            ..Totals::default()
        };
        // One connection waits for an acknowledgement, and the others have nothing to send meanwhile.
        let stuck = (
            of(&[(0, 0); 4]),
            of(&[(1_000_000, 0), (0, 0), (0, 0), (200_000, 100_000)]),
        );
        assert_eq!(stuck.1.least_idle(&stuck.0, 1_000_000), (0, 0));
        assert_eq!(stuck.1.shares(&stuck.0, 1_000_000), (25, 700));
        // The next node takes nothing from any connection.
        let slow = of(&[(1_000_000, 700_000); 4]);
        assert_eq!(slow.least_idle(&stuck.0, 1_000_000), (700, 0));
        assert_eq!(slow.least_idle(&Totals::default(), 1_000_000), (0, 1_000));
    }
}
