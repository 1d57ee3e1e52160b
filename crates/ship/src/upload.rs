//! What is known here of an upload to a store that is under way: a store keeps parts, and does not report what is in them.
//!
//! ```text
//!  RUN/.ship/DESTINATION-FILE.upload  { key, digests, upload id, parts: [ { bytes, crc32c, etag }, … ] }
//! ```
//! It is forced to the disk before a part counts, and before an upload is begun, so that one whose answer never came is found and ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digests::Digests;
use crate::disk::{Disk, HostDisk};
use crate::error::ShipError;
use crate::run_state::{FOLDER, name_of};

/// Whether a file is one of a table. Such a file never changes once nobody writes it; documents do.
pub(crate) fn is_table(file: &str) -> bool {
    file.ends_with(".arrows")
}

/// A part that the store has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Its bytes.
    pub(crate) bytes: u64,
    /// CRC-32C of the file from its beginning to the end of this part.
    pub(crate) crc32c: u32,
    /// What the store calls it.
    pub(crate) etag: String,
}

/// What is known of the copy of one file in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Upload {
    /// The object.
    pub(crate) key: String,
    /// Of the file that is uploaded.
    pub(crate) digests: Digests,
    /// While an upload is being begun: those to this key that others had begun before.
    pub(crate) before: Option<Vec<String>>,
    /// The upload, once the store has named it.
    pub(crate) id: Option<String>,
    /// Its parts, from the first on.
    pub(crate) parts: Vec<Part>,
    /// The object that is there was read back, and was another one.
    pub(crate) is_unproved: bool,
}

impl Upload {
    /// What is known; an empty one where nothing is, or where it is of another object.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn load(path: &Path, key: &str) -> Result<Upload, ShipError> {
        let text = match fs::read(path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            text => Some(text.map_err(ShipError::local(path, "reading"))?),
        };
        let known = text.and_then(|text| serde_json::from_slice::<Upload>(&text).ok());
        let known = known.filter(|known| known.key == key);
        Ok(known.unwrap_or_else(|| Upload { key: key.to_owned(), ..Upload::default() }))
    }

    /// Writes it in place of the older one, and forces it to the disk.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub(crate) fn save(&self, path: &Path) -> Result<(), ShipError> {
        let text = serde_json::to_vec(self).expect("an upload is plain data");
        let (folder, name) = (path.parent().unwrap_or(Path::new(".")), path.file_name().unwrap_or_default());
        let replace = || {
            HostDisk.make_directory(folder)?;
            HostDisk.replace(folder, &name.to_string_lossy(), &text)
        };
        replace().map_err(ShipError::local(path, "writing"))
    }

    /// Removes what is known: the file is complete there.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn remove(path: &Path) -> Result<(), ShipError> {
        match fs::remove_file(path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(ShipError::local(path, "removing")(cause))
            }
            _ => Ok(()),
        }
    }

    /// Where it is kept.
    pub(crate) fn path(run: &Path, destination: &str, file: &str) -> PathBuf {
        run.join(FOLDER).join(format!("{}.upload", name_of(&format!("{destination}/{file}"))))
    }

    /// Bytes in the parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// CRC-32C of these.
    pub(crate) fn crc32c(&self) -> u32 {
        self.parts.last().map_or(0, |part| part.crc32c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_an_upload_comes_back_and_only_for_its_key() {
        let run = tempfile::tempdir().expect("temporary folder");
        let path = Upload::path(run.path(), "s3://bucket", "hits.arrows");
        assert_eq!(Upload::load(&path, "a").expect("none"), Upload { key: "a".into(), ..Upload::default() });
        let part = Part { bytes: 5, crc32c: 7, etag: "x".to_owned() };
        let upload = Upload { key: "a".into(), id: Some("1".into()), parts: vec![part], ..Upload::default() };
        upload.save(&path).expect("saved");
        assert_eq!(Upload::load(&path, "a").expect("there"), upload);
        assert_eq!((upload.bytes(), upload.crc32c()), (5, 7));
        assert_eq!(Upload::load(&path, "b").expect("there").id, None);
        fs::write(&path, "{").expect("damaged");
        assert_eq!(Upload::load(&path, "a").expect("nothing is known").id, None);
        Upload::remove(&path).expect("removed");
        Upload::remove(&path).expect("removed twice");
    }
}
