//! The reports of a network card's driver: rings, coalescing, queues, offloads, flow control.
//!
//! ```text
//!  card ─► genetlink "ethtool" ─► DriverSettings, PAUSE frames; each part is known, or why it is not
//! ```
//! Reading needs no privilege. A driver that does not have something answers `operation not supported`.

use std::time::Duration;

use ethtool::{
    EthtoolAttr, EthtoolChannelAttr, EthtoolCmd, EthtoolCoalesceAttr, EthtoolError, EthtoolFeatureAttr,
    EthtoolHandle, EthtoolHeader, EthtoolMessage, EthtoolPauseAttr, EthtoolPauseStatAttr, EthtoolRingAttr,
};
use futures_util::stream::{Stream, TryStreamExt};
use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_generic::GenlMessage;

/// A driver that takes longer is left alone.
const LONGEST_ANSWER: Duration = Duration::from_secs(2);
/// `ETHTOOL_FLAG_STATS` of linux/ethtool_netlink.h.
const FLAG_STATISTICS: u32 = 1 << 2;

/// Packets that the receive ring holds, and how many it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    pub packets: u32,
    pub most: u32,
}

/// The time that a card waits before it interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coalescing {
    pub rx_usecs: u32,
    pub rx_frames: u32,
    pub is_adaptive: bool,
}

/// The settings that a driver reports. A part that it does not report is an error in words.
#[derive(Clone, Debug)]
pub(super) struct DriverSettings {
    pub ring: Result<Ring, String>,
    pub coalescing: Result<Coalescing, String>,
    /// Receive queues, and how many there could be.
    pub queues: Result<(u32, u32), String>,
    /// Offloads that are on, by the kernel's names (`rx-gro`, `rx-lro`, …).
    pub offloads: Result<Vec<String>, String>,
    /// True if PAUSE frames are obeyed, and true if they are sent.
    pub pause: Result<(bool, bool), String>,
}

impl DriverSettings {
    fn unknown(why: &str) -> DriverSettings {
        let why = || why.to_owned();
        DriverSettings {
            ring: Err(why()),
            coalescing: Err(why()),
            queues: Err(why()),
            offloads: Err(why()),
            pause: Err(why()),
        }
    }

    /// Asks the driver of one card.
    pub(super) fn of(card: &str) -> DriverSettings {
        let found = asked_in_time(|mut handle| async move {
            Ok(DriverSettings {
                ring: ring(&mut handle, card).await,
                coalescing: coalescing(&mut handle, card).await,
                queues: queues(&mut handle, card).await,
                offloads: offloads(&mut handle, card).await,
                pause: pause(&mut handle, card).await,
            })
        });
        found.unwrap_or_else(|why| DriverSettings::unknown(&why))
    }
}

/// Returns the PAUSE frames that a card has received and sent since it was started.
///
/// # Errors
/// Why its driver does not say it, in words.
pub(super) fn pause_frames(card: &str) -> Result<(u64, u64), String> {
    asked_in_time(|mut handle| async move { pause_statistics(&mut handle, card).await })
}

/// Asks on a thread of its own: who asks may be part of a runtime, which cannot wait for another one.
fn asked_in_time<A: Send, F: Future<Output = Result<A, String>>>(
    ask: impl FnOnce(EthtoolHandle) -> F + Send,
) -> Result<A, String> {
    let asked = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| format!("no runtime to ask with: {why}"))?;
        runtime.block_on(async {
            let (connection, handle, _) =
                ethtool::new_connection().map_err(|why| format!("the kernel answers no ethtool: {why}"))?;
            tokio::spawn(connection);
            let answered = tokio::time::timeout(LONGEST_ANSWER, ask(handle)).await;
            answered.unwrap_or_else(|_| Err("the driver does not answer".to_owned()))
        })
    };
    let joined = std::thread::scope(|scope| scope.spawn(asked).join());
    joined.unwrap_or_else(|_| Err("asking the driver has failed: a defect, please report it".to_owned()))
}

/// Requests the answer of one card; `attributes` takes its attributes out of the message.
async fn answer<M>(
    asked: Result<impl Stream<Item = Result<M, EthtoolError>>, EthtoolError>,
    attributes: impl Fn(M) -> Vec<EthtoolAttr>,
) -> Result<Vec<EthtoolAttr>, String> {
    let answers = asked.map_err(|error| error_text(&error))?;
    let first = std::pin::pin!(answers).try_next().await.map_err(|error| error_text(&error))?;
    first.map(attributes).ok_or_else(|| "the driver says nothing".to_owned())
}

fn error_text(error: &EthtoolError) -> String {
    match error {
        EthtoolError::NetlinkError(message) => match message.code.map_or(0, |code| -code.get()) {
            libc::EOPNOTSUPP => "this driver has no such thing".to_owned(),
            libc::ENODEV => "the card has gone away".to_owned(),
            code => std::io::Error::from_raw_os_error(code).to_string(),
        },
        other => other.to_string(),
    }
}

async fn ring(handle: &mut EthtoolHandle, card: &str) -> Result<Ring, String> {
    let said = answer(handle.ring().get(Some(card)).execute().await, |m| m.payload.nlas).await?;
    let (mut packets, mut most) = (None, None);
    for attribute in said {
        match attribute {
            EthtoolAttr::Ring(EthtoolRingAttr::Rx(value)) => packets = Some(value),
            EthtoolAttr::Ring(EthtoolRingAttr::RxMax(value)) => most = Some(value),
            _ => {}
        }
    }
    let of = |(packets, most)| Ring { packets, most };
    packets.zip(most).map(of).ok_or_else(|| "the driver does not say its length".to_owned())
}

