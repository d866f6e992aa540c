//! The package for Fedora, RHEL and SUSE, by `rpmbuild`.

use std::fs;

use super::{Package, Result, call, copy, make_dir, remove_dir, text, write};

/// Returns rpm's name for an architecture of Debian.
fn arch(debian: &str) -> &str {
    match debian {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    }
}

impl Package {
    /// Makes the package. If `rpmbuild` is missing, the function prints a line and makes none.
    pub(super) fn rpm(&self, program: &std::path::Path) -> Result<()> {
        if call(&self.root, "rpmbuild", &["--version"]).is_err() {
            eprintln!("dist: SKIPPED: no .rpm: `rpmbuild` is missing, install the package rpm");
            return Ok(());
        }
        let top = self.out.join("rpm");
        let stage = top.join("stage");
        self.install(program, &stage, "usr")?;
        let places = ["usr/lib/systemd/system", "usr/lib/systemd/user"].map(|at| stage.join(at));
        self.units([&places[0], &places[1]], "/usr/bin/sinew")?;
        make_dir(&stage.join("etc/sinew/gateways"))?;
        // Fedora's zsh looks in another directory than Debian's.
        let words = stage.join("usr/share/zsh/vendor-completions");
        let place = stage.join("usr/share/zsh/site-functions");
        copy(&words.join("_sinew"), &place.join("_sinew"), 0o644)?;
        remove_dir(&words)?;
        let path = self.root.join("packaging/rpm/sinew.spec");
        let spec =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // rpm permits no `-` in a version.
        let spec = spec
            .replace("@VERSION@", &self.version.replace('-', "~"))
            .replace("@STAGE@", &text(&stage));
        write(&top.join("sinew.spec"), &spec, 0o644)?;
        let arch = arch(&self.arch);
        let words = [
            "-bb",
            "--quiet",
            "--target",
            arch,
            "--define",
            &format!("_topdir {}", text(&top)),
            "--define",
            "_build_id_links none",
            &text(&top.join("sinew.spec")),
        ];
        call(&self.root, "rpmbuild", &words)?;
        let made = top.join("RPMS").join(arch);
        let file = fs::read_dir(&made)
            .map_err(|error| format!("{}: {error}", made.display()))?
            .flatten()
            .next()
            .ok_or("rpmbuild has made no package")?;
        copy(&file.path(), &self.out.join(file.file_name()), 0o644)?;
        remove_dir(&top)
    }
}
