//! Cores and the kernel that shares them out: governors, sleep, what else runs, interrupts, clock.
//!
//! ```text
//!  /sys/devices/system/cpu, /proc/pressure, /proc/stat, /proc/sys/kernel ─► Check …
//! ```

use super::check::{Check, Severity};
use super::fix::Fix;
use super::reading::HostFiles;

const CORES: &str = "/sys/devices/system/cpu";
/// The longest time that a core may take to wake, µs.
const MOST_WAKING_US: u64 = 10;
/// The most of the time in which a thread may wait for a core, percent.
const MOST_PRESSURE: f64 = 5.0;

/// All checks of cores.
pub(super) fn checks(files: &HostFiles) -> Vec<Check> {
    let mut checks = vec![governor(files), idle_states(files), siblings(files), isolated(files)];
    checks.extend([pressure(files), throttling(files), clock_source(files), mitigations(files)]);
    checks.push(groups(files));
    checks
}

/// Returns the different words of a file that each core has.
fn words_of_cores(files: &HostFiles, file: &str) -> Vec<String> {
    let is_core = |name: &String| name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let cores = files.names(CORES).into_iter().filter(is_core);
    let mut words: Vec<String> =
        cores.filter_map(|core| files.text(&format!("{CORES}/{core}/{file}")).ok()).collect();
    words.sort();
    words.dedup();
    words
}

fn governor(files: &HostFiles) -> Check {
    let why = "a core that has saved power is slow when the first burst comes";
    let check = Check::of("frequency governor", Severity::Warning, why).wanting("performance");
    let found = words_of_cores(files, "cpufreq/scaling_governor");
    match found.is_empty() {
        true => check.unknown("cores report no governor; of a virtual machine the host has it"),
        false => check
            .found(found.join(", "), found.iter().all(|word| word == "performance"))
            .fixed_by(Fix::program("cpupower frequency-set -g performance")),
    }
}

fn idle_states(files: &HostFiles) -> Check {
    let why = "a core in deep sleep takes 50 to 130 µs to wake, while a ring of the card fills";
    let check = Check::of("sleep of cores", Severity::Warning, why)
        .wanting(format!("no state that takes more than {MOST_WAKING_US} µs to leave, while data are taken"));
    let folder = format!("{CORES}/cpu0/cpuidle");
    let mut deep = Vec::new();
    let states = files.names(&folder);
    for state in &states {
        let number = |file: &str| files.number::<u64>(&format!("{folder}/{state}/{file}")).unwrap_or(0);
        let name = files.text(&format!("{folder}/{state}/name")).unwrap_or_else(|_| state.clone());
        if number("latency") > MOST_WAKING_US && number("disable") == 0 {
            deep.push(format!("{name} ({} µs)", number("latency")));
        }
    }
    match (states.is_empty(), deep.is_empty()) {
        (true, _) => check.unknown("cores report no sleep; of a virtual machine the host has it"),
        (_, true) => check.found("none is deeper", true),
        _ => check
            .found(deep.join(", "), false)
            .fixed_by(Fix::program(&format!("cpupower idle-set -D {MOST_WAKING_US}"))),
    }
}

fn siblings(files: &HostFiles) -> Check {
    let why = "two threads of one core share it: beside a reader that never rests, the other should idle";
    let check = Check::of("threads per core", Severity::Information, why);
    match files.text(&format!("{CORES}/smt/active")) {
        Ok(active) if active == "0" => check.noted("one"),
        Ok(_) => check
            .noted(format!("several: {}", words_of_cores(files, "topology/thread_siblings_list").join(" "))),
        Err(why) => check.unknown(why),
    }
}

fn isolated(files: &HostFiles) -> Check {
    let why = "cores on which nothing runs that was not put there, for threads that are placed by `cores`";
    let check = Check::of("isolated cores", Severity::Information, why);
    match (files.text(&format!("{CORES}/isolated")), files.text(&format!("{CORES}/nohz_full"))) {
        (Ok(isolated), tickless) => {
            let said =
                |cores: String| if cores.is_empty() || cores == "(null)" { "none".to_owned() } else { cores };
            check.noted(format!("{}; without ticks {}", said(isolated), said(tickless.unwrap_or_default())))
        }
        (Err(why), _) => check.unknown(why),
    }
}

fn pressure(files: &HostFiles) -> Check {
    let why = "the time in which some program waits for a core: at 90 % every rate is halved, and readers stand still for 50 to 100 ms";
    let check = Check::of("pressure on cores", Severity::Error, why).wanting(format!(
        "{MOST_PRESSURE:.0} % at most over ten seconds: give the run cores of its own, or end other programs"
    ));
    let text = match files.text("/proc/pressure/cpu") {
        Ok(text) => text,
        Err(why) => return check.unknown(why),
    };
    let some = text
        .lines()
        .find_map(|line| line.strip_prefix("some ")?.split(' ').find_map(|word| word.strip_prefix("avg10=")));
    match some.and_then(|percent| percent.parse::<f64>().ok()) {
        Some(percent) => check.found(format!("{percent:.1} %"), percent <= MOST_PRESSURE),
        None => check.unknown("/proc/pressure/cpu has no `some avg10=`"),
    }
}

