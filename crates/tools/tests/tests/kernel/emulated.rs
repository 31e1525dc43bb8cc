//! An emulated machine that runs one script and is gone: its files are all in memory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Modules of the kernel, each before those that need it.
const MODULES: [&str; 9] = [
    "cryptd",
    "crypto_simd",
    "gf128mul",
    "ghash-generic",
    "ghash-clmulni-intel",
    "ctr",
    "gcm",
    "aesni-intel",
    "tls",
];

/// What runs first in the machine. What the script says stands between two lines of its own.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
while read module; do insmod "/modules/$module.ko" || echo "no $module"; done </modules/order
ip link set lo up
cd /work
echo "SCRIPT BEGINS"
sh ./script
echo "SCRIPT ENDED $?"
poweroff -f
"#;

/// Seconds after which it hangs.
const LIMIT: &str = "300";

/// Megabytes of memory, for its files too.
const MEMORY: &str = "1536";

/// A machine before it runs.
pub struct Machine {
    folder: TempDir,
}

impl Machine {
    /// With a kernel, its modules and a shell.
    pub fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for folder in ["bin", "dev", "etc", "proc", "sys", "tmp", "work", "modules"] {
            fs::create_dir_all(machine.at(folder)).unwrap();
        }
        machine.program("bin/busybox", &tool("HERMES_BUSYBOX"));
        // No one answers there.
        machine.write("etc/resolv.conf", "nameserver 127.0.0.1\n");
        machine.write("init", INIT);
        fs::set_permissions(machine.at("init"), PermissionsExt::from_mode(0o755)).unwrap();

        machine.write("modules/order", &(MODULES.join("\n") + "\n"));
        for module in MODULES {
            let name = format!("{module}.ko");
            let found = find(&kernel().join("lib/modules"), &name);
            let found = found.unwrap_or_else(|| panic!("the kernel has no {name}"));
            fs::copy(found, machine.at("modules").join(name)).unwrap();
        }
        machine
    }

    /// A file of its folder `work`.
    pub fn write_work(&self, name: &str, content: &str) {
        self.write(&format!("work/{name}"), content);
    }

    /// A program, without what only debuggers need, with the libraries that it loads.
    pub fn program(&self, path: &str, from: &Path) {
        let to = self.at(path);
        let mut strip = Command::new("strip");
        done(strip.arg("-o").arg(&to).arg(from));

        let output = Command::new("ldd").arg(from).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        for library in said.split_whitespace().filter(|word| word.starts_with('/')) {
            let to = self.at(library.trim_start_matches('/'));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(library, to).unwrap();
        }
    }

    /// Runs a script in its folder `work`; what it said.
    ///
    /// # Panics
    /// The script failed, or the machine does not come to its end.
    pub fn run(self, script: &str) -> String {
        self.write_work("script", script);
        let files = self.folder.path().join("files.cpio");
        let pack = "cd \"$1\" && find . | \"$2\" cpio -o -H newc >\"$3\"";
        let mut sh = Command::new("sh");
        sh.args(["-ec", pack, "sh"])
            .arg(self.at(""))
            .arg(tool("HERMES_BUSYBOX"))
            .arg(&files);
        done(&mut sh);

        let mut emulator = Command::new("timeout");
        emulator
            .arg(LIMIT)
            .arg(tool("HERMES_QEMU_SYSTEM_X86_64"))
            .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"])
            .args(["-m", MEMORY, "-nographic", "-nic", "none", "-no-reboot"])
            .args(["-append", "console=ttyS0 quiet panic=-1"])
            .arg("-kernel")
            .arg(image())
            .arg("-initrd")
            .arg(&files)
            .stdin(Stdio::null());
        let output = emulator.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        let (_, said) = said
            .split_once("SCRIPT BEGINS\n")
            .unwrap_or_else(|| panic!("the machine did not start:\n{said}"));
        let (said, end) = said
            .split_once("SCRIPT ENDED ")
            .unwrap_or_else(|| panic!("the script did not end:\n{said}"));
        assert!(end.starts_with("0\n"), "the script failed:\n{said}");
        said.to_owned()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path)
    }

    fn write(&self, path: &str, content: &str) {
        fs::write(self.at(path), content).unwrap();
    }
}

/// What `./test` names in this variable.
pub fn tool(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable);
    path.unwrap_or_else(|| panic!("{variable} is not set; run ./test kernel"))
        .into()
}

/// Where the package of the kernel was unpacked.
fn kernel() -> PathBuf {
    tool("HERMES_KERNEL")
}

fn image() -> PathBuf {
    let mut files = fs::read_dir(kernel().join("boot")).unwrap();
    let is_image = |file: &PathBuf| file.to_string_lossy().contains("/vmlinuz-");
    let image = files.find_map(|file| file.ok().map(|file| file.path()).filter(is_image));
    image.expect("the package has a kernel")
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    fs::read_dir(folder).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => find(&path, name),
            false => path.ends_with(name).then_some(path),
        }
    })
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
