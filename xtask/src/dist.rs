//! `cargo xtask dist`: builds the published files in `target/dist`.
//!
//! ```text
//!   cargo build (packed) ──▶ sinew ─┬─▶ sinew-VERSION-ARCH.tar.gz   program, pages, completions, units
//!                                   ├─▶ sinew_VERSION_ARCH.deb      the same, with a user
//!                                   ├─▶ sinew-VERSION-1.ARCH.rpm    the same for Fedora, RHEL and SUSE
//!                                   ├─▶ sinew-VERSION-ARCH.oci.tar  a container image
//!                                   ├─▶ sinew-VERSION.spdx          every crate in it, with its licence
//!                                   └─▶ SHA256SUMS
//! ```
//! Debian's own programs do the work: `dpkg-deb`, `rpmbuild`, `tar`, `strip`, `objdump`, `ldd`, `sha256sum`.

mod image;
mod rpm;

use crate::Outcome;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The profile of the packed program, in Cargo.toml.
const PROFILE: &str = "packed";
/// The largest sizes of a package and of the program.
const DEB_BYTES_MAX: u64 = 10_000_000;
const PROGRAM_BYTES_MAX: u64 = 25_000_000;

/// The units of systemd, in `packaging`.
const UNITS: [&str; 2] = ["sinew@.service", "sinew-gateway@.service"];
const USER_UNIT: &str = "sinew-transfers.service";

type Result<T> = core::result::Result<T, String>;

/// Builds everything.
pub(crate) fn run(root: &Path) -> Outcome {
    match build(root) {
        Ok(()) => Outcome::Done,
        Err(why) => {
            eprintln!("dist: {why}");
            Outcome::Failed
        }
    }
}

struct Package {
    root: PathBuf,
    out: PathBuf,
    version: String,
    /// Debian's name of the architecture.
    arch: String,
    /// The oldest C library with which the program runs.
    glibc: String,
}

fn build(root: &Path) -> Result<()> {
    let build = ["build", "--profile", PROFILE, "--package", "sinew"];
    call(root, "cargo", &build)?;
    let metadata = call(
        root,
        "cargo",
        &["metadata", "--format-version", "1", "--locked"],
    )?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let target = PathBuf::from(metadata["target_directory"].as_str().unwrap_or("target"));
    let out = target.join("dist");
    let _ = fs::remove_dir_all(&out);
    make_dir(&out)?;
    let program = out.join("sinew");
    let built = target.join(PROFILE).join("sinew");
    copy(&built, &program, 0o755)?;
    call(root, "strip", &["--strip-unneeded", &text(&program)])?;
    let package = Package {
        root: root.to_owned(),
        version: version(&metadata)?,
        arch: call(root, "dpkg", &["--print-architecture"])?
            .trim()
            .to_owned(),
        glibc: glibc(&call(root, "objdump", &["-T", &text(&program)])?)?,
        out,
    };
    check_size(&program, PROGRAM_BYTES_MAX)?;
    println!(
        "dist: the program needs glibc {} or a newer one",
        package.glibc
    );
    package.archive(&program)?;
    package.deb(&program)?;
    package.rpm(&program)?;
    package.image(&program)?;
    package.parts(&metadata)?;
    fs::remove_file(&program).map_err(|error| format!("{}: {error}", program.display()))?;
    package.checksums()
}

