//! A captured relay: its process is stopped, and the test searches all of its memory for data that other nodes have
//! sent through it.
//!
//! ```text
//!   ams ── datagrams, a group, a stream, each full of one word ──▶ lon ──▶ fra
//!                                                                   └ memory: is the word in it?
//! ```
//! Without encryption from end to end the word is found, which proves that the search works.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use client::{DatagramSocket, Node, Options, Target};
use net::epoll::{Interest, Poller};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use world::World;

const PORT: u16 = 5_000;
const GROUP: &str = "239.1.1.1";
const PACKETS: usize = 300;
const STREAM_BYTES: usize = 2_000_000;
/// How many times a datagram is sent, and how long each wait lasts. Only a failure waits so long.
const TRIES: u32 = 60;
const MOMENT: base::Duration = base::Duration::from_millis(500);
/// Memory is read in pieces of this size.
const PIECE: usize = 1 << 20;

/// Makes a chain of three nodes with these settings.
fn chain(test: &str, settings: &str) -> World {
    let mut world = World::new(test);
    world.add("ams", 1, "");
    world.add("lon", 2, "--link ams");
    world.add("fra", 3, "--link lon");
    for name in ["ams", "lon", "fra"] {
        let path = world.node(name).join("node.toml");
        let text = fs::read_to_string(&path).unwrap();
        // Links found by the nodes would bypass the relay.
        let text = format!("find_links = false\n{text}\n[settings]\n{settings}\n");
        fs::write(&path, text).unwrap();
        world.start(name);
    }
    world.wait_for_link("ams", "lon");
    world.wait_for_link("lon", "fra");
    let [ams, fra] = ["ams", "fra"].map(|name| world.overlay_address(name));
    world.wait("there are routes", || {
        world.has_route("ams", &fra) && world.has_route("fra", &ams)
    });
    world
}

/// Sends until a datagram has arrived, and then some more.
fn send(out: &DatagramSocket, into: &DatagramSocket, to: Target, payload: &[u8]) {
    let mut poller = Poller::new().unwrap();
    poller.add(into, 0, Interest::READ).unwrap();
    let (mut ready, mut buffer) = (Vec::new(), [0; 2_000]);
    let has_come = (0..TRIES).any(|_| {
        out.send_to(payload, to).unwrap();
        poller.wait(Some(MOMENT), &mut ready).unwrap();
        !ready.is_empty()
    });
    assert!(has_come, "nothing comes to {to:?}");
    let (len, ..) = into.recv_from(&mut buffer).unwrap();
    assert_eq!(buffer[..len], *payload);
    for _ in 0..PACKETS {
        out.send_to(payload, to).unwrap();
    }
}

/// Sends the word in every kind of traffic from `ams` to `fra`.
fn exchange(world: &World, word: &str) {
    let [from, to] = ["ams", "fra"].map(|name| Node::at(world.socket(name)));
    let full = |bytes: usize| word.as_bytes().iter().copied().cycle().take(bytes);
    let payload: Vec<u8> = full(1_000).collect();
    for class in [
        Options::best_effort(),
        Options::voice(Duration::from_secs(5)),
    ] {
        let (out, into) = (from.bind(0, class).unwrap(), to.bind(0, class).unwrap());
        send(&out, &into, into.local(), &payload);
        let group: base::NodeAddr = GROUP.parse().unwrap();
        into.join(group, PORT).unwrap();
        send(&out, &into, Target::new(group, PORT), &payload);
    }
    let listener = to.listen(PORT, Options::stream()).unwrap();
    let target = Target::new(world.overlay_address("fra").parse().unwrap(), PORT);
    let out = from.connect(target, Options::stream()).unwrap();
    let mut came = listener.accept_bytes().unwrap();
    let sent: Vec<u8> = full(STREAM_BYTES).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&out).write_all(&sent).unwrap();
            out.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        came.read_to_end(&mut got).unwrap();
        assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
    });
}

/// Returns how often the word is in the memory of a process.
fn count_in_memory(pid: u32, word: &str) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let (mut count, mut looked_through) = (0, 0);
    let mut piece = vec![0; PIECE + word.len()];
    for line in maps.lines() {
        let mut fields = line.split(' ');
        let (range, rights) = (fields.next().unwrap(), fields.next().unwrap());
        if !rights.starts_with('r') || line.ends_with("[vvar]") || line.ends_with("[vsyscall]") {
            continue;
        }
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|it| u64::from_str_radix(it, 16).unwrap());
        let mut at = from;
        while at < to {
            // A word across the end of a piece counts for the piece in which it begins.
            let len = usize::try_from(to - at).unwrap().min(piece.len());
            // Pages that the kernel does not show are not the program's memory.
            let Ok(len) = memory.read_at(&mut piece[..len], at) else {
                break;
            };
            count += count_in(&piece[..len], word.as_bytes());
            looked_through += len.min(PIECE);
            at += PIECE as u64;
        }
    }
    assert!(looked_through > 4 << 20, "{looked_through} bytes of memory");
    count
}

fn count_in(piece: &[u8], word: &[u8]) -> usize {
    let begins = piece.windows(word.len()).take(PIECE);
    begins.filter(|window| *window == word).count()
}

/// Makes a word that occurs nowhere else.
fn word(test: &str) -> String {
    format!("captured/{test}/{}/0x5a7e", std::process::id())
}

/// Returns how often the word was found in the relay, and in the node where it leaves the overlay.
fn found(test: &str, settings: &str) -> [usize; 2] {
    let world = chain(test, settings);
    let word = word(test);
    exchange(&world, &word);
    ["lon", "fra"].map(|name| count_in_memory(world.pid(name), &word))
}

#[test]
fn the_memory_of_a_relay_holds_nothing_of_what_it_passed_on() {
    let [relay, exit] = found("sealed", "seal_ends = \"on\"");
    assert_eq!(relay, 0, "the relay has it, and the exit {exit} times");
    assert!(exit > 0, "the exit opens what comes, and has it");
}

/// Searches the same relay without encryption: otherwise the other test could not fail.
#[test]
fn without_the_seal_it_holds_much_of_it() {
    let [relay, exit] = found("open", "seal_ends = \"off\"");
    assert!(relay > 0 && exit > 0, "{relay} {exit}");
}