fn throttling(files: &HostFiles) -> Check {
    let why = "threads with real-time priority that never rest are stopped for the rest of each period: holes of 50 ms in each second. None of ours has one unless you give it";
    let check = Check::of("real-time throttling", Severity::Information, why);
    let number = |name: &str| files.number::<i64>(&format!("/proc/sys/kernel/{name}"));
    match (number("sched_rt_runtime_us"), number("sched_rt_period_us")) {
        (Ok(-1), _) => check.noted("off"),
        (Ok(runtime), Ok(period)) => check.noted(format!("{runtime} of {period} µs")),
        (Err(why), _) | (_, Err(why)) => check.unknown(why),
    }
}

fn clock_source(files: &HostFiles) -> Check {
    let why = "a clock that is read through the chipset makes every time stamp slow";
    let check = Check::of("clock source", Severity::Warning, why)
        .wanting("tsc, or a paravirtual clock that reads it");
    match files.text("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        Ok(source) => {
            let is_good = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"]
                .contains(&source.as_str());
            let offered = files
                .text("/sys/devices/system/clocksource/clocksource0/available_clocksource")
                .unwrap_or_default();
            let check = check.found(source, is_good);
            match offered.split(' ').any(|word| word == "tsc") {
                true => check.fixed_by(Fix::File(
                    "/sys/devices/system/clocksource/clocksource0/current_clocksource".into(),
                    "tsc".to_owned(),
                )),
                false => check,
            }
        }
        Err(why) => check.unknown(why),
    }
}

fn mitigations(files: &HostFiles) -> Check {
    let why = "what guards against attacks through the processor makes system calls dearer: batches of datagrams pay the more";
    let check = Check::of("mitigations", Severity::Information, why);
    let folder = format!("{CORES}/vulnerabilities");
    let names = files.names(&folder);
    let guarded = names.iter().filter(|name| {
        files.text(&format!("{folder}/{name}")).is_ok_and(|text| text.starts_with("Mitigation"))
    });
    match names.is_empty() {
        true => check.unknown(format_args!("{folder} is not there")),
        false => check.noted(format!("{} of {} weaknesses are guarded", guarded.count(), names.len())),
    }
}

/// Linux 6.12.10 to 6.18.44 place a group anew at each change of its weight (6d71a9c61604, taken back by 101f3498b4bd in 6.18.45):
/// kernel threads that are in no group wait for seconds while one is busy.
fn groups(files: &HostFiles) -> Check {
    let why = "Linux 6.12.10 to 6.18.44 can keep threads that deliver packets and write to disks without a turn for seconds, where sessions are groups";
    let check =
        Check::of("kernel.sched_autogroup_enabled", Severity::Warning, why).wanting("0 with these kernels");
    let release = files.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    match files.number::<u8>("/proc/sys/kernel/sched_autogroup_enabled") {
        Err(why) => check.unknown(why),
        Ok(0) => check.found("0", true),
        Ok(value) => match version(&release) {
            None => check.unknown(format_args!("the kernel calls itself \"{release}\"")),
            Some(version) => {
                let is_affected = ((6, 12, 10)..(6, 18, 45)).contains(&version);
                check
                    .found(format!("{value}, with Linux {release}"), !is_affected)
                    .fixed_by(Fix::Sysctl("kernel.sched_autogroup_enabled", "0".to_owned()))
            }
        },
    }
}

/// `6.18.44-amd64` as numbers.
fn version(release: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']).map_while(|word| word.parse::<u32>().ok());
    Some((numbers.next()?, numbers.next()?, numbers.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckVerdict;
    use super::super::tests::host;
    use super::*;

    #[test]
    fn cores_that_save_power_are_bad_and_a_host_without_governors_is_unknown() {
        let root = host(&[
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
            ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave"),
            ("/sys/devices/system/cpu/cpufreq/scaling_governor", "no core's"),
        ]);
        let found = governor(&HostFiles::below(root.path()));
        assert_eq!((found.verdict, found.value.as_str()), (CheckVerdict::Bad, "performance, powersave"));
        assert_eq!(found.command, "cpupower frequency-set -g performance");
        assert_eq!(governor(&HostFiles::below(&root.path().join("none"))).verdict, CheckVerdict::Unknown);
    }

    #[test]
    fn kernels_that_starve_their_own_threads_are_known_by_their_number() {
        for (release, autogroup, verdict) in [
            ("6.12.9-1-amd64", "1", CheckVerdict::Good),
            ("6.12.10", "1", CheckVerdict::Bad),
            ("6.18.44-fc", "1", CheckVerdict::Bad),
            ("6.18.44-fc", "0", CheckVerdict::Good),
            ("6.18.45", "1", CheckVerdict::Good),
            ("7.0-rc1", "1", CheckVerdict::Good),
            ("a kernel", "1", CheckVerdict::Unknown),
        ] {
            let root = host(&[
                ("/proc/sys/kernel/osrelease", release),
                ("/proc/sys/kernel/sched_autogroup_enabled", autogroup),
            ]);
            assert_eq!(groups(&HostFiles::below(root.path())).verdict, verdict, "{release} {autogroup}");
        }
    }

    #[test]
    fn a_deep_sleep_and_a_busy_host_are_said_with_their_numbers() {
        let root = host(&[
            ("/sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state3/name", "C6"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "133"),
            (
                "/proc/pressure/cpu",
                "some avg10=90.31 avg60=1.00 avg300=0.00 total=5\nfull avg10=0.00 total=1",
            ),
        ]);
        let files = HostFiles::below(root.path());
        assert_eq!(idle_states(&files).value, "C6 (133 µs)");
        let busy = pressure(&files);
        assert!(busy.is_error() && busy.value == "90.3 %", "{busy:?}");
    }
}
