//! If a host vanishes silently, the hosts that have a transfer with it notice, and the same command
//! continues when it is back. In network namespaces. The tests need root; without root they print a
//! line and skip.

use crate::chain::{noise, part};
use crate::row::Row;
use crate::world::failure;
use net::netns::available;
use net::signals;
use std::fs;
use std::process::Child;

/// More data than can be in flight.
const BYTES: usize = 60_000_000;

fn begin_cp(row: &Row) -> Child {
    let mut command = row.cp("data lon:copy --give-up 0");
    command.spawn().unwrap()
}

#[test]
fn a_relay_that_vanishes_is_noticed_on_both_sides_and_the_copy_goes_on() {
    let test = "a_relay_that_vanishes_is_noticed";
    if let Err(why) = available() {
        println!("SKIPPED: {test}: {why}");
        return;
    }
    let row = Row::of_three("cp-vanished", None);
    fs::write(row.world.dir.join("data"), noise(BYTES)).unwrap();
    let target = row.root("lon").join("copy");
    let child = begin_cp(&row);
    let is_under_way = || fs::metadata(part(&target)).is_ok_and(|part| part.len() > 1_000_000);
    row.world.wait("a part of it is there", is_under_way);
    // The last node accepts no more data, so the copy cannot be over; its host still works.
    signals::stop(row.world.pid("lon")).unwrap();
    assert!(!target.exists(), "the copy was over too soon");
    row.set("fra", "down");
    let (status, text) = failure(&row.end_of(child));
    assert!(
        status == 1 && text.contains("the connection to 10.7.0.2"),
        "{text}"
    );
    signals::resume(row.world.pid("lon")).unwrap();
    let is_idle = |name: &str| row.world.status(name)["bulk"]["active"] == 0;
    for name in ["ams", "fra", "lon"] {
        row.world.wait("nobody has a part in it", || is_idle(name));
        let bulk = &row.world.status(name)["bulk"];
        assert_eq!(bulk["failed"]["broken"], 1, "{name}: {bulk}");
    }
    assert!(!target.exists());
    row.set("fra", "up");
    row.wait_until_ready();
    let output = row.end_of(begin_cp(&row));
    assert!(output.status.success(), "{}", failure(&output).1);
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(done["resumed_bytes"].as_u64() > Some(0), "{done}");
    assert_eq!(fs::read(&target).unwrap(), noise(BYTES));
}

#[test]
fn one_command_lives_through_an_outage() {
    let test = "one_command_lives_through_an_outage";
    if let Err(why) = available() {
        println!("SKIPPED: {test}: {why}");
        return;
    }
    let row = Row::of_three("cp-outage", None);
    fs::write(row.world.dir.join("data"), noise(BYTES)).unwrap();
    let target = row.root("lon").join("copy");
    let said = row.world.dir.join("said");
    let log = fs::File::create(&said).unwrap();
    let mut child = row.cp("data lon:copy").stderr(log).spawn().unwrap();
    let is_under_way = || fs::metadata(part(&target)).is_ok_and(|part| part.len() > 1_000_000);
    row.world.wait("a part of it is there", is_under_way);
    // The stop keeps the copy from ending before the cable is disconnected.
    signals::stop(row.world.pid("lon")).unwrap();
    assert!(!target.exists(), "the copy was over too soon");
    row.set("fra", "down");
    signals::resume(row.world.pid("lon")).unwrap();
    let has_said = |text: &str| fs::read_to_string(&said).is_ok_and(|all| all.contains(text));
    row.world.wait("it waits", || has_said("waits: "));
    assert!(child.try_wait().unwrap().is_none(), "it has ended");
    row.set("fra", "up");
    let output = row.end_of(child);
    let all = fs::read_to_string(&said).unwrap();
    assert!(output.status.success(), "{all}");
    let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(done["attempts"].as_u64() > Some(1), "{done}");
    // The last attempt has sent what was missing.
    let sent = done["segments"][0]["bytes"].as_u64().unwrap();
    assert!(sent < BYTES as u64 - 1_000_000, "{done}");
    assert_eq!(fs::read(&target).unwrap(), noise(BYTES));
}

#[test]
#[ignore = "a minute: a receiver that takes nothing for so long, and lives"]
fn a_receiver_that_stalls_is_waited_for() {
    available().unwrap();
    let row = Row::of_three("cp-stalled", None);
    fs::write(row.world.dir.join("data"), noise(BYTES)).unwrap();
    let target = row.root("lon").join("copy");
    let child = begin_cp(&row);
    row.world.wait("it has begun", || part(&target).exists());
    signals::stop(row.world.pid("lon")).unwrap();
    assert!(!target.exists(), "the copy was over too soon");
    std::thread::sleep(std::time::Duration::from_secs(60));
    signals::resume(row.world.pid("lon")).unwrap();
    let output = row.end_of(child);
    assert!(output.status.success(), "{}", failure(&output).1);
    assert_eq!(fs::read(&target).unwrap(), noise(BYTES));
}
