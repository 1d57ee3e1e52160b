//! Places threads on cores: `[threads]` of the configuration.
//!
//! ```text
//!  [threads] "left" = 2 ─ is there such a thread, such a core? ─► Placement ─► spawn: made on a thread that stands there
//!                                                                    └─► near: memory that is first touched there
//! ```
//! One mechanism serves threads and memory: a new thread takes the cores of the thread that makes it, and new memory is taken from the node
//! of the core that touches it first. So everything that belongs to a thread is made on the cores where that thread will run.

use std::collections::BTreeMap;

use thalweg_transport::placement::{Machine, Place, PlaceError, list_text};

use super::{Thread, spelled};
use crate::config::{OTHERS, PlaceSettings, ThreadSettings};

/// The placement of each thread of a run, checked against the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    places: BTreeMap<String, Place>,
    /// The placement of threads that are not named.
    others: Place,
}

impl Placement {
    /// Resolves the configured placement for a run of these threads.
    ///
    /// # Errors
    /// The key that names no thread, or a core that is not there, in words.
    pub(crate) fn of(
        settings: &ThreadSettings,
        threads: &[Thread],
        machine: &Machine,
    ) -> Result<Placement, String> {
        let mut placement = Placement::default();
        for (name, settings) in &settings.0 {
            let place = settings.place();
            let place = check(place, settings, machine).map_err(|message| format!("`{name}`: {message}"))?;
            if name == OTHERS {
                placement.others = place;
                continue;
            }
            match threads.iter().filter(|thread| thread.name == *name).count() {
                0 => {
                    let names: Vec<&str> = threads.iter().map(|thread| &thread.name[..]).collect();
                    return Err(format!(
                        "there is no thread `{name}`; this run has {} (and `{OTHERS}` for all that are not named)",
                        spelled(&names)
                    ));
                }
                1 => drop(placement.places.insert(name.clone(), place)),
                _ => {
                    return Err(format!(
                        "`{name}` is the name of two threads; give the source or unit of that name another"
                    ));
                }
            }
        }
        // The thread that makes another thread or its memory may be placed elsewhere, so the others' cores are always set.
        if !settings.0.is_empty() && placement.others.cores.is_empty() {
            placement.others.cores.clone_from(&machine.allowed);
        }
        Ok(placement)
    }

    /// Returns the placement of a thread.
    pub(crate) fn place_of(&self, name: &str) -> &Place {
        self.places.get(name).unwrap_or(&self.others)
    }

    /// Makes something, a thread above all, where the thread of this name stands.
    ///
    /// # Errors
    /// When the system refuses the place.
    pub(crate) fn at<R>(&self, name: &str, make: impl FnOnce() -> R) -> Result<R, PlaceError> {
        let standing = self.place_of(name).stand_here()?;
        let made = make();
        drop(standing);
        Ok(made)
    }

    /// Makes memory on the cores of the thread of this name; threads that are made meanwhile get no priority.
    ///
    /// # Errors
    /// When the system refuses the cores.
    pub(crate) fn near<R>(&self, name: &str, make: impl FnOnce() -> R) -> Result<R, PlaceError> {
        let cores = Place { priority: None, ..self.place_of(name).clone() };
        let standing = cores.stand_here()?;
        let made = make();
        drop(standing);
        Ok(made)
    }

    /// Tries every place with a thread that does nothing else.
    ///
    /// # Errors
    /// The name of the first thread that the system does not let stand there, and what it said.
    pub(crate) fn try_out(&self) -> Result<(), String> {
        let others = (OTHERS, &self.others);
        let all = self.places.iter().map(|(name, place)| (&name[..], place)).chain([others]);
        let tried = std::thread::scope(|scope| {
            let work = move || {
                for (name, place) in all {
                    place.stand_here().map_err(|error| format!("`{name}`: {error}"))?;
                }
                Ok(())
            };
            scope.spawn(work).join()
        });
        tried.unwrap_or_else(|_| Err("the places could not be tried".to_owned()))
    }

    /// The calling thread stands with the others from now on, as everything that it makes.
    ///
    /// # Errors
    /// When the system refuses the place.
    pub(crate) fn begin(&self) -> Result<thalweg_transport::placement::Standing, PlaceError> {
        self.others.stand_here()
    }
}

fn check(place: Place, settings: &PlaceSettings, machine: &Machine) -> Result<Place, String> {
    if matches!(settings, PlaceSettings::Cores(cores) if cores.is_empty()) {
        return Err("an empty list of cores leaves the thread nowhere to run; take the key out".to_owned());
    }
    if let Some(core) = place.cores.iter().find(|core| !machine.cores.contains(core)) {
        return Err(format!("core {core} does not exist; this machine has {}", list_text(&machine.cores)));
    }
    if let Some(core) = place.cores.iter().find(|core| !machine.allowed.contains(core)) {
        return Err(format!(
            "core {core} is not among those that this process may use: {} (taskset, a cpuset or a container says so)",
            list_text(&machine.allowed)
        ));
    }
    match place.priority {
        Some(priority) if !(1..=99).contains(&priority) => {
            Err(format!("priority = {priority}; allowed are 1 to 99"))
        }
        _ => Ok(place),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_transport::placement::Node;

    use super::*;

    fn machine() -> Machine {
        let nodes =
            vec![Node { number: 0, cores: vec![0, 1, 2, 3] }, Node { number: 1, cores: vec![4, 5, 6, 7] }];
        Machine { cores: (0..8).collect(), allowed: (0..6).collect(), nodes }
    }

    fn placed(text: &str) -> Result<Placement, String> {
        let settings: ThreadSettings = toml::from_str(text).map_err(|error| error.to_string())?;
        let threads = ["left", "right", "order"].map(|name| Thread::new(name, "works"));
        Placement::of(&settings, &threads, &machine())
    }

    #[test]
    fn each_form_of_a_place_is_read() {
        let placement =
            placed("left = 2\nright = [4, 5]\norder = { cores = [1], priority = 20 }").expect("valid");
        assert_eq!(placement.place_of("left").cores, [2]);
        assert_eq!(placement.place_of("right").cores, [4, 5]);
        assert_eq!(placement.place_of("order"), &Place { cores: vec![1], priority: Some(20) });
        assert_eq!(placement.place_of("raw").cores, [0, 1, 2, 3, 4, 5], "the others, wherever they are made");
    }

    #[test]
    fn what_cannot_be_is_named() {
        let refused = |text: &str| placed(text).expect_err("not possible");
        let unknown = refused("lfet = 2");
        assert!(unknown.contains("`lfet`") && unknown.contains("left, right, order"), "{unknown}");
        let nowhere = refused("left = 8");
        assert!(nowhere.contains("core 8 does not exist") && nowhere.contains("0-7"), "{nowhere}");
        let forbidden = refused("left = [5, 6]");
        assert!(forbidden.contains("core 6 is not among") && forbidden.contains("0-5"), "{forbidden}");
        assert!(refused("left = []").contains("empty list"));
        assert!(refused("left = { priority = 100 }").contains("1 to 99"));
        assert!(refused("left = \"two\"").contains("expected a core (2), cores ([4, 5])"));
    }

    #[test]
    fn without_a_word_everything_stays_where_it_is() {
        let placement = placed("").expect("valid");
        assert_eq!(placement.place_of("left"), &Place::default());
        assert_eq!(placement.at("left", || 7).expect("nothing is asked of the system"), 7);
    }
}