impl Package {
    /// Installs the files below `into`.
    fn install(&self, program: &Path, into: &Path, prefix: &str) -> Result<()> {
        let place = into.join(prefix);
        let share = place.join("share");
        copy(program, &place.join("bin/sinew"), 0o755)?;
        let manual = share.join("man/man1");
        call(&self.root, &text(program), &["manual", &text(&manual)])?;
        let pages = fs::read_dir(&manual).map_err(|error| error.to_string())?;
        for page in pages.flatten() {
            call(&self.root, "gzip", &["-9n", &text(&page.path())])?;
        }
        for (shell, file) in [
            ("bash", "bash-completion/completions/sinew"),
            ("zsh", "zsh/vendor-completions/_sinew"),
            ("fish", "fish/vendor_completions.d/sinew.fish"),
        ] {
            let words = call(&self.root, &text(program), &["completions", shell])?;
            write(&share.join(file), &words, 0o644)?;
        }
        for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            copy(
                &self.root.join(file),
                &share.join("doc/sinew").join(file),
                0o644,
            )?;
        }
        Ok(())
    }

    /// Writes the units of systemd for a program at this path: those of the system and those of users, into these
    /// directories.
    fn units(&self, [system, user]: [&Path; 2], program: &str) -> Result<()> {
        let of_system = UNITS.map(|name| (system, name));
        for (place, name) in of_system.into_iter().chain([(user, USER_UNIT)]) {
            let path = self.root.join("packaging").join(name);
            let unit = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let here = "/usr/local/bin/sinew";
            if !unit.contains(here) {
                return Err(format!("{} does not run {here}", path.display()));
            }
            let unit = unit.replace(here, program);
            write(&place.join(name), &unit, 0o644)?;
        }
        Ok(())
    }

    fn archive(&self, program: &Path) -> Result<()> {
        let name = format!("sinew-{}-linux-{}", self.version, self.arch);
        let dir = self.out.join(&name);
        self.install(program, &dir, "")?;
        let places = ["lib/systemd/system", "lib/systemd/user"].map(|place| dir.join(place));
        self.units([&places[0], &places[1]], "/usr/local/bin/sinew")?;
        let file = format!("{name}.tar.gz");
        let words = [
            "-C",
            &text(&self.out),
            "--owner=0",
            "--group=0",
            "--sort=name",
            "-czf",
            &text(&self.out.join(&file)),
            &name,
        ];
        call(&self.root, "tar", &words)?;
        remove_dir(&dir)
    }

    fn deb(&self, program: &Path) -> Result<()> {
        let dir = self.out.join("deb");
        self.install(program, &dir, "usr")?;
        // If both directories exist, systemd looks for units of users only below /usr.
        let places = ["lib/systemd/system", "usr/lib/systemd/user"].map(|place| dir.join(place));
        self.units([&places[0], &places[1]], "/usr/bin/sinew")?;
        write(&dir.join("DEBIAN/control"), &self.control(&dir)?, 0o644)?;
        for script in ["postinst", "prerm", "postrm"] {
            let from = self.root.join("packaging/deb").join(script);
            copy(&from, &dir.join("DEBIAN").join(script), 0o755)?;
        }
        let file = self
            .out
            .join(format!("sinew_{}_{}.deb", self.version, self.arch));
        let words = [
            "--root-owner-group",
            "-Zxz",
            "--build",
            &text(&dir),
            &text(&file),
        ];
        call(&self.root, "dpkg-deb", &words)?;
        check_size(&file, DEB_BYTES_MAX)?;
        remove_dir(&dir)
    }

    fn control(&self, dir: &Path) -> Result<String> {
        let used = call(&self.root, "du", &["-sk", &text(dir)])?;
        let used = used.split_whitespace().next().unwrap_or("0");
        Ok(format!(
            "Package: sinew\nVersion: {}\nArchitecture: {}\nMaintainer: The Sinew authors <sinew@localhost>\n\
             Installed-Size: {used}\nSection: net\nPriority: optional\n\
             Depends: libc6 (>= {}), libgcc-s1, passwd\nSuggests: libsrt1.5-openssl | libsrt1.5-gnutls\n\
             Description: overlay network for voice, live video and bulk data\n \
             Programs on ordinary hosts that carry voice, live multicast and bulk data for\n \
             each other over the lossy Internet. What is lost on a hop is repaired there.\n",
            self.version, self.arch, self.glibc
        ))
    }

    /// Lists every crate that the program contains, as SPDX tag-value.
    fn parts(&self, metadata: &Value) -> Result<()> {
        let linked = call(
            &self.root,
            "cargo",
            &[
                "tree",
                "--package",
                "sinew",
                "--edges",
                "normal",
                "--prefix",
                "none",
                "--format",
                "{p}",
            ],
        )?;
        let linked: BTreeSet<(String, String)> =
            linked.lines().filter_map(name_and_version).collect();
        let name = format!("sinew-{}", self.version);
        let mut spdx = format!(
            "SPDXVersion: SPDX-2.3\nDataLicense: CC0-1.0\nSPDXID: SPDXRef-DOCUMENT\n\
             DocumentName: {name}\nDocumentNamespace: https://sinew.invalid/spdx/{name}\n\
             Creator: Tool: cargo-xtask-dist\nCreated: {}\n",
            self.committed()?
        );
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let word =
            |package: &Value, key: &str| package[key].as_str().unwrap_or("NOASSERTION").to_owned();
        let mut count = 0;
        for package in packages {
            let (name, version) = (word(package, "name"), word(package, "version"));
            if !linked.contains(&(name.clone(), version.clone())) {
                continue;
            }
            count += 1;
            let licence = word(package, "license").replace('/', " OR ");
            let _ = write!(
                spdx,
                "\nPackageName: {name}\nSPDXID: SPDXRef-{}-{}\nPackageVersion: {version}\n\
                 PackageDownloadLocation: {}\nFilesAnalyzed: false\nPackageLicenseConcluded: NOASSERTION\n\
                 PackageLicenseDeclared: {licence}\nPackageCopyrightText: NOASSERTION\n",
                name.replace('_', "-"),
                version.replace('+', "-"),
                word(package, "repository"),
            );
        }
        println!("dist: {count} crates are in the program");
        write(&self.out.join(format!("{name}.spdx")), &spdx, 0o644)
    }

    /// Returns when the sources were committed. With this time, two builds are identical.
    fn committed(&self) -> Result<String> {
        let words = [
            "log",
            "-1",
            "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
            "--format=%cd",
        ];
        Ok(call(&self.root, "git", &words)?.trim().to_owned())
    }

    fn checksums(&self) -> Result<()> {
        let mut names: Vec<String> = fs::read_dir(&self.out)
            .map_err(|error| error.to_string())?
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sums = call(&self.out, "sha256sum", &names)?;
        write(&self.out.join("SHA256SUMS"), &sums, 0o644)?;
        print!("{sums}");
        println!("dist: all of it is in {}", self.out.display());
        Ok(())
    }
}

