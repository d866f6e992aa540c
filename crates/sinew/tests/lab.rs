//! `sinew lab`: scenarios with real node processes, and errors in scenarios, experiments and folders.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot read what it needs has failed"
)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a test waits for anything. Only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(60);
const PACE: Duration = Duration::from_millis(20);

/// A folder of this test, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sinew-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for pid in nodes_in(&self.0) {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sinew(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinew"))
        .args(words)
        .output()
        .unwrap()
}

/// Returns what a command prints as JSON.
#[track_caller]
fn json(words: &[&str]) -> Value {
    let output = sinew(words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a command that must be refused as misused, exit status 2. Returns its message.
#[track_caller]
fn refused(words: &[&str]) -> String {
    let output = sinew(words);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
    assert!(!error.contains("panicked"), "{error}");
    error
}

/// Returns the processes whose configuration lies in a folder.
fn nodes_in(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(" node --config ") && command.contains(folder) {
            pids.push(entry.file_name().to_str().unwrap().to_owned());
        }
    }
    pids
}

#[track_caller]
fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !until() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(PACE);
    }
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    std::fs::read_to_string(path.join(name)).unwrap()
}

fn flow<'v>(report: &'v Value, name: &str) -> &'v Value {
    let flows = report["flows"].as_array().unwrap();
    flows.iter().find(|flow| flow["name"] == name).unwrap()
}

fn received(report: &Value, name: &str) -> f64 {
    let flow = flow(report, name);
    flow["received"].as_f64().unwrap() / flow["sent"].as_f64().unwrap()
}

/// Real nodes and simulated ones deliver about as much. A machine that is busy with other tasks delivers less in real
/// time, not more.
#[test]
fn real_nodes_deliver_about_what_simulated_ones_do() {
    const ROUGHLY: f64 = 0.25;
    let folder = Folder::new("alike");
    let diamond = example("diamond.toml")
        .replace("duration = \"30s\"", "duration = \"6s\"")
        .replace("at = \"10s\"", "at = \"1500ms\"")
        .replace("at = \"20s\"", "at = \"3s\"");
    let chain = example("chain.toml")
        .replace("duration = \"60s\"", "duration = \"4s\"")
        .replace("at = \"30s\"", "at = \"2s\"");
    for (name, text, flows) in [
        ("diamond.toml", diamond, ["call there", "call back"]),
        ("chain.toml", chain, ["overlay", "direct"]),
    ] {
        let file = folder.write(name, &text);
        let file = file.to_str().unwrap();
        let simulated = json(&["sim", "run", file, "--json"]);
        let live = json(&["lab", "up", file, "--json"]);
        assert_eq!(live["live"], true);
        for flow_name in flows {
            let (real, model) = (received(&live, flow_name), received(&simulated, flow_name));
            assert!(
                (real - model).abs() < ROUGHLY,
                "{flow_name}: {real} {model}"
            );
            let count = |report: &Value| flow(report, flow_name)["sent"].as_u64().unwrap();
            assert!(count(&live) * 10 >= count(&simulated) * 9, "{live}");
        }
        for key in ["wire_bytes", "payload_bytes", "control_bytes"] {
            assert!(live["overlay"][key].as_u64().unwrap() > 0, "{key}: {live}");
        }
        let only_here = ["events", "datagrams"];
        assert!(
            only_here
                .iter()
                .all(|key| live[key].is_null() && !simulated[key].is_null())
        );
    }
}

/// A stopped relay process loses nothing: packets that arrived meanwhile are forwarded when it continues. Direct
/// packets by UDP do not pass through it.
#[test]
fn a_stalled_process_goes_on_with_what_has_waited() {
    let folder = Folder::new("stall");
    let text = "[scenario]\nname = 'stall'\nduration = '4s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[[node]]\nname = 'c'\n\
                [[link]]\na = 'a'\nb = 'c'\npath = 'delay=5ms'\n[[link]]\na = 'c'\nb = 'b'\npath = 'delay=5ms'\n\
                [[flow]]\nname = 'overlay'\nfrom = 'a'\nto = 'b'\nlink = 'best-effort'\ndeadline = '100ms'\n\
                [[flow]]\nname = 'direct'\nfrom = 'a'\nto = 'b'\ndirect = true\npath = 'delay=10ms'\n\
                [[fault]]\nat = '1s'\nkind = 'stall'\nnode = 'c'\nfor = '600ms'\n";
    let file = folder.write("stall.toml", text);
    let report = json(&["lab", "up", file.to_str().unwrap(), "--json"]);
    let silence = |name: &str| flow(&report, name)["longest_gap_ms"].as_f64().unwrap();
    // Packets of the last 100 ms are in time.
    assert!(silence("overlay") >= 400.0, "{report}");
    assert!(silence("direct") < silence("overlay"), "{report}");
    assert!(received(&report, "overlay") > 0.5, "{report}");
}

