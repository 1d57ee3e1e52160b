//! Acknowledged alarms.
//!
//! ```text
//!  acknowledge ─► seen, of this raising ─► shown as such until it is cleared; raised again it is new
//! ```

use std::collections::BTreeMap;
use std::time::SystemTime;

use thalweg_monitor::RequestRefused;
use thalweg_monitor::alarm::Alarm;

/// By alarm and subject: when the acknowledged alarm was raised, and when it was acknowledged.
#[derive(Default)]
pub(super) struct SeenAlarms(BTreeMap<(String, String), (String, String)>);

impl SeenAlarms {
    /// Acknowledges a raised alarm.
    ///
    /// # Errors
    /// When it does not.
    pub fn see(&mut self, name: &str, subject: &str, alarms: &mut [Alarm]) -> Result<(), RequestRefused> {
        let standing =
            alarms.iter().find(|alarm| alarm.active && alarm.name == name && alarm.subject == subject);
        let since = standing.and_then(|alarm| alarm.since.clone()).ok_or_else(|| {
            let of = if subject.is_empty() { String::new() } else { format!(" of {subject}") };
            RequestRefused::new(
                format!("no alarm \"{name}\"{of} stands"),
                "the list of messages says which do",
            )
        })?;
        let now = thalweg_record::utc_text(SystemTime::now());
        self.0.entry((name.to_owned(), subject.to_owned())).or_insert((since, now));
        self.mark(alarms);
        Ok(())
    }

    /// Marks those that were seen, and forgets those that no longer stand or stand anew.
    pub fn mark(&mut self, alarms: &mut [Alarm]) {
        self.0.retain(|(name, subject), (since, seen)| {
            let is_it = |alarm: &&mut Alarm| {
                alarm.active
                    && alarm.name == *name
                    && alarm.subject == *subject
                    && alarm.since.as_ref() == Some(since)
            };
            let standing = alarms.iter_mut().find(is_it);
            standing.map(|alarm| alarm.acknowledged = Some(seen.clone())).is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarm(since: Option<&str>) -> Alarm {
        Alarm {
            name: "silent".to_owned(),
            subject: "left".to_owned(),
            level: thalweg_monitor::alarm::Level::default(),
            active: since.is_some(),
            since: since.map(str::to_owned),
            value: None,
            threshold: 1.0,
            text: String::new(),
            acknowledged: None,
        }
    }

    #[test]
    fn an_alarm_is_seen_until_it_is_cleared_and_new_when_it_is_raised_again() {
        let mut seen = SeenAlarms::default();
        let mut now = |since| {
            let mut alarms = vec![alarm(since)];
            seen.mark(&mut alarms);
            alarms[0].acknowledged.is_some()
        };
        assert!(!now(Some("10:00")));
        assert!(seen.see("silent", "right", &mut [alarm(Some("10:00"))]).is_err(), "another one");
        assert!(seen.see("silent", "left", &mut [alarm(None)]).is_err(), "it does not stand");
        let mut shown = [alarm(Some("10:00"))];
        seen.see("silent", "left", &mut shown).expect("it stands");
        assert!(shown[0].acknowledged.is_some());
        let mut now = |since| {
            let mut alarms = vec![alarm(since)];
            seen.mark(&mut alarms);
            alarms[0].acknowledged.is_some()
        };
        assert!(now(Some("10:00")));
        assert!(!now(Some("10:05")), "raised again");
        assert!(!now(Some("10:00")), "and what was seen is forgotten");
    }
}
