use super::sink::Sink;
use super::*;

#[test]
fn a_line_has_the_time_of_day_and_how_much_it_matters() {
    let sink = Sink::default();
    let (flushed, lines) = Lines::to(("ams", Clock::new(), Format::Text), Some(sink.clone()));
    lines.say("one");
    lines.set_level(Level::Warning);
    lines.say("two");
    lines.warn("three");
    drop(lines);
    drop(flushed);
    let text = sink.text();
    let [one, three] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    assert!(three.ends_with("Z warning ams: three"), "{three}");
    let (time, line) = one.split_once(' ').unwrap();
    assert_eq!(line, "info ams: one");
    let year: u64 = time[..4].parse().unwrap();
    assert!(
        time.len() == 24 && time.ends_with('Z') && year > 2020,
        "{time}"
    );
}

#[test]
fn programs_get_an_object_and_the_journal_a_priority() {
    let written = |format| {
        let sink = Sink::default();
        let (flushed, lines) = Lines::to(("ams", Clock::new(), format), Some(sink.clone()));
        lines.warn("\"two\"\nlines");
        drop(lines);
        drop(flushed);
        sink.text()
    };
    let said = written(Format::Json);
    let line: serde_json::Value = serde_json::from_str(&said).unwrap();
    let word = |key: &str| line[key].as_str().unwrap();
    let told = (
        word("level"),
        word("node"),
        word("text"),
        word("time").len(),
    );
    assert_eq!(told, ("warning", "ams", "\"two\"\nlines", 24));
    assert_eq!(said.lines().count(), 1);
    assert_eq!(written(Format::Journal), "<4>ams: \"two\"\n<4>ams: lines\n");
}

#[test]
fn programs_get_the_fields_of_an_event_and_people_do_not() {
    use crate::log::Log;
    use overlay::event::Event;
    let dir = crate::files::test_directory("log-fields");
    let path = dir.join("socket");
    let down = Event::LinkDown {
        peer: base::NodeAddr(0x0a07_0002),
        why: "silence",
    };
    let written = |format| {
        let sink = Sink::default();
        let of = ("ams", Clock::new(), format);
        let (flushed, lines) = Lines::by(Some(&path), of, Some(sink.clone()));
        let mut log = Log::new(lines);
        log.event(base::Time::ZERO, &down);
        drop(log);
        drop(flushed);
        sink.text()
    };
    let line: serde_json::Value = serde_json::from_str(&written(Format::Json)).unwrap();
    for (key, value) in [
        ("event", "link-down"),
        ("peer", "10.7.0.2"),
        ("why", "silence"),
        ("node", "ams"),
        ("level", "warning"),
        ("text", "link to 10.7.0.2 is down: silence"),
    ] {
        assert_eq!(line[key], value, "{line}");
    }
    let text = written(Format::Text);
    assert!(
        text.ends_with("ams: link to 10.7.0.2 is down: silence\n"),
        "{text}"
    );
    // Without a journal, the line goes to standard error; with a journal, it goes there.
    let said = "<4>ams: link to 10.7.0.2 is down: silence\n";
    assert_eq!(written(Format::Journal), said);
    let journal = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    assert_eq!(written(Format::Journal), "");
    let mut buffer = [0; 1_024];
    let length = journal.recv(&mut buffer).unwrap();
    let entry = std::str::from_utf8(&buffer[..length]).unwrap();
    for field in ["PRIORITY=4", "SINEW_EVENT=link-down", "SINEW_PEER=10.7.0.2"] {
        assert!(entry.lines().any(|line| line == field), "{entry}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_file_that_was_renamed_is_left_for_a_new_one_of_its_name() {
    let dir = crate::files::test_directory("log");
    let path = dir.join("sinew.log");
    let (flushed, lines) = Lines::to(
        ("ams", Clock::new(), Format::Journal),
        Some(Sink::default()),
    );
    lines.append_to(&path).unwrap();
    lines.say("one");
    std::fs::rename(&path, dir.join("sinew.log.1")).unwrap();
    lines.append_to(&path).unwrap();
    lines.say("two");
    drop(lines);
    drop(flushed);
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    assert!(read("sinew.log.1").contains("one") && read("sinew.log").contains("two"));
    // A line on standard error would get its time from the journal.
    assert!(read("sinew.log").ends_with("Z info ams: two\n"));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_sink_that_takes_nothing_holds_nobody_up() {
    let sink = Sink::default();
    sink.shut(true);
    let (flushed, lines) = Lines::to(("ams", Clock::new(), Format::Text), Some(sink.clone()));
    for i in 0..MAX_WAITING + 10 {
        lines.say(&format!("line {i}"));
    }
    sink.shut(false);
    drop(lines);
    drop(flushed);
    let text = sink.text();
    assert!(
        text.contains("line 0") && text.contains("lines were lost"),
        "{text}"
    );
}

/// A disk that takes five bytes, then is full, and then has room again.
#[derive(Clone, Default)]
struct Disk(Sink, Arc<AtomicU64>);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.1.fetch_add(1, Ordering::Relaxed) {
            0 => self.0.write(&bytes[..5]),
            1..4 => Err(io::ErrorKind::StorageFull.into()),
            _ => self.0.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_a_full_disk_does_not_take_are_counted() {
    let disk = Disk::default();
    let (flushed, lines) = Lines::to(("ams", Clock::new(), Format::Text), Some(disk.clone()));
    for i in 0..5 {
        lines.say(&format!("line {i}"));
    }
    drop(lines);
    drop(flushed);
    let text = disk.0.text();
    let lines: Vec<_> = text.lines().collect();
    let [part, before, lost, after] = lines[..] else {
        panic!("{text}")
    };
    assert_eq!(part.len(), 5, "the next line begins anew");
    assert!(before.ends_with("line 3") && after.ends_with("line 4"));
    assert!(lost.contains("3 lines were lost"), "{lost}");
}
