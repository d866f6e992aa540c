//! Manual pages and completions, generated from the text of `--help`.

use crate::Cli;
use crate::failure::{Failure, Outcome};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `sinew completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Arguments of `sinew manual`.
#[derive(Debug, Args)]
pub struct Manual {
    /// The directory, created if missing
    pub dir: PathBuf,
}

/// Prints completions for a shell.
pub fn completions(args: &Completions) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sinew", &mut text);
    let mut out = std::io::stdout().lock();
    let written = out.write_all(&text).and_then(|()| out.flush());
    written.map_err(crate::terminal::unwritten)
}

/// Writes a manual page for the program and one for each command: `sinew.1`, `sinew-links.1`, …
pub fn manual(args: &Manual) -> Outcome {
    std::fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.dir))
        .map_err(|error| {
            Failure::failed(format_args!("cannot write {}: {error}", args.dir.display()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_is_completed_and_every_command_has_a_page() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "sinew", &mut text);
            let text = String::from_utf8(text).unwrap();
            assert!(
                text.contains("invite") && text.contains("multicast"),
                "{shell}"
            );
        }
        let dir = std::env::temp_dir().join(format!("sinew-manual-{}", std::process::id()));
        manual(&Manual { dir: dir.clone() }).unwrap();
        for page in ["sinew.1", "sinew-join.1", "sinew-gateway-sip.1"] {
            let text = std::fs::read_to_string(dir.join(page)).unwrap();
            assert!(text.contains(".TH"), "{page}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
