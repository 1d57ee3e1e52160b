//! The site of a directory: file system, mount options, device, disk.
//!
//! ```text
//!  directory ─► device number ─┬► /proc/self/mountinfo ─► kind, mount point, options
//!                              └► /sys/dev/block/MAJOR:MINOR ─► partition ─► disk: model, rotating or not, size
//! ```

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::host::HostFiles;

/// A directory's file system and disk. What the system does not say is null.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Site {
    /// The directory, with no link in it.
    pub directory: PathBuf,
    /// Kind of the file system: `ext4`, `xfs`.
    pub file_system: Option<String>,
    /// The mount point.
    pub mount_point: Option<PathBuf>,
    /// Options of the mount and of the file system.
    pub mount_options: Option<String>,
    /// The device that holds it: `/dev/nvme0n1p2`.
    pub device: Option<String>,
    /// The disks beneath: `nvme0n1`; several of a logical volume.
    pub disks: BTreeSet<String>,
    /// The maker's name of the first disk.
    pub model: Option<String>,
    /// True if the first disk has platters, so that outer tracks are faster.
    pub is_rotating: Option<bool>,
    /// Bytes of the device.
    pub device_bytes: Option<u64>,
    /// The offset at which the device begins on its disk, bytes.
    pub partition_start_bytes: Option<u64>,
    /// The number of the file system's device, as `stat` has it.
    #[serde(skip)]
    pub device_number: u64,
}

impl Site {
    /// Looks at a directory, which must be there and be one.
    ///
    /// # Errors
    /// What the system said.
    pub(super) fn of(files: &HostFiles, directory: &Path) -> Result<Site, String> {
        let directory = directory.canonicalize().map_err(|cause| cause.to_string())?;
        let found = std::fs::metadata(&directory).map_err(|cause| cause.to_string())?;
        if !found.is_dir() {
            return Err("this is no directory".to_owned());
        }
        let mounts = files.text("/proc/self/mountinfo").unwrap_or_default();
        let mount = Mount::of(&mounts, &directory);
        let number = mount.as_ref().and_then(block_device).unwrap_or_else(|| found.dev());
        let mut site = Site {
            directory,
            file_system: mount.as_ref().map(|mount| mount.kind.clone()),
            mount_point: mount.as_ref().map(|mount| mount.point.clone()),
            mount_options: mount.as_ref().map(|mount| mount.options.clone()),
            device: mount.map(|mount| mount.source),
            disks: BTreeSet::new(),
            model: None,
            is_rotating: None,
            device_bytes: None,
            partition_start_bytes: None,
            device_number: found.dev(),
        };
        site.look_beneath(files, number);
        Ok(site)
    }

    /// Returns true if it lies in memory, so that there is no disk to measure.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.file_system.as_deref(), Some("tmpfs" | "ramfs"))
    }

    /// Describes the disks, or the file system where there is none.
    pub fn disk_text(&self) -> String {
        match self.disks.is_empty() {
            false => self.disks.iter().cloned().collect::<Vec<_>>().join(" + "),
            true => self.file_system.clone().unwrap_or_else(|| "unknown".to_owned()),
        }
    }

    /// Returns true if a file system with this device number lies on one of the same disks.
    pub(super) fn shares_a_disk(&self, files: &HostFiles, device_number: u64) -> bool {
        let others = disks(files, device_number);
        device_number == self.device_number || others.intersection(&self.disks).next().is_some()
    }

    fn look_beneath(&mut self, files: &HostFiles, number: u64) {
        let folder = block_folder(number);
        let sectors = |path: String| files.number::<u64>(&path).ok().map(|sectors| sectors * 512);
        self.device_bytes = sectors(format!("{folder}/size"));
        self.partition_start_bytes = sectors(format!("{folder}/start"));
        self.disks = disks(files, number);
        if let Some(disk) = self.disks.first() {
            let of_disk = |what: &str| files.text(&format!("/sys/block/{disk}/{what}")).ok();
            self.model = of_disk("device/model");
            self.is_rotating = of_disk("queue/rotational").map(|text| text == "1");
        }
    }
}

fn block_folder(number: u64) -> String {
    format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
}

/// The disks beneath a block device: the whole one of a partition, those of a logical volume.
fn disks(files: &HostFiles, number: u64) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if let Ok(folder) = files.at(&block_folder(number)).canonicalize() {
        add_disks(&folder, &mut found);
    }
    found
}

