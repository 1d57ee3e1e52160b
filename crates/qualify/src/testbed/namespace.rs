//! Network namespaces that are made for a device and removed with it.
//!
//! ```text
//!  root ──────────────────────────────► ip netns add NAME ─► ip -n NAME …, tc -n NAME …, bridge -n NAME …
//!  anybody ─► own user namespace, in it ─┘
//! ```

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};

use super::TestbedError;

/// Where `ip netns` keeps the names.
const NAMES: &str = "/run/netns";

/// The name of a namespace of this process: `thalweg-PID-NUMBER-WHAT`.
pub(super) fn name_of(number: u32, what: &str) -> String {
    format!("thalweg-{}-{number}-{what}", std::process::id())
}

/// Removes the namespaces of processes that were killed and could not.
pub(super) fn remove_abandoned() {
    let is_alive = |process: u32| Path::new(&format!("/proc/{process}")).exists();
    let names = std::fs::read_dir(NAMES).into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()) {
        if maker(&name).is_some_and(|process| !is_alive(process)) {
            // Another process may remove it at the same time.
            drop(Namespace(name));
        }
    }
}

/// The process that has made a namespace of this name; `None` of names that are not ours.
fn maker(name: &str) -> Option<u32> {
    let mut parts = name.strip_prefix("thalweg-")?.splitn(3, '-');
    let process = parts.next()?.parse().ok()?;
    parts.next()?.parse::<u32>().ok()?;
    parts.next().map(|_what| process)
}

/// A network namespace; gone when dropped, with the ends of links in it.
#[derive(Debug)]
pub(super) struct Namespace(String);

impl Namespace {
    pub(super) fn new(name: String) -> Result<Namespace, TestbedError> {
        run(&["ip", "netns", "add", &name])?;
        let namespace = Namespace(name);
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    pub(super) fn ip(&self, line: &str) -> Result<(), TestbedError> {
        let arguments: Vec<&str> = line.split(' ').collect();
        run(&[&["ip", "-n", &self.0], &arguments[..]].concat()).map(drop)
    }

    pub(super) fn tc(&self, line: &str) -> Result<String, TestbedError> {
        let arguments: Vec<&str> = line.split(' ').collect();
        run(&[&["tc", "-n", &self.0], &arguments[..]].concat())
    }

    pub(super) fn bridge(&self, line: &str) -> Result<(), TestbedError> {
        let arguments: Vec<&str> = line.split(' ').collect();
        run(&[&["bridge", "-n", &self.0], &arguments[..]].concat()).map(drop)
    }

    /// Runs `make` on a thread that is in this namespace; sockets that it opens stay there.
    pub(super) fn within<R: Send>(&self, make: impl FnOnce() -> R + Send) -> Result<R, TestbedError> {
        let failed = |cause: io::Error| TestbedError::Enter { name: self.0.clone(), cause };
        let entered = || {
            let place = File::open(format!("{NAMES}/{}", self.0))?;
            setns(place, CloneFlags::CLONE_NEWNET)?;
            Ok(make())
        };
        let joined = std::thread::scope(|scope| scope.spawn(entered).join());
        joined.unwrap_or_else(|_| Err(io::Error::other("its thread has panicked"))).map_err(failed)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _gone = run(&["ip", "netns", "del", &self.0]);
    }
}

fn run(arguments: &[&str]) -> Result<String, TestbedError> {
    let command = arguments.join(" ");
    let ended = Command::new(arguments[0]).args(&arguments[1..]).stdin(Stdio::null()).output();
    let ended = ended.map_err(|cause| TestbedError::Start { command: command.clone(), cause })?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            Err(TestbedError::Failed { command, said })
        }
    }
}

/// Lets a process without root make namespaces: it becomes root in a user namespace of its own, which nothing outside sees.
///
/// Returns whether it has; a process that is root already stays where it is. To be called before the process has a second thread: the
/// kernel gives a user namespace to no process that has several.
///
/// # Errors
/// When the kernel does not allow it.
pub fn become_root_of_own_namespace() -> io::Result<bool> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        return Ok(false);
    }
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    // Who may not leave groups may be given one.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    // `ip netns` keeps its names in /run/netns, which belongs to the system: this process gets a /run of its own.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    mount(Some("thalweg"), "/run", Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_this_program_are_known_by_the_process_that_made_them() {
        assert_eq!(maker(&name_of(7, "sources")), Some(std::process::id()));
        for other in
            ["thalweg-test", "thalweg-12", "thalweg-12-x-device", "vpn-12-0-device", "thalweg-a-0-device"]
        {
            assert_eq!(maker(other), None, "{other}");
        }
    }
}
