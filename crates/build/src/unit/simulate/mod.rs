//! A whole system on one seed: boards, readout units, builder units, event manager, trigger, network, disks, and their faults.
//!
//! ```text
//!  seed ─► Plan: how many of each, which faults ─► World: 1 ms steps ─► SimulationOutcome, or Failure { seed, what broke }
//! ```
//! Nothing here knows a real clock or thread, so a seed gives the same run on every machine, and a failing one is
//! a test that can be run again: `simulate::run(&Plan::from_seed(seed))`. What must hold at the end, and all along, is in
//! `verdict`, `fates` and `edges`: every trigger is refused, or on file once, or repeated with a higher attempt, or lost for a reason that happened to
//! its fragments; none mixed; every count is what was seen; memory within its bounds; every unit idle, and nobody busy for ever.

mod boards;
mod edges;
mod fates;
mod network;
mod random;
mod verdict;
mod world;

use random::Random;

use super::{AssignmentOrder, Settings};
pub use fates::Lost;
pub use world::World;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of everything that is left to chance.
    pub seed: u64,
    /// Readout units.
    pub readouts: u16,
    /// Boards of each.
    pub boards: u16,
    /// Builder units.
    pub builders: u16,
    /// How long triggers come and things go wrong, in milliseconds.
    pub faulty_ms: u64,
    /// How long it may take until all is quiet after that, in milliseconds.
    pub quiet_ms: u64,
    /// Triggers per 16 ms.
    pub triggers_per_16_ms: u64,
    /// One fragment in so many is lost before it is received; 0: none.
    pub lost_once_in: u64,
    /// One fragment in so many comes twice.
    pub doubled_once_in: u64,
    /// One fragment in so many comes late, up to beyond the age at which events are closed.
    pub late_once_in: u64,
    /// A unit dies once in so many milliseconds, and comes back later.
    pub death_once_in_ms: u64,
    /// A unit sleeps for a while once in so many milliseconds.
    pub sleep_once_in_ms: u64,
    /// A connection breaks once in so many milliseconds.
    pub break_once_in_ms: u64,
    /// Longest time until a readout unit and a builder unit find each other at first, in milliseconds.
    pub late_connection_ms: u64,
    /// Longest time that a message is on its way, in milliseconds.
    pub delay_ms: u64,
    /// Messages on their way on one link and direction.
    pub window: usize,
    /// Longest time that a write takes, in milliseconds.
    pub write_ms: u64,
    /// A builder unit's host loses its power once in so many milliseconds, and with it batches that were written and not synced.
    pub power_cut_once_in_ms: u64,
    /// Longest time until what was written is synced, in milliseconds.
    pub sync_ms: u64,
    /// Builder units acknowledge what is synced; otherwise what is written.
    pub acknowledges_synced: bool,
    /// Events that a builder writes at a time.
    pub write_events: usize,
    /// Units are processes of their own: payload is received into other blocks, cut anywhere.
    pub processes: bool,
    /// Settings of the units.
    pub settings: Settings,
}

impl Plan {
    /// A system and its faults, by chance.
    pub fn from_seed(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let mut settings = Plan::settings();
        settings.range_events = [1, 4, 16, 64][random.below(4) as usize];
        settings.slots = random.between(u64::from(settings.range_events.max(8)), 200) as u32;
        settings.keep_events = random.between(64, 400);
        settings.part_bytes = [40, 500, 1 << 20][random.below(3) as usize];
        settings.ordered = random.once_in(3);
        if random.once_in(3) {
            settings.order = AssignmentOrder::RoundRobin;
        }
        let mut rarely =
            |often: u64, rare: u64| if random.once_in(3) { 0 } else { random.between(often, rare) };
        Plan {
            seed,
            lost_once_in: rarely(5, 300),
            doubled_once_in: rarely(20, 300),
            late_once_in: rarely(20, 300),
            death_once_in_ms: rarely(30, 300),
            sleep_once_in_ms: rarely(30, 300),
            break_once_in_ms: rarely(10, 200),
            readouts: random.between(1, 4) as u16,
            boards: random.between(1, 3) as u16,
            builders: random.between(1, 4) as u16,
            faulty_ms: random.between(100, 350),
            quiet_ms: 3_000,
            triggers_per_16_ms: random.between(1, 64),
            late_connection_ms: 0,
            delay_ms: random.between(0, 6),
            window: random.between(2, 40) as usize,
            write_ms: random.between(0, 20),
            power_cut_once_in_ms: 0,
            sync_ms: 0,
            acknowledges_synced: false,
            write_events: random.between(1, 64) as usize,
            processes: random.once_in(2),
            settings,
        }
    }

