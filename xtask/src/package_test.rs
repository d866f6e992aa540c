//! `cargo xtask package-test ROOT DEB`: tests the Debian package in a bare system, as a user installs and removes it.
//!
//! ```text
//!   ROOT ─copy─▶ dpkg -i ─▶ the program, pages, units, user ─▶ a network, a checked node, enabled units
//!                                                                  │
//!                                      nothing is left ◀─ dpkg --purge
//! ```
//! ROOT is the result of `debootstrap --variant=minbase`; it is not changed. `.ci/package` makes such roots, builds the
//! package, and calls this command.

use crate::Outcome;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

type Result<T> = core::result::Result<T, String>;

/// The files that the package must contain.
const FILES: [&str; 8] = [
    "usr/bin/sinew",
    "usr/share/man/man1/sinew.1.gz",
    "usr/share/bash-completion/completions/sinew",
    "usr/share/zsh/vendor-completions/_sinew",
    "usr/share/fish/vendor_completions.d/sinew.fish",
    "lib/systemd/system/sinew@.service",
    "lib/systemd/system/sinew-gateway@.service",
    "usr/lib/systemd/user/sinew-transfers.service",
];

/// The first steps of a new user, in order. Each must succeed. The last two are what `systemctl enable` does, which a
/// bare root does not have.
const FIRST_STEPS: [&str; 7] = [
    "sinew --version",
    "sinew net init /mnt/net --name trial",
    "sinew net add /mnt/net ams --address 192.0.2.1:7700",
    "sinew node --check --config /mnt/net/ams/node.toml",
    "rm -r /mnt/net",
    "mkdir -p /etc/systemd/system/multi-user.target.wants",
    "cd /etc/systemd/system/multi-user.target.wants && ln -s /lib/systemd/system/sinew@.service sinew@ams.service && \
     ln -s /lib/systemd/system/sinew-gateway@.service sinew-gateway@phones.service",
];

/// The beginnings of paths with the system's own records, which the test ignores.
const BOOKS: [&str; 7] = [
    "var/lib/dpkg/",
    "var/cache/",
    "var/log/",
    "etc/passwd-",
    "etc/group-",
    "etc/shadow-",
    "etc/gshadow-",
];

/// Installs, tests and removes the package.
pub(crate) fn run(bare: &Path, package: &Path) -> Outcome {
    let copy = PathBuf::from(format!("{}.trial", bare.display()));
    let tried = trial(bare, package, &copy);
    let removed = remove(&copy);
    match tried.and(removed) {
        Ok(()) => Outcome::Done,
        Err(why) => {
            eprintln!("package-test: {why}");
            Outcome::Failed
        }
    }
}

fn trial(bare: &Path, package: &Path, root: &Path) -> Result<()> {
    if call("id", &["-u"])?.trim() != "0" {
        return Err("a bare root needs root: run it by sudo".to_owned());
    }
    remove(root)?;
    let copied = call("cp", &["-a", &text(bare), &text(root)]);
    copied.map_err(|why| format!("{why}; make {} by debootstrap", bare.display()))?;
    let name = package.file_name().ok_or("which package?")?;
    let inside = root.join("mnt").join(name);
    fs::copy(package, &inside).map_err(|error| format!("{}: {error}", package.display()))?;
    let within = |words: &str| call("chroot", &[&text(root), "/bin/sh", "-c", words]);
    let package = format!("/mnt/{}", name.display());
    // A host with systemd has this directory, and a bare root may not have it.
    let units = root.join("etc/systemd/system");
    fs::create_dir_all(&units).map_err(|error| format!("{}: {error}", units.display()))?;
    let before = files(root)?;
    within(&format!("dpkg -i {package}"))?;
    for file in FILES {
        if !root.join(file).exists() {
            return Err(format!("{file} is not in the package"));
        }
    }
    if !has_user(root)? {
        return Err("the package makes no user `sinew`".to_owned());
    }
    for step in FIRST_STEPS {
        within(step).map_err(|why| format!("`{step}` in the bare root: {why}"))?;
        println!("package-test: {step}");
    }
    within("dpkg --purge sinew")?;
    let after = files(root)?;
    let changed: Vec<&String> = after.symmetric_difference(&before).collect();
    if !changed.is_empty() || has_user(root)? {
        return Err(format!(
            "the removal leaves these changed, or the user `sinew`: {changed:?}"
        ));
    }
    println!(
        "package-test: in {}: installed, tried, removed; nothing is left",
        bare.display()
    );
    Ok(())
}

/// Returns all paths below, with kinds, modes and sizes, without the system's own records.
fn files(root: &Path) -> Result<BTreeSet<String>> {
    // The size of a folder has no meaning.
    let folders = ["-xdev", "-type", "d", "-printf", "%P %y %m\n"];
    let others = ["-o", "-printf", "%P %y %m %s\n"];
    let root = text(root);
    let all = call("find", &[&[root.as_str()], &folders[..], &others].concat())?;
    let is_book = |line: &&str| BOOKS.iter().any(|book| line.starts_with(book));
    let others = all.lines().filter(|line| !is_book(line));
    Ok(others.map(str::to_owned).collect())
}

fn has_user(root: &Path) -> Result<bool> {
    let passwd = root.join("etc/passwd");
    let users = fs::read_to_string(&passwd).map_err(|e| format!("{}: {e}", passwd.display()))?;
    Ok(users.lines().any(|line| line.starts_with("sinew:")))
}

pub(crate) fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Runs a program. Returns its output, or its error.
pub(crate) fn call(program: &str, words: &[&str]) -> Result<String> {
    let told = || format!("{program} {}", words.join(" "));
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| format!("{}: {error}", told()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{}: {}",
            told(),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Runs a script of the package for a root of its own: dpkg names that root by `DPKG_ROOT`.
    fn run_script(script: &str, word: &str, root: &Path) {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/deb");
        let ended = Command::new("sh")
            .arg(scripts.join(script))
            .arg(word)
            .env("DPKG_ROOT", root)
            .status()
            .unwrap();
        assert!(ended.success(), "{script} {word}: {ended}");
    }

    #[test]
    fn what_is_removed_starts_no_more_with_the_host() {
        let root = std::env::temp_dir().join(format!("sinew-prerm-{}", std::process::id()));
        let units = root.join("etc/systemd/system");
        let wants = |target: &str| units.join(format!("{target}.target.wants"));
        let links = [
            wants("multi-user").join("sinew@ams.service"),
            wants("multi-user").join("sinew-gateway@phones.service"),
            wants("network").join("sinew@fra.service"),
        ];
        let other = wants("network").join("other.service");
        for link in links.iter().chain([&other]) {
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            // The link's target is missing, or belongs to another root.
            symlink("/lib/systemd/system/sinew@.service", link).unwrap();
        }
        let is_link = |path: &PathBuf| path.symlink_metadata().is_ok();
        run_script("prerm", "upgrade", &root);
        assert!(links.iter().all(is_link), "an upgrade changes nothing");
        run_script("prerm", "remove", &root);
        assert!(!links.iter().any(is_link), "the units are enabled still");
        // The links of `systemctl enable` are removed, and no other ones.
        assert!(!wants("multi-user").exists() && is_link(&other));
        fs::remove_dir_all(root).unwrap();
    }
}
