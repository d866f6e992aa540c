use super::*;
use crate::Duration;

fn filled(pool: &Pool, segments: usize, stride: usize, last: usize) -> Burst {
    let mut burst = pool.large().unwrap();
    let len = (segments - 1) * stride + last;
    for (i, byte) in burst.spare_mut()[..len].iter_mut().enumerate() {
        *byte = (i / stride) as u8;
    }
    burst.fill(len, stride);
    burst
}

#[test]
fn segments_are_cut_at_the_stride_and_the_last_may_be_short() {
    let pool = Pool::new(1, 0);
    let burst = filled(&pool, 4, 100, 30);
    assert_eq!((burst.segments(), burst.segment(3).len()), (4, 30));
    assert!(burst.segment(2).iter().all(|&b| b == 2));
}

#[test]
fn a_copy_has_the_same_segments_and_a_slot_of_its_own() {
    let pool = Pool::new(1, 1);
    let mut burst = filled(&pool, 3, 100, 60);
    let rest = burst.split_front(1);
    let mut copy = pool.copy_burst(&burst).unwrap();
    assert_eq!((copy.segments(), copy.segment(1)), (2, burst.segment(1)));
    copy.segment_mut(0).fill(0xee);
    assert_ne!(copy.segment(0), burst.segment(0));
    assert_eq!(pool.in_use(), (1, 1));
    assert!(pool.copy_burst(&rest).is_none(), "there are no more slots");
}

#[test]
fn split_parts_are_disjoint_and_the_slot_comes_back_once() {
    let pool = Pool::new(1, 0);
    let mut back = filled(&pool, 5, 10, 10);
    let mut front = back.split_front(2);
    front.bytes_mut().fill(0xaa);
    assert_eq!((front.segments(), back.segments()), (2, 3));
    assert_eq!(back.segment(0), [2; 10]);
    assert!(pool.large().is_none(), "the only slot is in use");
    drop(front);
    assert!(pool.large().is_none());
    drop(back);
    assert_eq!(pool.in_use(), (0, 0));
    assert!(pool.large().is_some());
}

#[test]
fn headers_are_pushed_and_trimmed_without_moving_the_payload() {
    let pool = Pool::new(0, 1);
    let mut burst = pool.copy_of(31, b"voice").unwrap();
    burst.push_front(31);
    assert_eq!(&burst.bytes()[31..], b"voice");
    burst.trim(31, 2);
    assert_eq!(burst.bytes(), b"voi");
}

#[test]
fn appending_keeps_the_rule_of_equal_sizes() {
    let pool = Pool::new(1, 0);
    let mut burst = pool.large().unwrap();
    assert!(burst.append(&[1; 20]) && burst.append(&[2; 20]));
    assert!(!burst.append(&[3; 21]), "longer than the stride");
    assert!(burst.append(&[4; 5]));
    assert!(!burst.append(&[5; 20]), "nothing follows a short one");
    assert_eq!((burst.segments(), burst.len()), (3, 45));
}

#[test]
fn a_burst_may_outlive_its_pool() {
    let pool = Pool::new(1, 1);
    let burst = pool.copy_of(0, b"x").unwrap();
    drop(pool);
    assert_eq!(burst.bytes(), b"x");
}

#[test]
fn what_is_kept_takes_its_own_size_and_frees_its_slot() {
    let pool = Pool::new(2, 0);
    let mut burst = filled(&pool, 3, 1_316, 700);
    burst.set_mark(5);
    burst.set_waited(Duration::from_micros(7));
    let content = burst.bytes().to_vec();
    // A part of a slot pins all of the slot, however short the part is.
    let mut part = burst.split_front(1);
    assert!(pool.keep(&mut part) && pool.keep(&mut burst));
    assert_eq!(pool.in_use(), (0, 0));
    assert_eq!(pool.kept_bytes().0, content.len() + 2 * KEPT_OVERHEAD);
    assert_eq!([part.bytes(), burst.bytes()].concat(), content);
    assert_eq!((burst.segments(), burst.segment(1).len()), (2, 700));
    assert_eq!((burst.mark(), burst.waited().as_micros()), (5, 7));
    assert!(pool.keep(&mut part), "again is nothing new");
    let tail = burst.split_front(1);
    drop((part, burst));
    assert_eq!(pool.kept_bytes().0, 1_316 + 700 + KEPT_OVERHEAD);
    drop(tail);
    assert_eq!(pool.kept_bytes().0, 0);
}

#[test]
fn no_more_is_kept_than_may_be_and_the_rest_stays_in_its_slot() {
    let pool = Pool::new(2, 64);
    let limit = pool.kept_bytes().1;
    let mut all: Vec<Burst> = (0..64)
        .map(|_| pool.copy_of(0, &[1; 2_000]).unwrap())
        .collect();
    let mut more: Vec<Burst> = Vec::new();
    let kept = all
        .iter_mut()
        .filter_map(|burst| pool.keep(burst).then_some(()))
        .count();
    assert_eq!(kept, limit / (2_000 + KEPT_OVERHEAD));
    assert_eq!(pool.in_use().1, 64 - kept);
    all.truncate(kept - 1);
    assert!(pool.kept_bytes().0 <= limit);
    let mut next = pool.copy_of(0, &[2; 2_000]).unwrap();
    assert!(pool.keep(&mut next), "there is room again");
    more.push(next);
    drop((all, more));
    assert_eq!((pool.in_use(), pool.kept_bytes().0), ((0, 0), 0));
}

#[test]
fn the_last_slots_are_for_receiving() {
    let pool = Pool::with_reserve(4, 0, 2);
    let taken: Vec<Burst> = core::iter::from_fn(|| pool.large()).collect();
    assert_eq!(taken.len(), 2);
    let received: Vec<Burst> = core::iter::from_fn(|| pool.for_receiving()).collect();
    assert_eq!(received.len(), 2);
    drop(taken);
    assert!(pool.large().is_none(), "those two were for receiving");
    assert!(pool.for_receiving().is_some());
}
