//! The C library and programs that use it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler for C, and where the library is.
pub(crate) struct Compiler {
    library: PathBuf,
}

impl Compiler {
    /// Builds the library; `None`, loudly, without a compiler for C.
    pub(crate) fn find() -> Option<Compiler> {
        let has_compiler = Command::new("cc").arg("--version").output().is_ok();
        if !has_compiler {
            eprintln!("SKIPPED: the C library is not tested: `cc` is missing, install gcc");
            return None;
        }
        // Beside the program under test and together with it, so that what they share has the same features and is
        // not compiled again.
        let out = Path::new(env!("CARGO_BIN_EXE_sinew")).parent().unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo
            .current_dir(root())
            .args(["build", "-q", "-p", "capi", "-p", "sinew"]);
        cargo.env("CARGO_TARGET_DIR", out.parent().unwrap());
        if out.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
        Some(Compiler {
            library: out.to_owned(),
        })
    }

    /// Compiles a program of the repository.
    pub(crate) fn compile(&self, source: &str, more: &[&str], program: &Path) {
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-o"]);
        let source = root().join(source);
        let output = cc.arg(program).arg(&source).args(more).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }

    /// The same for a program that uses the library.
    pub(crate) fn compile_with_library(&self, source: &str, more: &[&str], program: &Path) {
        let include = format!("-I{}", root().join("crates/capi/include").display());
        let path = format!("-L{}", self.library.display());
        let run = format!("-Wl,-rpath,{}", self.library.display());
        let all = [&[&include[..]], more, &[&path, "-lsinew", &run]].concat();
        self.compile(source, &all, program);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