fn add_disks(folder: &Path, found: &mut BTreeSet<String>) {
    let beneath: Vec<PathBuf> = std::fs::read_dir(folder.join("slaves"))
        .map(|entries| entries.flatten().filter_map(|entry| entry.path().canonicalize().ok()).collect())
        .unwrap_or_default();
    for device in &beneath {
        add_disks(device, found);
    }
    let disk = if folder.join("partition").exists() { folder.parent() } else { Some(folder) };
    if let (true, Some(name)) = (beneath.is_empty(), disk.and_then(Path::file_name)) {
        found.insert(name.to_string_lossy().into_owned());
    }
}

/// The device number of a mount's source where that is a block device: some file systems (btrfs) have numbers of their own.
fn block_device(mount: &Mount) -> Option<u64> {
    let found = std::fs::metadata(&mount.source).ok()?;
    found.file_type().is_block_device().then(|| found.rdev())
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq)]
struct Mount {
    point: PathBuf,
    kind: String,
    source: String,
    options: String,
}

impl Mount {
    /// The last one mounted over the longest path that holds `directory`.
    fn of(mounts: &str, directory: &Path) -> Option<Mount> {
        let holds = |mount: &Mount| directory.starts_with(&mount.point);
        mounts.lines().filter_map(Mount::read).filter(holds).max_by_key(|mount| mount.point.as_os_str().len())
    }

    /// `36 35 98:0 /root /mnt rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue` (proc(5)).
    fn read(line: &str) -> Option<Mount> {
        let (first, second) = line.split_once(" - ")?;
        let mut first = first.split(' ').skip(4);
        let (point, own) = (first.next()?, first.next()?);
        let mut second = second.split(' ');
        let (kind, source) = (second.next()?.to_owned(), unescaped(second.next()?));
        let mut options: Vec<&str> = own.split(',').collect();
        for option in second.next().unwrap_or("").split(',').filter(|option| !option.is_empty()) {
            if !options.contains(&option) {
                options.push(option);
            }
        }
        Some(Mount { point: unescaped(point).into(), kind, source, options: options.join(",") })
    }
}

/// Spaces in paths are written as `\040`.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,errors=continue\n\
                          30 22 259:2 / /data rw,noatime shared:4 - xfs /dev/nvme0n1p2 rw,attr2,noquota\n\
                          31 30 0:40 / /data/with\\040space rw - tmpfs none rw,size=16384k";

    #[test]
    fn the_mount_of_the_longest_path_is_found_with_all_its_options() {
        let of = |path: &str| Mount::of(MOUNTS, Path::new(path)).expect("mounted");
        let data = of("/data/runs");
        assert_eq!((data.kind.as_str(), data.source.as_str()), ("xfs", "/dev/nvme0n1p2"));
        assert_eq!(data.options, "rw,noatime,attr2,noquota");
        assert_eq!(of("/data/with space/x").kind, "tmpfs");
        assert_eq!(of("/database").kind, "ext4");
        assert_eq!(Mount::of("", Path::new("/")), None);
    }

    #[test]
    fn partitions_and_logical_volumes_lie_on_their_disks() {
        let root = tempfile::tempdir().expect("a directory");
        let make = |path: &str| std::fs::create_dir_all(root.path().join(path)).expect("made");
        make("sys/block/sda/sda1");
        make("sys/block/sdb");
        make("sys/block/dm-0/slaves");
        make("sys/dev/block");
        std::fs::write(root.path().join("sys/block/sda/sda1/partition"), "1").expect("written");
        let link = |to: &str, from: &str| {
            std::os::unix::fs::symlink(root.path().join(to), root.path().join(from)).expect("linked");
        };
        link("sys/block/sda/sda1", "sys/dev/block/8:1");
        link("sys/block/dm-0", "sys/dev/block/253:0");
        link("sys/block/sda/sda1", "sys/block/dm-0/slaves/sda1");
        link("sys/block/sdb", "sys/block/dm-0/slaves/sdb");
        let files = HostFiles::below(root.path());
        let of =
            |major, minor| disks(&files, rustix::fs::makedev(major, minor)).into_iter().collect::<Vec<_>>();
        assert_eq!(of(8, 1), ["sda"]);
        assert_eq!(of(253, 0), ["sda", "sdb"]);
        assert!(of(0, 40).is_empty());
    }

    #[test]
    fn a_file_is_no_directory() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let refused = Site::of(&HostFiles::of_host(), file.path()).expect_err("it is a file");
        assert_eq!(refused, "this is no directory");
        let here = Site::of(&HostFiles::of_host(), file.path().parent().expect("one")).expect("a directory");
        assert!(here.shares_a_disk(&HostFiles::of_host(), here.device_number), "{here:?}");
    }
}
