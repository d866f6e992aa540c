//! Both directions of a link's reliable lane.

use super::{Receiver, ReceiverStats, Sender, SenderStats, Settings, Told};
use base::Time;

/// The reliable lane of one link.
#[derive(Debug)]
pub struct Lane {
    /// The direction to the neighbour.
    pub sender: Sender,
    /// The direction from the neighbour.
    pub receiver: Receiver,
    /// What this node has told the neighbour about held destinations.
    pub told: Told,
}

/// Counters of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStats {
    /// The direction to the neighbour.
    pub sender: SenderStats,
    /// The direction from the neighbour.
    pub receiver: ReceiverStats,
}

impl Lane {
    /// Creates a lane on which nothing has been sent.
    pub fn new(settings: Settings) -> Lane {
        Lane {
            sender: Sender::new(settings),
            receiver: Receiver::default(),
            told: Told::default(),
        }
    }

    /// Returns when something is due.
    pub fn next_timeout(&self) -> Option<Time> {
        let (sender, receiver) = (self.sender.next_timeout(), self.receiver.next_timeout());
        let all = [sender, receiver, self.told.next_timeout()];
        all.into_iter().flatten().min()
    }

    /// Begins both directions at number 0, because the neighbour has restarted.
    pub fn restart(&mut self) {
        self.sender.restart();
        self.receiver.reset();
        self.told.reset();
    }

    /// Takes in whether the neighbour lets acknowledgements wait for the next packet at present. A neighbour that ever
    /// does supports this, so its own acknowledgements may wait as well if this node lets them.
    pub fn on_peer(&mut self, lets_wait: bool) {
        self.sender.on_peer(lets_wait);
        self.receiver.set_acks_wait(lets_wait);
    }

    /// Returns the counters.
    pub fn stats(&self) -> LaneStats {
        LaneStats {
            sender: self.sender.stats(),
            receiver: self.receiver.stats(),
        }
    }
}
