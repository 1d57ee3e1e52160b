//! Jobs into packets: each as full as the smaller of request and reply allows.
//!
//! ```text
//!  jobs ─► Packing { the next job, its next word } ─► packet: Parts of jobs, in their order
//! ```

use super::job::{Job, Outcome, Written};
use crate::wire::{ByteOrder, MOST_WORDS, Operation, RequestPacket, WORD_BYTES};

/// A part of a block with fewer words than this is not worth a transaction of its own.
const LEAST_PART: usize = 4;

/// How long packets may be, header included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLimits {
    /// Of a request.
    pub request_bytes: usize,
    /// Of its reply.
    pub reply_bytes: usize,
}

impl PacketLimits {
    /// The same for both; a header and one transaction that changes bits at least.
    pub fn both(bytes: usize) -> PacketLimits {
        let bytes = bytes.max(8 * WORD_BYTES);
        PacketLimits { request_bytes: bytes, reply_bytes: bytes }
    }
}

/// What one transaction does of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) job: usize,
    /// The job's first word that it does.
    pub(super) offset: usize,
    pub(super) words: u8,
    /// The number of the transaction.
    pub(super) id: u16,
}

/// How far the jobs are packed.
#[derive(Debug, Default)]
pub(super) struct Packing {
    job: usize,
    offset: usize,
}

/// Words that are left of a packet.
struct Room {
    request: usize,
    reply: usize,
}

impl Room {
    /// How many words of a job fit, of those that are left of it; `None` where it is better to begin another packet.
    fn words_of(&self, operation: Operation, left: usize) -> Option<usize> {
        let request = self.request.checked_sub(1 + operation.request_words(0))?;
        let reply = self.reply.checked_sub(1)?;
        let is_long = |grows: bool, room: usize| if grows { room } else { usize::MAX };
        let in_request = is_long(operation.request_words(2) > operation.request_words(1), request);
        let in_reply = is_long(operation.reply_words(1) > 0, reply);
        let fits = left.min(MOST_WORDS).min(in_request).min(in_reply);
        (fits == left || fits >= LEAST_PART).then_some(fits)
    }
}

impl Packing {
    /// Of the jobs that are not done, from the first on.
    pub(super) fn of(jobs: &[Job<'_>]) -> Packing {
        let mut packing = Packing::default();
        packing.enter(jobs, 0);
        packing
    }

    /// The next job is this one, or the first behind it that is not done, from its first word on that is not.
    fn enter(&mut self, jobs: &[Job<'_>], place: usize) {
        let left = jobs.iter().skip(place).position(|job| job.outcome == Outcome::Pending);
        self.job = left.map_or(jobs.len(), |behind| place + behind);
        self.offset = jobs.get(self.job).map_or(0, |job| job.done);
    }

    /// Whether every job has been packed.
    pub(super) fn is_done(&self, jobs: &[Job<'_>]) -> bool {
        self.job == jobs.len()
    }

    /// The jobs that are not packed to their end.
    pub(super) fn left<'j, 'b>(
        &self,
        jobs: &'j [Job<'b>],
    ) -> impl Iterator<Item = &'j Job<'b>> + use<'j, 'b> {
        jobs[self.job..].iter()
    }

    /// The jobs that no packet has begun.
    pub(super) fn first_unpacked(&self) -> usize {
        self.job + usize::from(self.offset > 0)
    }

    /// Appends a packet of this number behind what is in `bytes`, and its parts behind those in `parts`. `transaction` counts transactions.
    pub(super) fn pack(
        &mut self,
        jobs: &[Job<'_>],
        (id, transaction): (u16, &mut u16),
        limits: PacketLimits,
        (bytes, parts): (&mut Vec<u8>, &mut Vec<Part>),
    ) {
        let mut room = Room {
            request: limits.request_bytes / WORD_BYTES - 1,
            reply: limits.reply_bytes / WORD_BYTES - 1,
        };
        let mut packet = RequestPacket::begin(id, ByteOrder::NATIVE, bytes);
        while let Some(job) = jobs.get(self.job) {
            let Some(words) = room.words_of(job.operation, job.words - self.offset) else { break };
            let part = Part { job: self.job, offset: self.offset, words: words as u8, id: *transaction };
            *transaction = (*transaction + 1) & 0xFFF;
            append(&mut packet, job, part);
            parts.push(part);
            room.request -= 1 + job.operation.request_words(words);
            room.reply -= 1 + job.operation.reply_words(words);
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
    fn a_hundred_single_words_share_a_packet() {
        let jobs: Vec<Job<'_>> =
            (0..200).map(|address| Job::reading(Operation::Read, address, Landing::Word(0))).collect();
        let packets = packed(&jobs, PacketLimits::both(1400));
        // 350 words, of which the header is one, and two for each word that is read.
        assert_eq!(packets.iter().map(|(_, parts)| parts.len()).collect::<Vec<_>>(), [174, 26]);
        assert_eq!(packets[0].1[2].id, 0, "4096 transactions have a number");
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
        // 1000 words that are written fill nearly three requests, 600 that are read nearly two replies: they share one packet.
        assert_eq!(packets.len(), 4);
    }

    #[test]
    fn packets_are_as_long_as_one_transaction_at_least() {
        let jobs = [Job::writing(Operation::ChangeBits, 0, Written::Bits(1, 2))];
        assert_eq!(packed(&jobs, PacketLimits::both(0)).len(), 1);
    }
}
