//! Digests of files that somebody in this process has computed: with several destinations, nobody computes them again.
//!
//! ```text
//!  path ─► slot: locked while one computes, the others wait ─► identity, Digests
//! ```
//! They are of a file while it has the identity that they were computed for. A copy is not proved by them: it is read back, and its CRC-32C
//! held against them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::digests::Digests;
use crate::error::ShipError;
use crate::message::Identity;

type Slot = Arc<Mutex<Option<(Identity, Digests)>>>;

/// The digests of files here.
#[derive(Debug, Default)]
pub struct KnownDigests(Mutex<HashMap<PathBuf, Slot>>);

impl KnownDigests {
    fn slot(&self, path: &Path) -> Slot {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(path.to_owned()).or_default().clone()
    }

    /// Of a file, if they are known and nobody is computing them.
    pub fn get(&self, path: &Path, identity: &Identity) -> Option<Digests> {
        let slot = self.slot(path);
        let known = slot.try_lock().ok()?;
        known.as_ref().filter(|(of, _)| of == identity).map(|(_, digests)| digests.clone())
    }

    /// Of a file; where they are not known, they are computed. Whoever asks meanwhile waits.
    ///
    /// # Errors
    /// That of computing them; then the next one tries.
    pub fn get_or_compute(
        &self,
        path: &Path,
        identity: &Identity,
        compute: impl FnOnce() -> Result<Digests, ShipError>,
    ) -> Result<Digests, ShipError> {
        let slot = self.slot(path);
        let mut known = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((of, digests)) if of == identity => Ok(digests.clone()),
            _ => {
                let digests = compute()?;
                *known = Some((*identity, digests.clone()));
                Ok(digests)
            }
        }
    }

    /// Notes digests with nothing left out; others are passed over.
    pub fn note(&self, path: &Path, identity: &Identity, digests: &Digests) {
        if digests.is_full() {
            *self.slot(path).lock().unwrap_or_else(PoisonError::into_inner) =
                Some((*identity, digests.clone()));
        }
    }

    /// Forgets a file.
    pub fn forget(&self, path: &Path) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_computed_once_for_each_identity() {
        let known = KnownDigests::default();
        let path = Path::new("hits.arrows");
        let digests = |md5: &str| Digests { adler32: "1".into(), md5: md5.into(), ..Digests::default() };
        let of = |bytes| Identity { bytes, ..Identity::default() };
        let get = |bytes, md5: &str| known.get_or_compute(path, &of(bytes), || Ok(digests(md5)));
        assert_eq!(known.get(path, &of(1)), None);
        assert!(known.get_or_compute(path, &of(1), || Err(ShipError::Stopped)).is_err());
        assert_eq!(get(1, "one").expect("computed").md5, "one");
        assert_eq!(get(1, "again").expect("known").md5, "one");
        assert_eq!(get(2, "other").expect("computed: the file has changed").md5, "other");
        known.note(path, &of(3), &Digests::default());
        assert_eq!(known.get(path, &of(3)), None, "something is left out");
        assert_eq!(known.get(path, &of(2)).expect("known").md5, "other");
        known.forget(path);
        assert_eq!(known.get(path, &of(2)), None);
    }
}
