use super::*;
use proptest::prelude::*;

/// Two paths from 10.7.0.1 to 10.7.0.4: over 10.7.0.2, and over 10.7.0.3.
const DIAMOND: [u8; 26] = [
    0, 4, //
    10, 7, 0, 1, 10, 7, 0, 2, 10, 7, 0, 3, 10, 7, 0, 4, //
    0, 1, 0, 2, 1, 3, 2, 3,
];
const NODES: [NodeAddr; 4] = [node(1), node(2), node(3), node(4)];
const LINKS: [(u8, u8); 4] = [(0, 1), (0, 2), (1, 3), (2, 3)];

const fn node(i: u32) -> NodeAddr {
    NodeAddr(0x0a07_0000 + i)
}

fn graph(bytes: &[u8]) -> Subgraph<'_> {
    match Stamp::parse(bytes) {
        Ok(Stamp::Subgraph(graph)) => graph,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_and_values_agree_both_ways() {
    let mut out = [0xa5; 40];
    assert_eq!(emit_subgraph(&NODES, &LINKS, &mut out), Ok(26));
    assert_eq!((&out[..26], &out[26..]), (&DIAMOND[..], &[0xa5; 14][..]));
    let diamond = graph(&DIAMOND);
    assert!(diamond.nodes().eq(NODES));
    let links = diamond
        .links()
        .map(|(from, to)| (from.0 & 0xff, to.0 & 0xff));
    assert_eq!(links.collect::<Vec<_>>(), [(1, 2), (1, 3), (2, 4), (3, 4)]);
    out.fill(0xa5);
    assert_eq!(Stamp::Subgraph(diamond).emit(&mut out), Some(26));
    assert_eq!((&out[..26], out[26]), (&DIAMOND[..], 0xa5));
    assert_eq!(Stamp::parse(&[1]), Ok(Stamp::Flooding));
    assert_eq!(Stamp::Flooding.emit(&mut out), Some(1));
    assert_eq!(out[..2], [1, 4]);
    assert_eq!(Stamp::parse(&[3]), Ok(Stamp::TwoTrees));
    assert_eq!(Stamp::TwoTrees.emit(&mut out), Some(1));
    assert_eq!(out[..2], [3, 4]);
    let longer = Err(Malformed::Length.into());
    assert_eq!(
        (Stamp::parse(&[3, 0]), Stamp::parse(&[1, 0])),
        (longer, longer)
    );
}

#[test]
fn every_truncation_is_refused() {
    for cut in 0..DIAMOND.len() {
        let result = Stamp::parse(&DIAMOND[..cut]);
        // With fewer links it is a different valid stamp.
        let links = cut > 18 && (cut - 18) % 2 == 0;
        let expected = (!links).then_some(BadStamp::Malformed(Malformed::Short));
        assert_eq!(result.err(), expected, "{cut}");
        let mut room = [0; 26];
        assert_eq!(
            Stamp::Subgraph(graph(&DIAMOND)).emit(&mut room[..cut]),
            None
        );
        assert_eq!(
            emit_subgraph(&NODES, &LINKS, &mut room[..cut]),
            Err(BadStamp::TooLong)
        );
    }
    assert_eq!(Stamp::Flooding.emit(&mut []), None);
}

#[test]
fn a_node_finds_its_links() {
    let diamond = graph(&DIAMOND);
    let next = |i| diamond.next(node(i)).collect::<Vec<_>>();
    assert_eq!(next(1), [node(2), node(3)]);
    assert_eq!((next(2), next(3)), (vec![node(4)], vec![node(4)]));
    assert_eq!((next(4), next(9)), (vec![], vec![]));
    assert!(diamond.has_link(node(1), node(3)) && diamond.has_link(node(2), node(4)));
    for (from, to) in [(3, 1), (2, 3), (1, 4), (9, 1), (1, 9)] {
        assert!(!diamond.has_link(node(from), node(to)), "{from} {to}");
    }
}

#[test]
fn the_way_back_is_the_way_there_backwards() {
    let mut back = [0xa5; STAMP_BYTES_MAX];
    let len = Stamp::Subgraph(graph(&DIAMOND)).emit_reversed(&mut back);
    let back = graph(&back[..len.unwrap()]);
    assert!(back.nodes().eq([4, 3, 2, 1].map(node)));
    assert!(back.has_link(node(4), node(2)) && back.has_link(node(3), node(1)));
    assert_eq!(back.links().len(), 4);
    let mut one = [0];
    assert_eq!(Stamp::Flooding.emit_reversed(&mut one), Some(1));
    assert_eq!(one, [FLOODING]);
}

#[test]
fn bad_stamps_are_refused_with_the_reason() {
    let with = |at: usize, byte: u8| {
        let mut bytes = DIAMOND;
        bytes[at] = byte;
        Stamp::parse(&bytes).map(drop)
    };
    let malformed = |why| Err(BadStamp::Malformed(why));
    assert_eq!(with(0, 2), malformed(Malformed::Kind));
    assert_eq!(with(0, 1), malformed(Malformed::Length));
    assert_eq!(with(1, 0), malformed(Malformed::Value));
    assert_eq!(with(1, 1), malformed(Malformed::Value));
    assert_eq!(with(1, 65), Err(BadStamp::TooLong));
    assert_eq!(with(1, 64), malformed(Malformed::Short));
    // 224.7.0.1 is a group.
    assert_eq!(with(2, 224), malformed(Malformed::Value));
    // The cases are: a node twice; a link to a node that is not in the list, back, to itself, twice, out of order.
    assert_eq!(with(9, 1), Err(BadStamp::Loops));
    assert_eq!(with(25, 4), malformed(Malformed::Value));
    assert_eq!(with(25, 1), Err(BadStamp::Loops));
    assert_eq!(with(25, 2), Err(BadStamp::Loops));
    assert_eq!(with(21, 1), malformed(Malformed::Value));
    assert_eq!(with(19, 3), malformed(Malformed::Value));
    assert_eq!(Stamp::parse(&[]).map(drop), malformed(Malformed::Short));
}

#[test]
fn the_longest_stamp_fits_and_a_megabyte_does_not() {
    let nodes: Vec<NodeAddr> = (1..=NODES_MAX as u32).map(node).collect();
    let pairs = (0..63)
        .map(|i| (i, i + 1))
        .chain((0..62).map(|i| (i, i + 2)));
    let mut links: Vec<(u8, u8)> = pairs.chain((0..3).map(|i| (i, i + 3))).collect();
    links.sort_unstable();
    assert_eq!(links.len(), LINKS_MAX);
    let mut out = vec![0; 1 << 20];
    assert_eq!(emit_subgraph(&nodes, &links, &mut out), Ok(STAMP_BYTES_MAX));
    assert!(Stamp::parse(&out[..STAMP_BYTES_MAX]).is_ok());
    for long in [
        STAMP_BYTES_MAX + 1,
        STAMP_BYTES_MAX + 2,
        u16::MAX.into(),
        1 << 20,
    ] {
        assert_eq!(Stamp::parse(&out[..long]), Err(BadStamp::TooLong));
    }
    links.push((60, 63));
    assert_eq!(
        emit_subgraph(&nodes, &links, &mut out),
        Err(BadStamp::TooLong)
    );
}

proptest! {
    #[test]
    fn what_parses_ends_by_itself_and_is_written_back(
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
        table in 2u8..7,
        pairs in proptest::collection::vec((0u8..7, 0u8..7), 1..8),
    ) {
        // Random bytes are rarely a stamp; random links often are.
        let mut likely = vec![SUBGRAPH, table];
        likely.extend((0..table).flat_map(|i| [10, 7, 0, i + 1]));
        let mut pairs = pairs;
        pairs.sort_unstable();
        likely.extend(pairs.iter().flat_map(|(from, to)| [*from, *to]));
        for bytes in [bytes, likely] {
            let Ok(stamp) = Stamp::parse(&bytes) else { continue };
            let mut out = vec![0xa5; bytes.len()];
            prop_assert_eq!(stamp.emit(&mut out), Some(bytes.len()));
            prop_assert_eq!(&out, &bytes);
            let mut back = vec![0xa5; bytes.len()];
            prop_assert_eq!(stamp.emit_reversed(&mut back), Some(bytes.len()));
            let back = Stamp::parse(&back).expect("the way back is a stamp");
            if let (Stamp::Subgraph(there), Stamp::Subgraph(back)) = (stamp, back) {
                let order: Vec<NodeAddr> = there.nodes().collect();
                for (from, to) in there.links() {
                    let place = |node| order.iter().position(|n| *n == node);
                    prop_assert!(place(from) < place(to));
                    prop_assert!(back.has_link(to, from));
                }
                prop_assert_eq!(back.links().len(), there.links().len());
            }
        }
    }
}

#[test]
fn the_edge_of_a_tree_has_these_bytes() {
    let edge = TreeEdge {
        from: NodeAddr(0x0a07_0001),
        to: NodeAddr(0x0a07_0002),
    };
    let bytes = [2, 10, 7, 0, 1, 10, 7, 0, 2];
    assert_eq!(edge.to_bytes(), bytes);
    assert_eq!(TreeEdge::parse(&bytes), Ok(edge));
    for cut in 0..bytes.len() {
        assert_eq!(TreeEdge::parse(&bytes[..cut]), Err(Malformed::Length));
    }
    assert_eq!(TreeEdge::parse(&[0; 9]), Err(Malformed::Kind));
    let group = [2, 0xef, 7, 0, 1, 10, 7, 0, 2];
    assert_eq!(TreeEdge::parse(&group), Err(Malformed::Value));
    // These bytes are not a stamp.
    assert!(Stamp::parse(&bytes).is_err());
}