    /// The same with power cuts, which take what is not synced.
    pub fn with_power_cuts(seed: u64) -> Plan {
        let mut random = Random::new(!seed);
        Plan {
            power_cut_once_in_ms: random.between(30, 200),
            sync_ms: random.between(0, 40),
            acknowledges_synced: random.once_in(2),
            ..Plan::from_seed(seed)
        }
    }

    /// A system in which nothing goes wrong.
    pub fn calm(seed: u64) -> Plan {
        Plan {
            lost_once_in: 0,
            doubled_once_in: 0,
            late_once_in: 0,
            death_once_in_ms: 0,
            sleep_once_in_ms: 0,
            break_once_in_ms: 0,
            ..Plan::from_seed(seed)
        }
    }

    /// Settings with times that suit steps of 1 ms.
    pub fn settings() -> Settings {
        Settings {
            heartbeat_ms: 5,
            dead_ms: 25,
            reach_ms: 150,
            lag_ms: 40,
            announce_ms: 30,
            age_ms: 80,
            progress_us: 500,
            jump_triggers: 4096,
            ..Settings::default()
        }
    }

    /// Whether every fragment that a readout unit received must be in what was written.
    fn is_faultless(&self) -> bool {
        let faults =
            [self.death_once_in_ms, self.sleep_once_in_ms, self.break_once_in_ms, self.power_cut_once_in_ms];
        faults == [0; 4] && self.late_connection_ms <= self.settings.reach_ms
    }
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulationOutcome {
    /// Triggers that the gate let through.
    pub accepted: u64,
    /// Triggers that it refused.
    pub refused: u64,
    /// On file once.
    pub once: u64,
    /// On file with several attempts, which readers join.
    pub repeated: u64,
    /// On file nowhere, by reason.
    pub lost: Lost,
    /// Of those on file, with every source.
    pub complete: u64,
    /// Of those on file, without some.
    pub partial: u64,
    /// Power cuts of builder units' hosts.
    pub power_cuts: u64,
    /// Deaths of units.
    pub deaths: u64,
    /// Connections broken.
    pub breaks: u64,
    /// Milliseconds from the last trigger until all was quiet.
    pub drained_ms: u64,
}

/// What broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, at {at_ms} ms: {what}")]
pub struct Failure {
    /// The seed to run again.
    pub seed: u64,
    /// When it was seen.
    pub at_ms: u64,
    /// What was seen.
    pub what: String,
}

/// Runs a plan to its end.
///
/// # Errors
/// When something does not hold that must.
pub fn run(plan: &Plan) -> Result<SimulationOutcome, Failure> {
    let mut world = World::new(plan);
    let failure = |world: &World, what| Failure { seed: plan.seed, at_ms: world.now_ms(), what };
    while world.now_ms() < plan.faulty_ms {
        world.step().map_err(|what| failure(&world, what))?;
    }
    world.calm_down();
    let calm_since = world.now_ms();
    while !world.is_quiet() {
        if world.now_ms() > calm_since + plan.quiet_ms {
            return Err(failure(&world, format!("not quiet: {}", world.unrest())));
        }
        world.step().map_err(|what| failure(&world, what))?;
    }
    let drained_ms = world.now_ms() - calm_since;
    world
        .verdict()
        .map(|outcome| SimulationOutcome { drained_ms, ..outcome })
        .map_err(|what| failure(&world, what))
}
