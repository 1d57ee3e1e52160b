//! Packs jobs into packets, each as full as the limits of request and reply allow.
//!
//! ```text
//!  jobs ─► Packing { next job, its next word } ─► packet: Parts of jobs, in their order
//! ```

use super::job::{Job, Outcome, Written};
use crate::wire::{ByteOrder, MOST_WORDS, Operation, RequestPacket, WORD_BYTES};

/// A block is not split for a part with fewer words than this; the next packet takes it.
const LEAST_PART: usize = 4;

/// The longest packets, headers included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLimits {
    /// Longest request packet, in bytes.
    pub request_bytes: usize,
    /// Longest reply packet, in bytes.
    pub reply_bytes: usize,
}

impl PacketLimits {
    /// The same limit for both, but at least 32 bytes, so that any single transaction fits.
    pub fn both(bytes: usize) -> PacketLimits {
        let bytes = bytes.max(8 * WORD_BYTES);
        PacketLimits { request_bytes: bytes, reply_bytes: bytes }
    }
}

/// The part of a job that one transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Index of the job.
    pub(super) job: usize,
    /// Offset of its first word in the job.
    pub(super) offset: usize,
    pub(super) words: u8,
    /// The transaction id.
    pub(super) id: u16,
}

/// How far the jobs are packed: index of the next job, and offset of its next word.
#[derive(Debug, Default)]
pub(super) struct Packing {
    job: usize,
    offset: usize,
}

/// Words that still fit into a packet.
struct Capacity {
    request: usize,
    reply: usize,
}

impl Capacity {
    /// How many of the `left` words of a job fit; `None` when the job should go to the next packet.
    fn words_of(&self, operation: Operation, left: usize) -> Option<usize> {
        let request = self.request.checked_sub(1 + operation.request_words(0))?;
        let reply = self.reply.checked_sub(1)?;
        let limit = |grows: bool, capacity: usize| if grows { capacity } else { usize::MAX };
        let in_request = limit(operation.request_words(2) > operation.request_words(1), request);
        let in_reply = limit(operation.reply_words(1) > 0, reply);
        let fits = left.min(MOST_WORDS).min(in_request).min(in_reply);
        (fits == left || fits >= LEAST_PART).then_some(fits)
    }
}

