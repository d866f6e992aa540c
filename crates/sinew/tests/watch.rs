//! `--watch` on a terminal: its own screen, a node that is restarted meanwhile, and every way to
//! leave it. `script` provides the terminal.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod world;

use std::fs::File;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use world::World;

/// A command on its own terminal, and its output.
struct Watched<'a> {
    world: &'a str,
    child: Child,
    path: std::path::PathBuf,
}

impl Watched<'_> {
    fn start<'a>(world: &World, name: &'a str, words: &str) -> Watched<'a> {
        let path = world.dir.join(format!("screen-{name}"));
        let program = env!("CARGO_BIN_EXE_sinew");
        // `exec` replaces the shell by the program. A shell that stays would get Ctrl-C as well,
        // and return its own status.
        let child = Command::new("script")
            .args(["-qefc", &format!("exec {program} {words}"), "/dev/null"])
            .current_dir(&world.dir)
            .env_remove("SINEW_NODE")
            .stdin(Stdio::piped())
            .stdout(File::create(&path).unwrap())
            .spawn()
            .unwrap();
        Watched {
            world: name,
            child,
            path,
        }
    }

    fn drawn(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.path).unwrap()).into_owned()
    }

    /// Returns the last complete page.
    fn page(&self) -> String {
        let drawn = self.drawn();
        let pages = drawn
            .split("\x1b[H")
            .filter(|page| page.ends_with("\x1b[J"));
        pages.last().unwrap_or_default().to_owned()
    }

    fn strike(&mut self, keys: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(keys.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Ends the command by keys. Returns its exit status, and its last output on the terminal.
    fn end(mut self, keys: &str) -> (Option<i32>, String) {
        self.strike(keys);
        let status = self.child.wait().unwrap();
        let drawn = self.drawn();
        let last = drawn
            .rfind("\x1b[J")
            .unwrap_or_else(|| panic!("{} drew nothing", self.world));
        (status.code(), drawn[last..].to_owned())
    }
}

/// The escape sequences that restore the usual screen and the cursor.
const AS_BEFORE: &str = "\x1b[?25h\x1b[?1049l";

#[test]
fn a_watched_screen_survives_its_node_and_leaves_the_terminal_as_it_was() {
    let mut world = World::new("watch");
    world.add("ams", 1, "");
    world.add("fra", 2, "");
    world.start("ams");
    world.start("fra");
    world.wait_for_link("ams", "fra");

    let links = Watched::start(&world, "links", "links --watch --node net/ams");
    let by_ctrl_c = Watched::start(&world, "status", "status --watch --node net/fra");
    world.wait("the screen shows the link", || {
        let page = links.page();
        page.contains("IN pkt/s") && page.contains("fra") && page.contains("q ends")
    });
    assert!(
        links.drawn().starts_with("\x1b[?1049h"),
        "a screen of its own"
    );
    world.kill("ams");
    world.wait("it is told that the node is away", || {
        let page = links.page();
        page.contains("no node at") && page.contains("waiting") && page.contains("fra")
    });
    world.start("ams");
    world.wait("the node is found again", || {
        let page = links.page();
        page.contains("fra") && !page.contains("waiting")
    });
    let (code, left) = links.end("q");
    assert!(left.contains(AS_BEFORE), "{left:?}");
    assert_eq!(code, Some(0));

    world.wait("the other screen shows its node", || {
        by_ctrl_c.page().contains("certificate")
    });
    let (code, left) = by_ctrl_c.end("\x03");
    assert!(left.contains(AS_BEFORE), "{left:?}");
    assert_eq!(code, Some(0));
}

#[test]
fn whoever_watches_what_never_was_is_told_at_once() {
    let world = World::new("watch-nothing");
    let output = world.try_sinew("links --watch --node net");
    assert_eq!(output.status.code(), Some(1));
    let output = world.try_sinew("links -o colour --node net");
    assert_eq!(output.status.code(), Some(1), "the node is asked first");
}
