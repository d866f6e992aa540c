//! `sinew lab run --on slurm|k8s|ssh`: writes the files with which a cluster runs an experiment in parts.
//!
//! ```text
//!   slurm   parts.sh (job array), merge.sh, submit.sh     k8s   job.yaml (indexed job), merge.sh     ssh   run.sh HOST…
//!      each part: sinew lab run … --shard I/N --out part-I ──▶ sinew lab merge ──▶ the result of one machine
//! ```
//! The command runs nothing: clusters differ in accounts, queues and volumes, so users must check the files first.

use super::Run;
use crate::failure::{Failure, Outcome};
use crate::terminal;
use lab::experiment::{self, Definition};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The default number of parts.
const PARTS: usize = 16;
/// The image of a pod. It needs a shell, which the image of `cargo xtask dist` does not have.
const IMAGE: &str = "sinew-lab";

/// What runs the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Cluster {
    /// A job array of SLURM
    Slurm,
    /// An indexed job of Kubernetes
    K8s,
    /// Hosts that you name, by ssh
    Ssh,
}

/// A file, and whether it is executable.
struct Written {
    name: &'static str,
    text: String,
    runs: bool,
}

/// Writes the files, and describes the next step.
pub(super) fn write(args: &Run, on: Cluster) -> Outcome {
    let size = super::size(args);
    experiment::check(&args.experiments, size, &args.set).map_err(super::failure)?;
    if let Some(speech) = &args.speech
        && (on != Cluster::Slurm || !speech.is_absolute())
    {
        return Err(Failure::misused(
            "the parts run in other folders: with --on slurm name the recording by its whole path, and leave it out \
             with k8s and ssh",
        ));
    }
    if on == Cluster::Ssh && args.parts.is_some() {
        return Err(Failure::misused(
            "--on ssh has as many parts as you name hosts: leave out --parts",
        ));
    }
    let failed = |path: &Path, error: &std::io::Error| {
        Failure::failed(format_args!("cannot write {}: {error}", path.display()))
    };
    fs::create_dir_all(&args.out).map_err(|error| failed(&args.out, &error))?;
    let parts = args.parts.unwrap_or(PARTS);
    let (experiments, own) = carried(args)?;
    let command = command(args, &experiments);
    let (files, next) = match on {
        Cluster::Slurm => (
            slurm(&command, parts),
            format!("sh {}/submit.sh", shown(&args.out)),
        ),
        Cluster::K8s => (
            k8s(&command, parts),
            format!("kubectl apply -f {}/job.yaml", shown(&args.out)),
        ),
        Cluster::Ssh => (
            ssh(&command, &own),
            format!("sh {}/run.sh HOST…", shown(&args.out)),
        ),
    };
    for file in &files {
        let path = args.out.join(file.name);
        fs::write(&path, &file.text).map_err(|error| failed(&path, &error))?;
        if file.runs {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&path, mode).map_err(|error| failed(&path, &error))?;
        }
    }
    let names = files.iter().map(|file| file.name);
    let names: Vec<&str> = names.chain(own.iter().map(String::as_str)).collect();
    if args.json {
        return terminal::json(&json!({ "folder": args.out, "files": names, "next": next }));
    }
    terminal::line(&format!(
        "{} in {}. Look at them, then run: {next}",
        names.join(", "),
        args.out.display()
    ))
}

