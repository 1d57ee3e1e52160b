//! More triggers than the builder units can write: BUSY holds the trigger back, memory stays flat, nothing accepted is lost, and the
//! full rate is back when the load is gone.

use thalweg_build::unit::simulate::{self, Plan, World};

fn plan(readouts: u16, builders: u16) -> Plan {
    let mut plan = Plan::calm(1);
    (plan.readouts, plan.boards, plan.builders) = (readouts, 2, builders);
    (plan.delay_ms, plan.window, plan.write_events) = (1, 40, 16);
    plan.settings = Plan::settings();
    (plan.settings.range_events, plan.settings.slots, plan.settings.keep_events) = (16, 128, 400);
    plan.processes = true;
    plan
}

/// Runs for so many milliseconds; returns triggers let through and refused meanwhile.
fn run(world: &mut World, milliseconds: u64) -> (u64, u64) {
    let (accepted, refused) = world.triggers();
    for _ in 0..milliseconds {
        world.step().unwrap_or_else(|what| panic!("{what}"));
    }
    let (accepted_now, refused_now) = world.triggers();
    (accepted_now - accepted, refused_now - refused)
}

/// Bytes that readout and builder units hold at most while so many milliseconds pass: BUSY comes and goes, and they with it.
fn most_held_meanwhile(world: &mut World, milliseconds: u64) -> (u64, u64) {
    (0..milliseconds).fold((0, 0), |most, _| {
        run(world, 1);
        let held = world.most_held_bytes();
        (most.0.max(held.0), most.1.max(held.1))
    })
}

#[test]
fn tenfold_overload_keeps_memory_flat_and_the_full_rate_comes_back() {
    let mut world = World::new(&plan(3, 2));
    world.set_load(32, 0);
    run(&mut world, 200);
    assert_eq!(run(&mut world, 300), (600, 0), "two triggers per ms are no load");

    // Ten times as many, and disks that take 16 events per 20 ms: less than one per ms from each of two.
    world.set_load(320, 40);
    run(&mut world, 200);
    let held = most_held_meanwhile(&mut world, 800);
    let (accepted, refused) = run(&mut world, 6_000);
    let later = most_held_meanwhile(&mut world, 800);
    println!("overload: {accepted} accepted, {refused} refused; held {held:?} bytes, 6 s later {later:?}");
    assert!(refused > 5 * accepted && accepted > 3_000, "{accepted} accepted, {refused} refused");
    assert!(later.0 <= 2 * held.0 && later.1 <= 2 * held.1, "held {held:?}, then {later:?}");

    world.set_load(32, 0);
    let (_, refused) = run(&mut world, 1_000);
    let (full, none) = run(&mut world, 1_000);
    println!("{refused} refused in the first second after it, {none} in the second");
    assert_eq!((full, none), (2_000, 0));
}

#[test]
fn whatever_the_trigger_accepted_in_overload_is_built_complete() {
    for seed in 0..20 {
        let mut plan = Plan { seed, ..plan(1 + (seed % 4) as u16, 1 + (seed % 3) as u16) };
        (plan.triggers_per_16_ms, plan.write_ms, plan.faulty_ms) = (400, 30, 400);
        let outcome = simulate::run(&plan).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(outcome.refused > outcome.accepted, "{outcome:?}");
        assert_eq!(outcome.accepted, outcome.complete, "{outcome:?}");
    }
}
