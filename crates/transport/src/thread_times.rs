//! CPU time of each thread of this process, from `/proc`.

/// CPU time of one thread since it started.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadTimes {
    /// Its name as the system keeps it: at most 15 bytes.
    pub name: String,
    /// Seconds on a processor.
    pub ran_s: f64,
    /// Seconds that it was ready to run and waited for a processor.
    pub waited_s: f64,
}

/// The threads that this process has now; empty when `/proc` cannot be read.
pub fn thread_times() -> Vec<ThreadTimes> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let thread = |path: std::path::PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        // Nanoseconds on a processor, nanoseconds that it waited for one, and how often it ran.
        let times = std::fs::read_to_string(path.join("schedstat")).ok()?;
        let mut times = times.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        let (ran_s, waited_s) = (times.next()? * 1e-9, times.next()? * 1e-9);
        Some(ThreadTimes { name: name.trim().to_owned(), ran_s, waited_s })
    };
    tasks.flatten().filter_map(|task| thread(task.path())).collect()
}

/// Total seconds on a processor of the threads whose name `is_one` accepts.
pub fn ran_s(is_one: impl Fn(&str) -> bool) -> f64 {
    thread_times().iter().filter(|thread| is_one(&thread.name)).map(|thread| thread.ran_s).sum()
}