/// Makes a scenario of three nodes in a row, with a reliable stream of this length from the first to the last.
fn stream_over_a_relay(path: &str, seconds: u32, fault: &str) -> String {
    let duration = seconds + 1;
    format!(
        "[scenario]\nname = 'stream'\nduration = '{duration}s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[[node]]\nname = 'c'\n\
         [[link]]\na = 'a'\nb = 'c'\npath = '{path}'\n[[link]]\na = 'c'\nb = 'b'\npath = '{path}'\n\
         [[flow]]\nname = 'bytes'\nfrom = 'a'\nto = 'b'\nstream = true\nclass = 'reliable'\nstop = '{seconds}s'\n{fault}"
    )
}

#[test]
fn a_reliable_stream_of_real_nodes_brings_all_in_order_past_losses_and_a_stall() {
    let folder = Folder::new("stream");
    let stall = "[[fault]]\nat = '1s'\nkind = 'stall'\nnode = 'c'\nfor = '400ms'\n";
    let text = stream_over_a_relay("delay=5ms loss=5%", 4, stall);
    let file = folder.write("stream.toml", &text);
    let report = json(&["lab", "up", file.to_str().unwrap(), "--json"]);
    let bytes = flow(&report, "bytes");
    assert!(bytes["sent"].as_u64().unwrap() > 100, "{report}");
    for key in ["lost", "reordered", "duplicates", "refused"] {
        assert_eq!(bytes[key], 0, "{key}: {report}");
    }
}

#[test]
fn a_reliable_stream_is_opened_again_when_its_receiver_is_back() {
    let folder = Folder::new("again");
    let faults = "[[fault]]\nat = '1s'\nkind = 'crash'\nnode = 'b'\n\
                  [[fault]]\nat = '1500ms'\nkind = 'restart'\nnode = 'b'\n";
    // On a busy machine a process takes seconds to start.
    let text = stream_over_a_relay("delay=5ms", 12, faults);
    let file = folder.write("again.toml", &text);
    let report = json(&["lab", "up", file.to_str().unwrap(), "--json"]);
    // A twelfth of the packets is from the first second.
    assert!(received(&report, "bytes") > 0.15, "{report}");
    assert_eq!(flow(&report, "bytes")["reordered"], 0, "{report}");
}

