//! The packet pool against a naive model: a burst is a `Vec<Vec<u8>>`.
//!
//! Many bursts at once go through random splits, appends, trims, pushes and writes. After every step each burst must
//! hold what its model holds, so no two bursts share a byte, and the slots in use must be those with a living burst.

use base::pool::{Burst, LARGE_BYTES, Pool, SMALL_BYTES};
use proptest::prelude::*;

const LARGE_SLOTS: usize = 3;
const SMALL_SLOTS: usize = 4;
const HEADROOM: usize = 40;

#[derive(Clone, Debug)]
enum Step {
    Take {
        large: bool,
    },
    Fill {
        which: usize,
        stride: usize,
        segments: usize,
        last: usize,
    },
    Copy {
        bytes: usize,
    },
    Append {
        which: usize,
        bytes: usize,
    },
    Split {
        which: usize,
        count: usize,
    },
    Trim {
        which: usize,
        front: usize,
        back: usize,
    },
    Push {
        which: usize,
        bytes: usize,
    },
    Write {
        which: usize,
        segment: usize,
        byte: u8,
    },
    Drop {
        which: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0usize..12;
    prop_oneof![
        any::<bool>().prop_map(|large| Step::Take { large }),
        (which.clone(), 1usize..300, 1usize..20, 0usize..300).prop_map(
            |(which, stride, segments, last)| Step::Fill {
                which,
                stride,
                segments,
                last
            }
        ),
        (1usize..3000).prop_map(|bytes| Step::Copy { bytes }),
        (which.clone(), 0usize..300).prop_map(|(which, bytes)| Step::Append { which, bytes }),
        (which.clone(), 0usize..20).prop_map(|(which, count)| Step::Split { which, count }),
        (which.clone(), 0usize..60, 0usize..60).prop_map(|(which, front, back)| Step::Trim {
            which,
            front,
            back
        }),
        (which.clone(), 0usize..50).prop_map(|(which, bytes)| Step::Push { which, bytes }),
        (which.clone(), 0usize..20, any::<u8>()).prop_map(|(which, segment, byte)| Step::Write {
            which,
            segment,
            byte
        }),
        which.prop_map(|which| Step::Drop { which }),
    ]
}

/// A burst, its expected content, and its slot.
struct Held {
    burst: Burst,
    model: Vec<Vec<u8>>,
    slot: u32,
    large: bool,
}

struct Bench {
    pool: Pool,
    held: Vec<Held>,
    slots: u32,
    /// It differs with every datagram written, so that a mix-up shows.
    stamp: u8,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            pool: Pool::new(LARGE_SLOTS, SMALL_SLOTS),
            held: Vec::new(),
            slots: 0,
            stamp: 0,
        }
    }

    fn used(&self, large: bool) -> usize {
        let mut slots: Vec<u32> = self
            .held
            .iter()
            .filter(|h| h.large == large)
            .map(|h| h.slot)
            .collect();
        slots.sort_unstable();
        slots.dedup();
        slots.len()
    }

    fn datagram(&mut self, bytes: usize) -> Vec<u8> {
        self.stamp = self.stamp.wrapping_add(1);
        (0..bytes)
            .map(|i| self.stamp ^ (i as u8).rotate_left(3))
            .collect()
    }

    fn hold(&mut self, burst: Burst, model: Vec<Vec<u8>>, large: bool) {
        self.slots += 1;
        self.held.push(Held {
            burst,
            model,
            slot: self.slots,
            large,
        });
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Take { large } => self.take(large),
            Step::Copy { bytes } => {
                let data = self.datagram(bytes);
                let large = bytes + HEADROOM > SMALL_BYTES;
                let free = self.used(large) < if large { LARGE_SLOTS } else { SMALL_SLOTS };
                let copy = self.pool.copy_of(HEADROOM, &data);
                assert_eq!(copy.is_some(), free);
                if let Some(burst) = copy {
                    assert_eq!(burst.headroom(), HEADROOM);
                    self.hold(burst, vec![data], large);
                }
            }
            Step::Fill {
                which,
                stride,
                segments,
                last,
            } => {
                let last = last % stride + 1;
                let model: Vec<Vec<u8>> = (0..segments)
                    .map(|i| self.datagram(if i + 1 < segments { stride } else { last }))
                    .collect();
                let Some(held) = self.held.get_mut(which) else {
                    return;
                };
                let all = model.concat();
                if held.model.is_empty() && held.burst.spare_mut().len() >= all.len() {
                    held.burst.spare_mut()[..all.len()].copy_from_slice(&all);
                    held.burst.fill(all.len(), stride);
                    held.model = model;
                }
            }
            Step::Append { which, bytes } => {
                let data = self.datagram(bytes);
                let Some(held) = self.held.get_mut(which) else {
                    return;
                };
                let room = held.burst.spare_mut().len() >= bytes;
                let fits = match (held.model.first(), held.model.last()) {
                    (Some(first), Some(last)) => last.len() == first.len() && bytes <= first.len(),
                    _ => true,
                };
                assert_eq!(held.burst.append(&data), room && fits && bytes > 0);
                if room && fits && bytes > 0 {
                    held.model.push(data);
                }
            }
            Step::Split { which, count } => {
                let Some(held) = self.held.get_mut(which) else {
                    return;
                };
                let burst = held.burst.split_front(count);
                let model = held.model.drain(..count.min(held.model.len())).collect();
                let (slot, large) = (held.slot, held.large);
                self.held.push(Held {
                    burst,
                    model,
                    slot,
                    large,
                });
            }
            Step::Trim { which, front, back } => {
                let Some(held) = self.held.get_mut(which) else {
                    return;
                };
                if let [only] = held.model.as_mut_slice()
                    && front + back < only.len()
                {
                    held.burst.trim(front, back);
                    *only = only[front..only.len() - back].to_vec();
                }
            }
            Step::Push { which, bytes } => {
                let data = self.datagram(bytes);
                let Some(held) = self.held.get_mut(which) else {
                    return;
                };
                if let [only] = held.model.as_mut_slice()
                    && bytes <= held.burst.headroom()
                {
                    held.burst.push_front(bytes);
                    held.burst.bytes_mut()[..bytes].copy_from_slice(&data);
                    only.splice(0..0, data);
                }
            }
            Step::Write {
                which,
                segment,
                byte,
            } => {
                let Some(held) = self.held.get_mut(which) else {
                    return;
                };
                if let Some(model) = held.model.get_mut(segment) {
                    held.burst.segment_mut(segment).fill(byte);
                    model.fill(byte);
                }
            }
            Step::Drop { which } => {
                if which < self.held.len() {
                    self.held.swap_remove(which);
                }
            }
        }
    }

    fn take(&mut self, large: bool) {
        let (taken, limit, bytes) = if large {
            (self.pool.large(), LARGE_SLOTS, LARGE_BYTES)
        } else {
            (self.pool.small(), SMALL_SLOTS, SMALL_BYTES)
        };
        assert_eq!(taken.is_some(), self.used(large) < limit);
        if let Some(mut burst) = taken {
            assert!(burst.is_empty() && burst.capacity() == bytes && burst.headroom() == 0);
            burst.reserve_front(HEADROOM);
            self.hold(burst, Vec::new(), large);
        }
    }

    fn check(&self) {
        for Held { burst, model, .. } in &self.held {
            assert_eq!(burst.segments(), model.len());
            for (i, expected) in model.iter().enumerate() {
                assert_eq!(burst.segment(i), expected);
            }
            assert_eq!(burst.bytes(), model.concat());
        }
        assert_eq!(self.pool.in_use(), (self.used(true), self.used(false)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn bursts_agree_with_vectors(steps in proptest::collection::vec(step(), 1..80)) {
        let mut bench = Bench::new();
        for step in steps {
            bench.apply(step);
            bench.check();
        }
        bench.held.clear();
        prop_assert_eq!(bench.pool.in_use(), (0, 0));
    }
}