fn shown(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Returns the experiments as the parts name them, and the files that they need: definitions of the user's own are
/// copied to the parts.
fn carried(args: &Run) -> Result<(Vec<String>, Vec<String>), Failure> {
    let (mut experiments, mut own) = (Vec::new(), Vec::new());
    for name in &args.experiments {
        if !Definition::is_meant_by(name) {
            experiments.push(name.clone());
            continue;
        }
        let definition = Definition::load(Path::new(name)).map_err(super::failure)?;
        let file = definition.write(&args.out).map_err(super::failure)?;
        experiments.push(file.clone());
        own.push(file);
    }
    Ok((experiments, own))
}

/// Returns the command of one part, without its number and its folder.
fn command(args: &Run, experiments: &[String]) -> String {
    let mut words = vec!["sinew".to_owned(), "lab".to_owned(), "run".to_owned()];
    words.extend(experiments.iter().map(|id| quoted(id)));
    if args.full {
        words.push("--full".to_owned());
    }
    words.push(format!("--seed {}", args.seed));
    if let Some(speech) = &args.speech {
        words.push(format!("--speech {}", shown(speech)));
    }
    for set in &args.set {
        words.push(format!("--set {}", quoted(&set.to_string())));
    }
    words.join(" ")
}

fn slurm(command: &str, parts: usize) -> Vec<Written> {
    let parts_sh = format!(
        "#!/bin/sh\n\
         #SBATCH --job-name=sinew-lab\n\
         #SBATCH --array=1-{parts}\n\
         #SBATCH --cpus-per-task=4\n\
         #SBATCH --output=part-%a.log\n\
         set -eu\n\
         rm -rf \"part-$SLURM_ARRAY_TASK_ID\"\n\
         {command} --shard \"$SLURM_ARRAY_TASK_ID/{parts}\" --out \"part-$SLURM_ARRAY_TASK_ID\"\n"
    );
    let merge_sh = format!(
        "#!/bin/sh\n\
         #SBATCH --job-name=sinew-lab-merge\n\
         #SBATCH --output=merge.log\n\
         {}",
        merge(parts)
    );
    let submit_sh = "#!/bin/sh\n\
         # Submits the parts, and the merge behind them.\n\
         set -eu\n\
         cd \"$(dirname \"$0\")\"\n\
         parts=$(sbatch --parsable parts.sh)\n\
         sbatch --kill-on-invalid-dep=yes --dependency=\"afterok:${parts%%;*}\" merge.sh\n";
    vec![
        script("parts.sh", parts_sh),
        script("merge.sh", merge_sh),
        script("submit.sh", submit_sh.to_owned()),
    ]
}

/// Returns the script that merges the parts, which runs in its own folder.
fn merge(parts: usize) -> String {
    format!(
        "set -eu\n\
         sinew lab merge $(seq -f part-%.0f 1 {parts}) --out merged\n"
    )
}

fn k8s(command: &str, parts: usize) -> Vec<Written> {
    let job = format!(
        "# The parts of an experiment of the laboratory. They need a volume that several pods write to, here the\n\
         # claim `sinew-lab`, and an image with a shell and sinew, here `sinew-lab`:\n\
         #   FROM debian:stable-slim\n\
         #   COPY sinew /usr/local/bin/sinew\n\
         # Put files that end in .experiment.json into that volume before you start the job. When it is complete, put\n\
         # merge.sh there and run it.\n\
         apiVersion: batch/v1\n\
         kind: Job\n\
         metadata:\n\
         \x20 name: sinew-lab\n\
         spec:\n\
         \x20 completionMode: Indexed\n\
         \x20 completions: {parts}\n\
         \x20 parallelism: {parts}\n\
         \x20 backoffLimit: {parts}\n\
         \x20 template:\n\
         \x20   spec:\n\
         \x20     restartPolicy: Never\n\
         \x20     containers:\n\
         \x20       - name: part\n\
         \x20         image: {IMAGE}\n\
         \x20         workingDir: /out\n\
         \x20         command:\n\
         \x20           - /bin/sh\n\
         \x20           - -c\n\
         \x20           - |\n\
         \x20             set -eu\n\
         \x20             part=$((JOB_COMPLETION_INDEX + 1))\n\
         \x20             {command} --shard \"$part/{parts}\" --out \"part-$part\"\n\
         \x20         volumeMounts:\n\
         \x20           - name: out\n\
         \x20             mountPath: /out\n\
         \x20     volumes:\n\
         \x20       - name: out\n\
         \x20         persistentVolumeClaim:\n\
         \x20           claimName: sinew-lab\n"
    );
    vec![
        Written {
            name: "job.yaml",
            text: job,
            runs: false,
        },
        script(
            "merge.sh",
            format!("#!/bin/sh\ncd \"$(dirname \"$0\")\"\n{}", merge(parts)),
        ),
    ]
}

fn ssh(command: &str, own: &[String]) -> Vec<Written> {
    let own: Vec<String> = own.iter().map(|file| quoted(file)).collect();
    let carry = match own.is_empty() {
        true => String::new(),
        false => format!("\x20       scp -q {} \"$host:$there/\"\n", own.join(" ")),
    };
    let run_sh = format!(
        "#!/bin/sh\n\
         # Runs one part on each host, and merges them here: sh run.sh HOST…\n\
         # Each host needs the same sinew on its path.\n\
         set -eu\n\
         cd \"$(dirname \"$0\")\"\n\
         parts=$#\n\
         test \"$parts\" -gt 0 || {{ echo 'run.sh: name at least one host' >&2; exit 2; }}\n\
         part=0\n\
         running=\n\
         trap 'trap - TERM; kill 0' INT TERM\n\
         for host in \"$@\"; do\n\
         \x20   part=$((part + 1))\n\
         \x20   (\n\
         \x20       there=$(ssh \"$host\" mktemp -d)\n\
         \x20       trap 'ssh \"$host\" rm -rf \"$there\"' EXIT\n\
         {carry}\
         \x20       ssh \"$host\" \"cd $there && {remote} --shard $part/$parts --out part-$part\" >\"part-$part.log\" 2>&1\n\
         \x20       rm -rf \"part-$part\"\n\
         \x20       scp -qr \"$host:$there/part-$part\" .\n\
         \x20   ) &\n\
         \x20   running=\"$running $!\"\n\
         done\n\
         failed=0\n\
         for one in $running; do wait \"$one\" || failed=1; done\n\
         test \"$failed\" = 0 || {{ echo 'run.sh: a part has failed: see part-*.log' >&2; exit 1; }}\n\
         sinew lab merge $(seq -f part-%.0f 1 \"$parts\") --out merged\n",
        remote = command
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('$', "\\$")
            .replace('`', "\\`")
    );
    vec![script("run.sh", run_sh)]
}

fn script(name: &'static str, text: String) -> Written {
    Written {
        name,
        text,
        runs: true,
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "/._-=,:@+".contains(c);
    match !word.is_empty() && word.chars().all(is_safe) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_word_as_it_was() {
        for word in ["", "amir06/fig4", "it's", "a b", "$(x)", "loss=1,2"] {
            let echoed = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(echoed.stdout).unwrap(), word);
        }
    }
}
