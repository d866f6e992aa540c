//! The C library and programs that use it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The C compiler, and the directory of the library.
pub(crate) struct Compiler {
    library: PathBuf,
}

impl Compiler {
    /// Returns `None` and prints a line if there is no compiler for C.
    ///
    /// The library was built with this test, which depends on it. If a test called cargo, cargo would replace the
    /// program that other tests are running.
    pub(crate) fn find() -> Option<Compiler> {
        let has_compiler = Command::new("cc").arg("--version").output().is_ok();
        if !has_compiler {
            eprintln!("SKIPPED: the C library is not tested: `cc` is missing, install gcc");
            return None;
        }
        let program = Path::new(env!("CARGO_BIN_EXE_sinew"));
        let library = program.with_file_name("deps");
        let file = library.join("libsinew.so");
        assert!(file.exists(), "cargo did not build {}", file.display());
        Some(Compiler { library })
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

    /// Compiles a program that uses the library.
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