fn version(metadata: &Value) -> Result<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut own =
        packages.filter(|package| package["name"] == "sinew" && package["source"].is_null());
    let version = own.find_map(|package| package["version"].as_str());
    version
        .map(str::to_owned)
        .ok_or_else(|| "no version of sinew".to_owned())
}

/// Reads `name v1.2.3 …` of `cargo tree`.
fn name_and_version(line: &str) -> Option<(String, String)> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some((name.to_owned(), version.to_owned()))
}

/// Returns the newest version of the C library of which the program needs a symbol.
fn glibc(symbols: &str) -> Result<String> {
    let wanted = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (major, minor) = rest[..end].split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    let (major, minor) = wanted.max().ok_or("the program wants no C library")?;
    Ok(format!("{major}.{minor}"))
}

fn check_size(path: &Path, most: u64) -> Result<()> {
    let size = fs::metadata(path)
        .map_err(|error| format!("{}: {error}", path.display()))?
        .len();
    println!("dist: {} has {:.1} MB", path.display(), size as f64 / 1e6);
    match size <= most {
        true => Ok(()),
        false => Err(format!("{} has more than {most} bytes", path.display())),
    }
}

fn call(dir: &Path, program: &str, words: &[&str]) -> Result<String> {
    let told = || format!("{program} {}", words.join(" "));
    let output = Command::new(program)
        .current_dir(dir)
        .env("TZ", "UTC")
        .args(words)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", told()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{} has failed: {}", told(), output.status)),
    }
}

fn make_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

fn remove_dir(dir: &Path) -> Result<()> {
    fs::remove_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

fn write(path: &Path, content: &str, mode: u32) -> Result<()> {
    make_dir(path.parent().unwrap_or(Path::new("/")))?;
    fs::write(path, content)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    make_dir(to.parent().unwrap_or(Path::new("/")))?;
    fs::copy(from, to)
        .and_then(|_| fs::set_permissions(to, fs::Permissions::from_mode(mode)))
        .map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_counts() {
        let symbols = "0 DF *UND* (GLIBC_2.2.5) read\n0 DF *UND* (GLIBC_2.34) x\n0 (GLIBC_2.9) y\n";
        assert_eq!(glibc(symbols).as_deref(), Ok("2.34"));
        assert!(glibc("nothing").is_err());
    }

    #[test]
    fn crates_are_read_of_a_tree() {
        let line = "serde v1.0.219 (proc-macro)";
        assert_eq!(
            name_and_version(line),
            Some(("serde".into(), "1.0.219".into()))
        );
        assert_eq!(name_and_version(""), None);
    }
}
