//! `--checksum`: files are compared by their content, and not by their sizes and times.

use crate::chain::{Chain, noise};
use crate::trees::{same, sent};
use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};

fn set_time(path: &Path, time: SystemTime) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
}

fn time_of(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

const FILES: [(&str, usize); 3] = [("sub/small", 1_000), ("empty", 0), ("large", 5_000_000)];

fn tree(dir: &Path) {
    fs::create_dir_all(dir.join("sub")).unwrap();
    for (name, bytes) in FILES {
        fs::write(dir.join(name), noise(bytes)).unwrap();
    }
}

/// Writes other content of the same length, and restores the file's time.
fn change_unseen(path: &Path) {
    let time = time_of(path);
    let mut content = fs::read(path).unwrap();
    content[500] ^= 1;
    fs::write(path, content).unwrap();
    set_time(path, time);
}

#[test]
fn content_decides_and_times_are_set_without_it() {
    let chain = Chain::new("cp-checksum", 3);
    let (here, there) = (chain.world.dir.join("tree"), chain.root("lon").join("tree"));
    tree(&here);
    chain.cp("tree/ lon:tree --no-probe");
    // All files have another time, and nothing else differs.
    let later = SystemTime::now() - Duration::from_secs(1_000);
    FILES
        .iter()
        .for_each(|(name, _)| set_time(&here.join(name), later));
    let touched = chain.cp("tree/ lon:tree --checksum --no-probe");
    assert_eq!(sent(&touched), (0, 0), "{touched}");
    for (name, _) in FILES {
        assert_eq!(
            time_of(&there.join(name)),
            time_of(&here.join(name)),
            "{name}"
        );
    }
    // Same size and time: only a comparison of the content finds the difference.
    for name in ["sub/small", "large"] {
        change_unseen(&here.join(name));
    }
    let unseen = chain.cp("tree/ lon:tree --no-probe");
    assert_eq!(sent(&unseen), (0, 0), "{unseen}");
    let planned = chain.try_cp("tree/ lon:tree --checksum -n");
    assert_eq!(
        String::from_utf8_lossy(&planned.stdout),
        "large\nsub/small\n"
    );
    let seen = chain.cp("tree/ lon:tree --checksum --no-probe");
    // Of the large file, only the piece that differs is sent.
    let (files, bytes) = sent(&seen);
    assert_eq!(files, 2, "{seen}");
    assert!(bytes < 2_000_000, "{seen}");
    same(&here, &there);
    assert_eq!(
        sent(&chain.cp("tree/ lon:tree --checksum --no-probe")),
        (0, 0)
    );
    // The same for a single file.
    change_unseen(&here.join("large"));
    assert_eq!(sent(&chain.cp("tree/large lon:tree --no-probe")).0, 0);
    assert_eq!(
        sent(&chain.cp("tree/large lon:tree --checksum --no-probe")).0,
        1
    );
    same(&here, &there);
}

#[test]
fn what_comes_from_another_node_is_compared_by_its_content_too() {
    let chain = Chain::new("cp-checksum-pull", 2);
    let (here, there) = (chain.world.dir.join("tree"), chain.root("fra").join("tree"));
    tree(&there);
    chain.cp("fra:tree . --no-probe");
    let later = SystemTime::now() - Duration::from_secs(1_000);
    set_time(&there.join("sub/small"), later);
    change_unseen(&there.join("large"));
    let done = chain.cp("fra:tree . --checksum --no-probe");
    assert_eq!(sent(&done).0, 1, "{done}");
    same(&there, &here);
    let name = "sub/small";
    assert_eq!(time_of(&there.join(name)), time_of(&here.join(name)));
}

/// If a file is sent again, its other names must lead to the new file, and not to the previous one.
#[test]
fn names_of_a_file_that_is_sent_again_are_those_of_the_new_one() {
    let chain = Chain::new("cp-relinked", 2);
    let (here, there) = (chain.world.dir.join("tree"), chain.root("fra").join("tree"));
    tree(&here);
    fs::hard_link(here.join("sub/small"), here.join("sub/two")).unwrap();
    chain.cp("tree/ fra:tree --no-probe");
    change_unseen(&here.join("sub/small"));
    for words in [
        "tree/ fra:tree --checksum --no-probe",
        "tree/ fra:tree --no-probe",
    ] {
        chain.cp(words);
        same(&here, &there);
        fs::write(here.join("sub/small"), noise(2_000)).unwrap();
    }
}
