//! The container image, without a container engine: an OCI layout that Docker and Podman load.
//!
//! ```text
//!   oci-layout, index.json ─▶ manifest ─┬─▶ configuration: what runs, as whom
//!   manifest.json (Docker's own index)  ├─▶ layer: the program, and the libraries it is linked with
//!                                       └─▶ layer: /etc/sinew, the volume, which belongs to the node's user
//! ```
//! The image contains nothing else: no shell, no package manager.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Package, Result, call, copy, make_dir, remove_dir, text, write};

/// The user in the image. Choice: the number that images without a distribution use for an unprivileged user.
const USER: u32 = 65_532;

/// A blob by its digest.
struct Blob {
    digest: String,
    bytes: u64,
}

impl Blob {
    fn described(&self, kind: &str) -> Value {
        json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{}", self.digest),
            "size": self.bytes,
        })
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }
}

impl Package {
    /// Makes `sinew-VERSION-ARCH.oci.tar`.
    pub(super) fn image(&self, program: &Path) -> Result<()> {
        let top = self.out.join("image");
        let blobs = top.join("blobs/sha256");
        make_dir(&blobs)?;
        let system = self.system(program, &top.join("system"))?;
        let state = top.join("state");
        make_dir(&state.join("etc/sinew"))?;
        let layers = [
            self.layer(&system, 0, &top)?,
            self.layer(&state, USER, &top)?,
        ];
        let ids: Vec<String> = layers
            .iter()
            .map(|(_, id)| format!("sha256:{id}"))
            .collect();
        let config = self.configuration(&ids)?;
        let config = self.blob(&top, &config.to_string())?;
        let described: Vec<Value> = layers
            .iter()
            .map(|(layer, _)| layer.described("layer.v1.tar+gzip"))
            .collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.described("config.v1+json"),
            "layers": described,
        });
        let manifest = self.blob(&top, &manifest.to_string())?;
        let name = format!("sinew:{}", self.version);
        let mut entry = manifest.described("manifest.v1+json");
        entry["annotations"] = json!({
            "org.opencontainers.image.ref.name": self.version,
            "io.containerd.image.name": format!("docker.io/library/{name}"),
        });
        let index = json!({ "schemaVersion": 2, "manifests": [entry] });
        write(&top.join("index.json"), &index.to_string(), 0o644)?;
        let layout = json!({ "imageLayoutVersion": "1.0.0" });
        write(&top.join("oci-layout"), &layout.to_string(), 0o644)?;
        // Docker before version 25 reads this one.
        let paths: Vec<String> = layers.iter().map(|(layer, _)| layer.path()).collect();
        let docker = json!([{ "Config": config.path(), "RepoTags": [name], "Layers": paths }]);
        write(&top.join("manifest.json"), &docker.to_string(), 0o644)?;
        let file = self
            .out
            .join(format!("sinew-{}-{}.oci.tar", self.version, self.arch));
        let parts = ["blobs", "index.json", "manifest.json", "oci-layout"];
        self.tar(&top, &file, 0, &parts)?;
        remove_dir(&top)
    }

    /// Copies the program and the libraries that it names, and writes the list of users.
    fn system(&self, program: &Path, into: &Path) -> Result<PathBuf> {
        copy(program, &into.join("usr/bin/sinew"), 0o755)?;
        for library in libraries(&call(&self.root, "ldd", &[&text(program)])?) {
            let inside = library.strip_prefix("/").unwrap_or(&library);
            copy(&library, &into.join(inside), 0o755)?;
        }
        let passwd = format!(
            "root:x:0:0:root:/:/sbin/nologin\nsinew:x:{USER}:{USER}:sinew:/etc/sinew:/sbin/nologin\n"
        );
        write(&into.join("etc/passwd"), &passwd, 0o644)?;
        let group = format!("root:x:0:\nsinew:x:{USER}:\n");
        write(&into.join("etc/group"), &group, 0o644)?;
        let names = "hosts: files dns\n";
        write(&into.join("etc/nsswitch.conf"), names, 0o644)?;
        Ok(into.to_owned())
    }

    fn configuration(&self, layers: &[String]) -> Result<Value> {
        Ok(json!({
            "created": self.committed()?,
            "architecture": self.arch,
            "os": "linux",
            "config": {
                "User": format!("{USER}:{USER}"),
                "Entrypoint": ["/usr/bin/sinew"],
                "Cmd": ["--help"],
                "WorkingDir": "/etc/sinew",
                "Env": ["PATH=/usr/bin"],
                "Volumes": { "/etc/sinew": {} },
                "ExposedPorts": { "7700/udp": {}, "7700/tcp": {} },
                "StopSignal": "SIGTERM",
                "Labels": {
                    "org.opencontainers.image.title": "sinew",
                    "org.opencontainers.image.version": self.version,
                    "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
                },
            },
            "rootfs": { "type": "layers", "diff_ids": layers },
        }))
    }

    /// Makes a layer of everything in `dir`. Returns it with the digest of its content before compression.
    fn layer(&self, dir: &Path, owner: u32, top: &Path) -> Result<(Blob, String)> {
        let file = top.join("layer.tar");
        let names: Vec<String> = fs::read_dir(dir)
            .map_err(|error| format!("{}: {error}", dir.display()))?
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.tar(dir, &file, owner, &names)?;
        let id = self.digest(&file)?;
        call(&self.root, "gzip", &["-9n", &text(&file)])?;
        Ok((self.keep(top, &top.join("layer.tar.gz"))?, id))
    }

    fn tar(&self, dir: &Path, file: &Path, owner: u32, names: &[&str]) -> Result<()> {
        let owners = [format!("--owner={owner}"), format!("--group={owner}")];
        let mtime = format!("--mtime={}", self.committed()?);
        let (dir, file) = (text(dir), text(file));
        let mut words = vec!["-C", &dir, &owners[0], &owners[1], "--numeric-owner"];
        words.extend([&mtime, "--sort=name", "-cf", &file]);
        words.extend(names);
        call(&self.root, "tar", &words).map(drop)
    }

    fn blob(&self, top: &Path, content: &str) -> Result<Blob> {
        let file = top.join("blob");
        write(&file, content, 0o644)?;
        self.keep(top, &file)
    }

    /// Moves a file to the path that its digest determines.
    fn keep(&self, top: &Path, file: &Path) -> Result<Blob> {
        let digest = self.digest(file)?;
        let told = |error: std::io::Error| format!("{}: {error}", file.display());
        let bytes = fs::metadata(file).map_err(told)?.len();
        fs::rename(file, top.join("blobs/sha256").join(&digest)).map_err(told)?;
        Ok(Blob { digest, bytes })
    }

    fn digest(&self, file: &Path) -> Result<String> {
        let said = call(&self.root, "sha256sum", &[&text(file)])?;
        let digest = said.split_whitespace().next();
        digest
            .map(str::to_owned)
            .ok_or_else(|| "sha256sum has said nothing".to_owned())
    }
}

/// Returns the files that `ldd` names, including the loader.
fn libraries(said: &str) -> Vec<PathBuf> {
    let of_line = |line: &str| {
        let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
        Some(PathBuf::from(path))
    };
    said.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read() {
        let said = "\tlinux-vdso.so.1 (0x0007)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let expected = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(libraries(said), expected.map(PathBuf::from));
    }
}