#[test]
fn nodes_that_are_left_running_are_ended_by_down_and_nothing_else_is() {
    let folder = Folder::new("keep");
    let out = folder.0.join("out");
    let out = out.to_str().unwrap();
    let text = "[scenario]\nname = 'pair'\nduration = '1s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b/2'\n\
                [[link]]\na = 'a'\nb = 'b/2'\npath = 'delay=1ms'\n";
    let file = folder.write("pair.toml", text);
    let file = file.to_str().unwrap();
    let kept = json(&["lab", "up", file, "--out", out, "--json"]);
    assert_eq!(kept["left"]["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(nodes_in(&folder.0).len(), 2);
    let control = kept["left"]["nodes"][0]["control_socket"].as_str().unwrap();
    let status = json(&["status", "--node", control, "--json"]);
    assert_eq!(status["snapshot"]["name"], "a");
    let again = refused(&["lab", "up", file, "--out", out]);
    assert!(again.contains("sinew lab down"), "{again}");
    assert_eq!(
        nodes_in(&folder.0).len(),
        2,
        "the first ones are left alone"
    );
    let ended = json(&["lab", "down", out, "--json"]);
    assert_eq!(ended["scenario"], "pair");
    wait("both have ended", || nodes_in(&folder.0).is_empty());
    assert!(!Path::new(out).join("lab.json").exists());
    let left = std::fs::read_dir(Path::new(out).join("nodes")).unwrap();
    let left: Vec<PathBuf> = left.map(|entry| entry.unwrap().path()).collect();
    assert!(
        left.iter().all(|path| path.extension().unwrap() == "log"),
        "{left:?}"
    );
    assert!(refused(&["lab", "down", out]).contains("no nodes were left running"));
}

/// Starts a long run in the background, and waits until its nodes are up.
fn in_background(folder: &Folder) -> Child {
    let text = example("diamond.toml").replace("duration = \"30s\"", "duration = \"600s\"");
    let file = folder.write("long.toml", &text);
    let child = Command::new(env!("CARGO_BIN_EXE_sinew"))
        .args(["lab", "up", file.to_str().unwrap(), "--verbose", "--out"])
        .arg(folder.0.join("out"))
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait("all nodes run", || nodes_in(&folder.0).len() == 4);
    child
}

#[test]
fn ctrl_c_ends_everything() {
    let folder = Folder::new("ctrl-c");
    let child = in_background(&folder);
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("interrupted"), "{error}");
    assert_eq!(nodes_in(&folder.0), Vec::<String>::new());
}

#[test]
fn a_node_that_dies_of_itself_ends_the_run_and_all_others() {
    let folder = Folder::new("dies");
    let child = in_background(&folder);
    let victim = nodes_in(&folder.0).remove(0);
    assert!(
        Command::new("kill")
            .args(["-KILL", &victim])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("has ended"), "{error}");
    assert_eq!(nodes_in(&folder.0), Vec::<String>::new());
}

/// Both commands that take a scenario report the file, the key and the expected value.
#[test]
fn scenarios_that_cannot_be_are_refused_by_both() {
    let folder = Folder::new("refused");
    let pair =
        "[scenario]\nname = 'pair'\nduration = '1s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n";
    let link = "[[link]]\na = 'a'\nb = 'b'\npath = ";
    let ring = "[scenario]\nname = 'r'\nduration = '1s'\n[topology]\nkind = 'ring'\ndelay = '1ms'\nnodes = ";
    for (text, words) in [
        (
            format!("{pair}{link}'delay=-10ms'\n"),
            vec!["bad.toml:", "path", "-10ms"],
        ),
        (
            format!("{pair}{link}'clean'\nlatency = '1ms'\n"),
            vec!["bad.toml:", "latency", "no such key"],
        ),
        (
            format!("{pair}[[flow]]\nfrom = 'a'\nto = 'b'\n"),
            vec!["bad.toml:", "no links lead from `a` to `b`"],
        ),
        (
            format!("{ring}1000000\n"),
            vec!["bad.toml:", "nodes", "1000"],
        ),
        (format!("{ring}-4\n"), vec!["bad.toml:", "nodes"]),
        ("[scenario\n".to_owned(), vec!["bad.toml:1"]),
        (String::new(), vec!["bad.toml", "scenario"]),
        (
            pair.replace("'1s'", "'-1s'"),
            vec!["bad.toml:3", "duration"],
        ),
    ] {
        let file = folder.write("bad.toml", &text);
        let file = file.to_str().unwrap();
        for command in ["sim run", "lab up"] {
            let mut command: Vec<&str> = command.split(' ').collect();
            command.push(file);
            let error = refused(&command);
            for word in &words {
                assert!(error.contains(word), "{word}: {error}");
            }
        }
    }
    let missing = folder.0.join("missing.toml");
    for command in [["sim", "run"], ["lab", "up"]] {
        let words = [command[0], command[1], missing.to_str().unwrap()];
        assert!(refused(&words).contains("missing.toml"));
    }
}

#[test]
fn experiments_shards_and_folders_that_are_not_are_refused() {
    let folder = Folder::new("lab-refused");
    let out = folder.0.join("out");
    let out = out.to_str().unwrap();
    for shard in ["5/3", "0/3", "1/0", "x", "-1/2", "1/99999999999999999999"] {
        let shard = format!("--shard={shard}");
        let error = refused(&["lab", "run", "amir06/fig12", "--out", out, &shard]);
        assert!(error.contains("2/5"), "{error}");
    }
    for name in ["nosuch", "amir06/nosuch", "amir06", "AMIR06/all"] {
        let error = refused(&["lab", "run", name, "--out", out]);
        assert!(
            error.contains(name) && error.contains("sinew lab list"),
            "{error}"
        );
    }
    assert!(!Path::new(out).exists(), "nothing was begun");
    let file = folder.write("file", "");
    let within = file.join("out");
    let within = within.to_str().unwrap();
    let output = sinew(&["lab", "run", "amir06/fig12", "--out", within]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("file/out"), "{error}");
    let diamond = folder.write("diamond.toml", &example("diamond.toml"));
    let output = sinew(&["lab", "up", diamond.to_str().unwrap(), "--out", within]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("file/out"));
    for merge in [vec![out], vec![out, within]] {
        let words: Vec<&str> = ["lab", "merge"].into_iter().chain(merge).collect();
        assert!(!sinew(&words).status.success());
    }
}

#[test]
fn strict_runs_and_merges_fail_when_a_claim_does_not_hold() {
    let folder = Folder::new("strict");
    let text = "[experiment]\nid = 'own/pair'\ntitle = 'A pair'\n[experiment.grid]\nloss = [0]\n\
                [[experiment.measure]]\nname = 'sent'\ntake = 'flows.a-b.sent'\n\
                [[experiment.claim]]\nkey = 'some'\ncheck = 'sent >= 1'\n\
                [[experiment.claim]]\nkey = 'none'\ncheck = 'sent <= 0'\n\
                [scenario]\nname = 'pair'\nduration = '1s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n\
                [[link]]\na = 'a'\nb = 'b'\npath = 'loss={loss}%'\n[[flow]]\nfrom = 'a'\nto = 'b'\n";
    let file = folder.write("pair.toml", text);
    let true_one = folder.write("true.toml", &text.replace("sent <= 0", "sent <= 9999"));
    let [file, true_one] = [&file, &true_one].map(|file| file.to_str().unwrap());
    let at = |name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    let (out, part) = (at("out"), at("part"));
    let run = ["lab", "run", file, "--out", &out];
    assert!(sinew(&run).status.success());
    assert!(
        sinew(&["lab", "run", true_one, "--out", &out, "--strict"])
            .status
            .success()
    );
    let shard = ["lab", "run", file, "--out", &part, "--shard", "1/1"];
    assert!(sinew(&shard).status.success());
    let merge = ["lab", "merge", &part, "--out", &out];
    assert!(sinew(&merge).status.success());
    for words in [&run[..], &merge[..]] {
        for more in [&["--strict"][..], &["--strict", "--json"][..]] {
            let output = sinew(&[words, more].concat());
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last();
            assert_eq!(last, Some("sinew: claims that do not hold: own/pair: none"));
            assert!(!output.stdout.is_empty());
        }
    }
    // Without any test, nothing is known to hold.
    let claims = text.find("[[experiment.claim]]").unwrap()..text.find("[scenario]").unwrap();
    let mut bare = text.to_owned();
    bare.replace_range(claims, "");
    let bare = folder.write("bare.toml", &bare);
    let run = ["lab", "run", bare.to_str().unwrap(), "--out", &out];
    assert!(sinew(&run).status.success());
    let output = sinew(&[&run[..], &["--strict"]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().last(), Some("sinew: no claim was judged"));
    // A part of an experiment has no verdict.
    refused(&[&shard[..], &["--strict"]].concat());
}

/// Writes executable files with these names and contents.
fn programs(folder: &Path, all: &[(&str, &str)]) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(folder).unwrap();
    for (name, text) in all {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// A cluster gives the same result as one machine, byte for byte.
#[test]
fn the_parts_of_a_cluster_are_merged_into_the_files_of_one_machine() {
    let folder = Folder::new("cluster");
    let at = |name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    let experiment = ["lab", "run", "amir06/fig12", "--set", "side_km=3000,6000"];
    let run = |more: &[&str]| json(&[&experiment[..], more, &["--json"]].concat());
    run(&["--out", &at("one")]);
    let files = |of: &str| {
        let names = ["fig12.csv", "fig12.json", "fig12.svg"];
        names.map(|name| std::fs::read(folder.0.join(of).join("amir06").join(name)).unwrap())
    };
    let one = files("one");
    // The clusters are programs on this machine.
    let bin = folder.0.join("bin");
    programs(
        &bin,
        &[
            (
                "sbatch",
                "#!/bin/sh\nfor script; do :; done\nfor part in 1 2 3; do SLURM_ARRAY_TASK_ID=$part sh \"$script\" >&2 || exit 1; done\necho 7\n",
            ),
            ("ssh", "#!/bin/sh\nshift\nexec sh -c \"$*\"\n"),
            ("scp", "#!/bin/sh\nexec cp -r \"${2#*:}\" \"$3\"\n"),
        ],
    );
    let own = Path::new(env!("CARGO_BIN_EXE_sinew")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{path}", bin.display(), own.display());
    for (on, hosts) in [("slurm", vec![]), ("ssh", vec!["a", "b"])] {
        let told = match on {
            "slurm" => run(&["--out", &at(on), "--on", on, "--parts", "3"]),
            _ => run(&["--out", &at(on), "--on", on]),
        };
        let script = match on {
            "slurm" => "submit.sh",
            _ => "run.sh",
        };
        assert!(told["next"].as_str().unwrap().contains(script), "{told}");
        let mut ran = Command::new("sh");
        ran.arg(folder.0.join(on).join(script)).args(hosts);
        let output = ran.env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{on}: {output:?}");
        assert!(files(&format!("{on}/merged")) == one, "{on}");
    }
    run(&["--out", &at("k8s"), "--on", "k8s", "--parts", "3"]);
    let job = std::fs::read_to_string(folder.0.join("k8s/job.yaml")).unwrap();
    for line in [
        "completions: 3",
        "completionMode: Indexed",
        "--shard \"$part/3\"",
    ] {
        assert!(job.contains(line), "{job}");
    }
    refused(&["lab", "run", "amir06/fig99", "--on", "slurm"]);
    refused(&[
        "lab",
        "run",
        "amir06/fig12",
        "--set",
        "los=1",
        "--on",
        "slurm",
    ]);
    refused(&["lab", "run", "amir06/fig12", "--on", "ssh", "--parts", "3"]);
    refused(&[
        "lab",
        "run",
        "amir06/fig12",
        "--on",
        "slurm",
        "--parts",
        "0",
    ]);
    refused(&["lab", "run", "amir06/fig12", "--parts", "3"]);
}
