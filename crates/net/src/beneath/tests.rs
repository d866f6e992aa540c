//! No path leads out of a directory, and everything in it can be reached.

use super::*;
use std::fs;
use std::io::{Read, Write};

fn place(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("beneath-{}-{test}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(path.join("root/a")).unwrap();
    fs::write(path.join("secret"), "secret").unwrap();
    path
}

#[test]
fn nothing_leads_out() {
    let place = place("out");
    let root = Directory::open(&place.join("root")).unwrap();
    let links = [("up", "../secret"), ("far", "/etc/hostname"), ("dir", "..")];
    for (name, target) in links {
        root.link(OsStr::new(target), OsStr::new(name)).unwrap();
    }
    for path in [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "up",
        "far",
        "dir/secret",
    ] {
        assert!(root.read(Path::new(path)).is_err(), "{path}");
        assert!(root.look(Path::new(path)).is_err(), "{path}");
    }
    assert!(root.below(Path::new("dir")).is_err());
    for name in ["up", "dir", "..", "a/x", ""] {
        assert!(root.create(OsStr::new(name), 0o600).is_err(), "{name}");
        assert!(root.enter(OsStr::new(name)).is_err(), "{name}");
        assert!(
            root.enter_or_make(OsStr::new(name), 0o700).is_err(),
            "{name}"
        );
    }
    assert!(root.read_at(OsStr::new("up")).is_err());
    assert!(root.look_at(OsStr::new("up")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(place.join("secret")).unwrap(), "secret");
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn files_are_made_named_read_and_removed_below() {
    let place = place("in");
    let root = Directory::open(&place.join("root")).unwrap();
    let a = root.below(Path::new("a")).unwrap();
    let (old, new) = (OsStr::new("old"), OsStr::new("new"));
    a.create_new(old, 0o600)
        .unwrap()
        .write_all(b"text")
        .unwrap();
    assert!(a.create_new(old, 0o600).is_err());
    a.rename(old, new).unwrap();
    // A link that stays below is followed.
    root.link(OsStr::new("a/new"), OsStr::new("in")).unwrap();
    let mut text = String::new();
    let mut file = root.read(Path::new("in")).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
    assert_eq!(root.look(Path::new("a/new")).unwrap().len(), 4);
    assert!(root.read(Path::new("a")).is_err(), "a directory is no file");
    assert!(
        root.read_at(OsStr::new("a")).is_err(),
        "a directory is no file"
    );
    assert_eq!(a.read_at(new).unwrap().1.len(), 4);
    let names: Vec<_> = a.list().unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, [new]);
    a.remove(new).unwrap();
    a.remove(new).unwrap();
    root.enter_or_make(OsStr::new("b"), 0o700).unwrap();
    root.remove_all(OsStr::new("b")).unwrap();
    root.remove_all(OsStr::new("b")).unwrap();
    root.sync_file_system().unwrap();
    assert!(root.below(Path::new("b")).is_err());
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn a_lock_is_had_once() {
    let place = place("lock");
    let one = Directory::open(&place.join("root")).unwrap();
    let two = Directory::open(&place.join("root")).unwrap();
    assert!(try_lock(&one).unwrap() && !try_lock(&two).unwrap());
    drop(one);
    assert!(try_lock(&two).unwrap());
    fs::remove_dir_all(place).unwrap();
}