impl Packing {
    /// Starts with the first word that is not done.
    pub(super) fn of(jobs: &[Job<'_>]) -> Packing {
        let mut packing = Packing::default();
        packing.enter(jobs, 0);
        packing
    }

    /// Moves to the first pending job from `index` on, and there to the first word that is not done.
    fn enter(&mut self, jobs: &[Job<'_>], index: usize) {
        let left = jobs.iter().skip(index).position(|job| job.outcome == Outcome::Pending);
        self.job = left.map_or(jobs.len(), |skipped| index + skipped);
        self.offset = jobs.get(self.job).map_or(0, |job| job.done);
    }

    /// Whether every job has been packed.
    pub(super) fn is_done(&self, jobs: &[Job<'_>]) -> bool {
        self.job == jobs.len()
    }

    /// The jobs that are not completely packed.
    pub(super) fn left<'j, 'b>(
        &self,
        jobs: &'j [Job<'b>],
    ) -> impl Iterator<Item = &'j Job<'b>> + use<'j, 'b> {
        jobs[self.job..].iter()
    }

    /// Index of the first job of which no word is packed.
    pub(super) fn first_unpacked(&self) -> usize {
        self.job + usize::from(self.offset > 0)
    }

    /// Appends a packet with this id to `bytes`, and its parts to `parts`. `transaction` is the next transaction id.
    pub(super) fn pack(
        &mut self,
        jobs: &[Job<'_>],
        (id, transaction): (u16, &mut u16),
        limits: PacketLimits,
        (bytes, parts): (&mut Vec<u8>, &mut Vec<Part>),
    ) {
        let mut capacity = Capacity {
            request: limits.request_bytes / WORD_BYTES - 1,
            reply: limits.reply_bytes / WORD_BYTES - 1,
        };
        let mut packet = RequestPacket::begin(id, ByteOrder::NATIVE, bytes);
        while let Some(job) = jobs.get(self.job) {
            let Some(words) = capacity.words_of(job.operation, job.words - self.offset) else { break };
            let part = Part { job: self.job, offset: self.offset, words: words as u8, id: *transaction };
            *transaction = (*transaction + 1) & 0xFFF;
            append(&mut packet, job, part);
            parts.push(part);
            capacity.request -= 1 + job.operation.request_words(words);
            capacity.reply -= 1 + job.operation.reply_words(words);
            self.offset += words;
            if self.offset == job.words {
                self.enter(jobs, self.job + 1);
            }
        }
    }
}

fn append(packet: &mut RequestPacket<'_>, job: &Job<'_>, part: Part) {
    let (address, words) = (job.address_of(part.offset), usize::from(part.words));
    match job.written {
        Written::Nothing => packet.read(part.id, job.operation, address, words),
        Written::Word(addend) if job.operation == Operation::Add => packet.add(part.id, address, addend),
        Written::Word(word) => packet.write(part.id, job.operation, address, &[word]),
        Written::Bits(keep, set) => packet.change_bits(part.id, address, keep, set),
        Written::Block(block) => {
            packet.write(part.id, job.operation, address, &block[part.offset..part.offset + words]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::Landing;
    use super::*;
    use crate::wire::{Packet, Requests};

    fn packed(jobs: &[Job<'_>], limits: PacketLimits) -> Vec<(Vec<u8>, Vec<Part>)> {
        let (mut packing, mut transaction, mut packets) = (Packing::default(), 0xFFE, Vec::new());
        while !packing.is_done(jobs) {
            let (mut bytes, mut parts) = (Vec::new(), Vec::new());
            packing.pack(jobs, (0, &mut transaction), limits, (&mut bytes, &mut parts));
            assert!(!parts.is_empty() && bytes.len() <= limits.request_bytes, "{} bytes", bytes.len());
            packets.push((bytes, parts));
        }
        packets
    }

    #[test]
    fn single_words_share_packets() {
        let jobs: Vec<Job<'_>> =
            (0..200).map(|address| Job::reading(Operation::Read, address, Landing::Word(0))).collect();
        let packets = packed(&jobs, PacketLimits::both(1400));
        // 350 words: one for the packet header, two for each read.
        assert_eq!(packets.iter().map(|(_, parts)| parts.len()).collect::<Vec<_>>(), [174, 26]);
        assert_eq!(packets[0].1[2].id, 0, "transaction ids have 12 bits");
    }

    #[test]
    fn blocks_fill_packets_and_share_them() {
        let block: Vec<u32> = (0..1000).collect();
        let mut landing = vec![0; 600];
        let jobs = [
            Job::writing(Operation::Write, 0x100, Written::Block(&block)),
            Job::writing(Operation::Add, 0x10, Written::Word(3)),
            Job::reading(Operation::ReadFifo, 0x20, Landing::Block(&mut landing)),
            Job::writing(Operation::ChangeBits, 0x30, Written::Bits(1, 2)),
            Job::writing(Operation::WriteFifo, 0x30, Written::Block(&[])),
        ];
        let packets = packed(&jobs, PacketLimits::both(1400));
        let mut words = vec![0; jobs.len()];
        for (bytes, parts) in &packets {
            let control = Packet::check(bytes).and_then(Packet::control).expect("a packet");
            let found: Vec<_> = Requests::of(control).map(|one| one.expect("whole")).collect();
            assert_eq!(found.len(), parts.len());
            let reply: usize = found.iter().map(|one| 1 + one.operation.reply_words(one.words.into())).sum();
            assert!(WORD_BYTES * (1 + reply) <= 1400);
            for (request, part) in found.iter().zip(parts) {
                let job = &jobs[part.job];
                assert_eq!(
                    (request.operation, request.address),
                    (job.operation, job.address_of(part.offset))
                );
                assert_eq!(part.offset, words[part.job], "in their order");
                words[part.job] += usize::from(part.words);
                if let Written::Block(block) = job.written {
                    let sent = &block[part.offset..part.offset + usize::from(part.words)];
                    assert_eq!(request.data.iter().collect::<Vec<_>>(), sent);
                }
            }
        }
        assert_eq!(words, [1000, 1, 600, 1, 0]);
        // 1000 words to write fill almost three requests, 600 words to read almost two replies; they have one packet in common.
        assert_eq!(packets.len(), 4);
    }

    #[test]
    fn the_smallest_limits_fit_one_transaction() {
        let jobs = [Job::writing(Operation::ChangeBits, 0, Written::Bits(1, 2))];
        assert_eq!(packed(&jobs, PacketLimits::both(0)).len(), 1);
    }
}