async fn coalescing(handle: &mut EthtoolHandle, card: &str) -> Result<Coalescing, String> {
    let said = answer(handle.coalesce().get(Some(card)).execute().await, |m| m.payload.nlas).await?;
    let mut found = Coalescing { rx_usecs: 0, rx_frames: 0, is_adaptive: false };
    let mut is_said = false;
    for attribute in said {
        match attribute {
            EthtoolAttr::Coalesce(EthtoolCoalesceAttr::RxUsecs(value)) => {
                (found.rx_usecs, is_said) = (value, true);
            }
            EthtoolAttr::Coalesce(EthtoolCoalesceAttr::RxMaxFrames(value)) => found.rx_frames = value,
            EthtoolAttr::Coalesce(EthtoolCoalesceAttr::UseAdaptiveRx(value)) => found.is_adaptive = value,
            _ => {}
        }
    }
    if is_said { Ok(found) } else { Err("the driver does not say its waiting time".to_owned()) }
}

async fn queues(handle: &mut EthtoolHandle, card: &str) -> Result<(u32, u32), String> {
    let said = answer(handle.channel().get(Some(card)).execute().await, |m| m.payload.nlas).await?;
    // Cards have queues for receiving alone, or for both directions.
    let (mut there, mut most) = (0, 0);
    for attribute in said {
        let EthtoolAttr::Channel(attribute) = attribute else { continue };
        match attribute {
            EthtoolChannelAttr::RxCount(value) | EthtoolChannelAttr::CombinedCount(value) => there += value,
            EthtoolChannelAttr::RxMax(value) | EthtoolChannelAttr::CombinedMax(value) => most += value,
            _ => {}
        }
    }
    Ok((there, most))
}

async fn offloads(handle: &mut EthtoolHandle, card: &str) -> Result<Vec<String>, String> {
    let said = answer(handle.feature().get(Some(card)).execute().await, |m| m.payload.nlas).await?;
    let active = said.into_iter().find_map(|attribute| match attribute {
        EthtoolAttr::Feature(EthtoolFeatureAttr::Active(bits)) => Some(bits),
        _ => None,
    });
    let names = |bits: Vec<ethtool::EthtoolFeatureBit>| {
        bits.into_iter().filter(|bit| bit.value).map(|bit| bit.name).collect()
    };
    active.map(names).ok_or_else(|| "the driver does not say which are on".to_owned())
}

async fn pause(handle: &mut EthtoolHandle, card: &str) -> Result<(bool, bool), String> {
    let said = answer(handle.pause().get(Some(card)).execute().await, |m| m.payload.nlas).await?;
    let (mut obeyed, mut sent) = (false, false);
    for attribute in said {
        match attribute {
            EthtoolAttr::Pause(EthtoolPauseAttr::Rx(value)) => obeyed = value,
            EthtoolAttr::Pause(EthtoolPauseAttr::Tx(value)) => sent = value,
            _ => {}
        }
    }
    Ok((obeyed, sent))
}

async fn pause_statistics(handle: &mut EthtoolHandle, card: &str) -> Result<(u64, u64), String> {
    // The library's own question leaves out the flag without which the kernel answers no statistics.
    let header = vec![EthtoolHeader::DevName(card.to_owned()), EthtoolHeader::Flags(FLAG_STATISTICS)];
    let question = EthtoolMessage {
        cmd: EthtoolCmd::PauseGet,
        nlas: vec![EthtoolAttr::Pause(EthtoolPauseAttr::Header(header))],
    };
    let mut message = NetlinkMessage::from(GenlMessage::from_payload(question));
    message.header.flags = NLM_F_REQUEST;
    let answers = handle.request(message).await.map_err(|error| error_text(&error))?;
    let first = std::pin::pin!(answers).try_next().await.map_err(|error| error.to_string())?;
    match first.map(|answer| answer.payload) {
        Some(NetlinkPayload::InnerMessage(message)) => frames_of(message.payload.nlas),
        Some(NetlinkPayload::Error(error)) => Err(error_text(&EthtoolError::NetlinkError(error))),
        _ => Err("the driver says nothing".to_owned()),
    }
}

/// PAUSE frames received and sent. A driver that counts one direction only is not known to count pauses.
fn frames_of(said: Vec<EthtoolAttr>) -> Result<(u64, u64), String> {
    let (mut received, mut sent) = (None, None);
    for attribute in said {
        let EthtoolAttr::Pause(EthtoolPauseAttr::Stats(counts)) = attribute else { continue };
        for count in counts {
            match count {
                EthtoolPauseStatAttr::Rx(frames) => received = Some(frames),
                EthtoolPauseStatAttr::Tx(frames) => sent = Some(frames),
                EthtoolPauseStatAttr::Other(_) => {}
            }
        }
    }
    received.zip(sent).ok_or_else(|| "the driver counts no PAUSE frames".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_frames_are_known_where_the_driver_counts_both_directions() {
        let said = |counts| vec![EthtoolAttr::Pause(EthtoolPauseAttr::Stats(counts))];
        let both = vec![EthtoolPauseStatAttr::Tx(3), EthtoolPauseStatAttr::Rx(12)];
        assert_eq!(frames_of(said(both)), Ok((12, 3)));
        for counts in [vec![EthtoolPauseStatAttr::Tx(3)], Vec::new()] {
            assert!(frames_of(said(counts)).is_err());
        }
        assert!(frames_of(vec![EthtoolAttr::Pause(EthtoolPauseAttr::Rx(true))]).is_err());
    }

    #[test]
    fn a_card_without_pause_frames_and_one_that_is_not_there_say_why() {
        for card in ["lo", "nosuchcard0"] {
            let why = pause_frames(card).expect_err(card);
            assert!(!why.is_empty(), "{card}");
        }
    }
}
