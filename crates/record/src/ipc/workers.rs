//! Work in order on several threads: what goes in first comes out first.
//!
//! ```text
//!  submit ──► [ bounded queue ] ──► workers ──► next (in the order of submission)
//! ```

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

struct Job<T, R> {
    work: T,
    answer: SyncSender<R>,
}

/// Threads that apply one function, each with tools of its own, and what they have in hand.
pub(crate) struct Workers<T, R> {
    queue: Option<SyncSender<Job<T, R>>>,
    in_hand: VecDeque<Receiver<R>>,
    threads: Vec<JoinHandle<()>>,
    bound: usize,
}

/// A worker ended before its work was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerLost;

impl<T: Send + 'static, R: Send + 'static> Workers<T, R> {
    /// Starts `threads` threads of this name, several with a number each, with the tools that `tools` makes; at most `bound` chunks of work are in hand
    /// at a time.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start<S>(
        name: &str,
        threads: usize,
        bound: usize,
        tools: impl Fn() -> S + Send + Sync + 'static,
        work: impl Fn(&mut S, T) -> R + Send + Sync + 'static,
    ) -> std::io::Result<Workers<T, R>> {
        let (queue, jobs) = sync_channel::<Job<T, R>>(bound.max(1));
        let (jobs, shared) = (Arc::new(Mutex::new(jobs)), Arc::new((tools, work)));
        let thread_name = |index: usize| match threads {
            ..=1 => name.to_owned(),
            _ => format!("{name}-{index}"),
        };
        let spawn = |index: usize| {
            let (jobs, shared) = (jobs.clone(), shared.clone());
            let run = move || {
                let (tools, work) = &*shared;
                let mut tools = tools();
                run(&jobs, &mut |job| work(&mut tools, job));
            };
            std::thread::Builder::new().name(thread_name(index)).spawn(run)
        };
        let threads = (0..threads.max(1)).map(spawn).collect::<Result<_, _>>()?;
        Ok(Workers { queue: Some(queue), in_hand: VecDeque::new(), threads, bound: bound.max(1) })
    }

    /// Whether one more chunk of work would be too much.
    pub fn is_full(&self) -> bool {
        self.in_hand.len() >= self.bound
    }

    /// Hands in work. Waits when the queue is full.
    pub fn submit(&mut self, work: T) {
        let (answer, result) = sync_channel(1);
        if let Some(queue) = &self.queue {
            // When every worker is gone the job is dropped, and `next` reports it.
            let _ = queue.send(Job { work, answer });
        }
        self.in_hand.push_back(result);
    }

    /// The result of the oldest work, if there is any and it is done; with `wait`, when it is done.
    pub fn next(&mut self, wait: bool) -> Option<Result<R, WorkerLost>> {
        let oldest = self.in_hand.front()?;
        let result = if wait {
            oldest.recv().map_err(|RecvError| WorkerLost)
        } else {
            match oldest.try_recv() {
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err(WorkerLost),
                Ok(result) => Ok(result),
            }
        };
        self.in_hand.pop_front();
        Some(result)
    }
}

fn run<T, R>(jobs: &Mutex<Receiver<Job<T, R>>>, work: &mut dyn FnMut(T) -> R) {
    loop {
        // The lock is held while waiting for a job: one worker waits at the queue, the others at the lock.
        let job = jobs.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv();
        let Ok(job) = job else { return };
        // Nobody waits for the result any more: the writer was dropped.
        let _ = job.answer.send(work(job.work));
    }
}

impl<T, R> Drop for Workers<T, R> {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            // `next` has reported a worker that panicked.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_submission() {
        let work = |_: &mut (), number: u64| {
            std::thread::sleep(std::time::Duration::from_micros(number % 3 * 300));
            number
        };
        let mut workers = Workers::start("test", 3, 4, || (), work).expect("threads");
        let mut results = Vec::new();
        for number in 0..50u64 {
            while workers.is_full() {
                results.push(workers.next(true).expect("in hand").expect("done"));
            }
            workers.submit(number);
        }
        while let Some(result) = workers.next(true) {
            results.push(result.expect("done"));
        }
        assert_eq!(results, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn a_worker_that_panics_is_reported() {
        let mut workers =
            Workers::start("test", 1, 1, || (), |_, _: ()| -> () { panic!("in a worker, on purpose") })
                .expect("thread");
        workers.submit(());
        assert_eq!(workers.next(true), Some(Err(WorkerLost)));
        workers.submit(());
        assert_eq!(workers.next(true), Some(Err(WorkerLost)));
    }
}
