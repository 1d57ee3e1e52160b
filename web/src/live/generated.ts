// Made by web/types.mjs from crates/monitor/src/openapi.json: change the types of Rust, then `make generated`.

/** One alarm as it stands, for the state. */
export interface Alarm {
  /** When somebody said that it is seen, UTC; only of one that stands. */
  acknowledged: string | null;
  /** Whether it stands. */
  active: boolean;
  /** How bad it is. */
  level: Level;
  /** Its name. */
  name: string;
  /** When it was raised, UTC; only of one that stands. */
  since: string | null;
  /** The source, clock, board or destination that it is about; empty when it is about the whole. */
  subject: string;
  /** What to do. */
  text: string;
  /** Beyond which it is bad. */
  threshold: number;
  /** The value now, if there is one. */
  value: number | null;
}

/** A change that was applied to what is shown of a run, and is not in its configuration. */
export interface AppliedChange {
  /** Of hits behind this time, picoseconds since run start: that of the last hit before the change. */
  after_ps: number | null;
  /** The channel, of a calibration. */
  channel: number | null;
  /** Of a cut: hits that came to it. */
  in: number;
  /** Of a cut: hits that it kept. */
  kept: number;
  /** What kind of change it is. */
  kind: ChangeKind;
  /** The lines that say the same in a configuration. */
  lines: string;
  /** Name of the channel, or of the cut. */
  name: string;
  /** Its number in this run, from 1. */
  number: number;
  /** Since when, seconds since run start on the arrival clock; null until the next batch. */
  since_seconds: number | null;
  /** Until when, seconds since run start, of one that was reverted or replaced; null while it stands. */
  until_seconds: number | null;
}

/** What kind of change it is. */
export type ChangeKind = "calibration" | "cut";

/** One channel of a source of hits. */
export interface ChannelState {
  /** Its number. */
  channel: number;
  /** Pulses that its hits stand for: those that were lost included; null where it is unknown. */
  corrected_hits: number | null;
  /** How well that is known; `at_least` is a lower bound. */
  corrected_quality: Quality;
  /** Pulses per second of live time since the start; null where live time or losses are unknown. */
  corrected_rate_hz: number | null;
  /** The standard uncertainty of that rate, of counting. */
  corrected_rate_uncertainty_hz: number | null;
  /** Dead time ÷ real time since the start, 0 to 1; null where the board does not report it. */
  dead_time_fraction: number | null;
  /** Whether its hits are taken. */
  enabled: boolean;
  /** The group that it is in; null of one in none. */
  group: string | null;
  /** Hits since the start. */
  hits: number;
  /** How well that is known; `at_least` as long as the board has reported nothing after the last hits. */
  live_time_quality: Quality;
  /** Seconds since the start in which it could take a hit, by its board's counters; null where the board does not report them. */
  live_time_s: number | null;
  /** Its name. */
  name: string;
  /** Hits per second. */
  rate_hz: number | null;
}

/** What is known of one board's clock. */
export interface ClockState {
  /** How the offset changes, parts of 10⁹. */
  drift_ppb: number | null;
  /** A peak was found in the last interval, within the tolerance. */
  locked: boolean;
  /** Mean data time of the pairs of hits in the latest peak's interval, seconds since run start. */
  measured_at_s: number | null;
  /** The offset at run start, where the line of the offsets crosses it, picoseconds: with the drift, what a correction takes. */
  offset_at_start_ps: number | null;
  /** Standard deviation of the offset, picoseconds. */
  offset_error_ps: number | null;
  /** Its hits come so much later than those of the reference, picoseconds; `None` as long as no peak was found. */
  offset_ps: number | null;
  /** The source that it is compared with. */
  reference: string;
  /** The source. */
  source: string;
}

/** What coincidence makes. */
export interface CoincidenceState {
  /** Events that were closed because they had grown too long. */
  cut_short: number;
  /** Events that the cuts on events kept, since the start. */
  events: number;
  /** Events that could not be recorded, since the start. */
  lost: number;
  /** How fast `lost` grows, per second. */
  lost_rate_hz: number | null;
  /** Events that were made since the start. */
  made: number;
  /** Events by how many different channels or groups they are of: from none to fifteen, and more. */
  multiplicity: number[];
  /** Events that the cuts on events kept, per second. */
  rate_hz: number | null;
}

/** One board's answers. */
export interface Completeness {
  /** Of these, events to which it had answered. */
  built: number;
  /** Events that were closed in `rate_window_seconds`. */
  expected: number;
  /** Events since the start to which it had not answered. */
  missing: number;
  /** The board's name. */
  name: string;
}

/** An amount of recorded data. */
export interface CopyCounts {
  /** Batches of tables; null where they are not counted yet. */
  batches: number | null;
  /** Bytes. */
  bytes: number;
  /** Rows of tables; null where they are not counted yet. */
  rows: number | null;
}

/** One destination of `[ship]`. */
export interface CopyState {
  /** Of all runs, what could be proved there and is not, bytes. */
  backlog_bytes: number;
  /** Whether that balances; null where something is not counted yet. */
  balances: boolean | null;
  /** Of this run, what is proved there. */
  proved: CopyCounts;
  /** Of this run, what is recorded here; the ledger balances if that is proved, waiting and refused together. */
  recorded: CopyCounts;
  /** Of this run, what cannot be shipped as it is. */
  refused: CopyCounts;
  /** Runs that have such. */
  runs_behind: number;
  /** How long nothing was proved there although something waits, in the time windows of shipping; 0 while nothing waits. Seconds, since
   * this program was started at most. */
  silent_seconds: number;
  /** Its address. */
  to: string;
  /** Of this run, what waits or is on its way. */
  waiting: CopyCounts;
}

/** A number that was corrected for losses. */
export interface Corrected {
  /** Upper end of its 95 % interval. */
  high_95: number | null;
  /** Lower end of its 95 % interval. */
  low_95: number | null;
  /** `exact`: all losses are in it, and its uncertainty is that of counting. `at_least`: a lower bound. */
  quality: Quality;
  /** Its standard uncertainty, of counting. */
  uncertainty: number | null;
  /** The number; null where it is unknown. */
  value: number | null;
}

/** What was counted of one kind in a stretch of time. */
export interface CountedLoss {
  /** How many. */
  count: number;
  /** Why. */
  reason: LossReason;
  /** The `[[source]]`; empty for losses of what all sources make together. */
  source: string;
  /** Where it was lost. */
  stage: Stage;
  /** In what unit it is counted. */
  unit: Unit;
}

/** How much one cut kept. */
export interface CutReport {
  /** Came to it since the start. */
  in: number;
  /** It kept since the start. */
  kept: number;
  /** Its name. */
  name: string;
  /** What it cuts. */
  on: Scope;
}

/** Time and BUSY of a run, or real and dead time of one source's boards. */
export interface DeadTime {
  /** Seconds in which data could not be taken. */
  dead_seconds: number;
  /** Dead ÷ all, 0 to 1. */
  fraction: number;
  /** Seconds in which they could. */
  live_seconds: number;
}

/** What a dead time is a part of. */
export type DeadTimeOf = "triggers" | "busy" | "boards";

/** When a run ends by itself: at the first of the limits that are given. */
export interface EndWhen {
  /** After this many recorded events. */
  events: number | null;
  /** After this many recorded hits. */
  hits: number | null;
  /** After this time since its start, pauses included. */
  seconds: number | null;
}

/** The entries of one unit of one counter slot, named, for files and the page. */
export interface Entries {
  /** Left out on request. */
  filtered: number;
  /** How many of these arrived nevertheless, late or damaged; the refused ones among them are lost at the stage that refused them. */
  gap_filled: number;
  /** On the wire: how many were found missing by sequence numbers. It only grows, and so does `gap_filled`. */
  gap_opened: number;
  /** In the stage's containers. */
  held: number;
  /** Came in, or was made here. */
  in: number;
  /** Lost, by reason; for gaps, those still missing. */
  lost: Record<string, number>;
  /** Notes, which are not part of any sum, such as `late` (but kept) and `unseen`. */
  noted?: Record<string, number>;
  /** Passed on. */
  out: number;
  /** Framing that is no longer needed. */
  overhead: number;
  /** Name of the source. */
  source: string;
  /** The stage. */
  stage: Stage;
  /** The unit. */
  unit: Unit;
}

/** What an event filter has done with built events. */
export interface EventSelection {
  /** Events that it rejected, and that were recorded all the same, for monitoring. */
  prescaled: number;
  /** Events that it rejected, and that were not recorded. */
  rejected: number;
  /** Events that it did not decide in time, and that were kept. */
  undecided_kept: number;
  /** Events that it did not decide in time, and that are lost. */
  undecided_lost: number;
}

/** The events of a run with triggered sources. */
export interface EventState {
  /** Build times, as the sizes. */
  build_ns: [number, number][];
  /** Whether the trigger is held back now. */
  busy: boolean;
  /** Fraction of the run so far in which it was, 0 to 1; null where builder units are elsewhere. */
  busy_share: number | null;
  /** Events passed on so far, by why they were closed: complete, age, depth, end, unit lost. */
  closed: [number, number, number, number, number];
  /** Who answered and who did not, in the order of the boards. */
  completeness: Completeness[];
  /** Event sizes: the smallest of each bin, and how many. */
  event_bytes: [number, number][];
  /** Events passed on per second. */
  event_rate_hz: number | null;
  /** Events passed on since the start, complete or not. */
  events_built: number;
  /** What is kept of them: their rows, what was received alone, or nothing. */
  events_kept: Kept;
  /** Of these, events to which a source had not answered. */
  events_partial: number;
  /** Events recorded since the start. */
  events_recorded: number;
  /** Payload that waits, bytes. */
  held_bytes: number;
  /** Half of all events were built within this time of their first fragment, nanoseconds. */
  median_build_ns: number;
  /** Half of all events are at most so large, bytes. */
  median_event_bytes: number;
  /** What the recorded events stand for; null of time slices, which no trigger makes. */
  normalised: NormalisedEvents | null;
  /** Lowest and highest trigger of them. */
  numbers: [number, number] | null;
  /** Triggers with fragments that wait for others. */
  open_events: number;
  /** All but one in a hundred. */
  p99_build_ns: number;
  /** How full the ring to the recorder is, 0 to 1. */
  ring_fill: number;
  /** What the event filter has done with those that were built; null in a run without. */
  selection: EventSelection | null;
  /** Triggers from the oldest that is open to the newest that was seen. */
  span: number;
}

/** Which of the two paths through a run a node is on. */
export type FlowPath = "hits" | "events";

/** A stage of one path, in one unit. */
export interface FlowStage {
  /** Left out on request since the start. */
  filtered: number;
  /** What is left out here on request is called this. */
  filtered_as: string;
  /** Left out on request, per second. */
  filtered_rate_hz: number | null;
  /** What stands over it: what it has done to what comes out of it. */
  heading: string;
  /** In the stage's containers now. */
  held: number;
  /** Came in since the start. */
  in: number;
  /** Came in, per second. */
  in_rate_hz: number | null;
  /** The same by source and reason, in all units. */
  losses: Loss[];
  /** Lost since the start, in `unit`; what is lost in other units is in `lost_in`. */
  lost: number;
  /** Everything lost here, each source in the finest unit in which it is counted. Triggers that were refused are dead time, and no loss. */
  lost_in: LostIn[];
  /** Passed on since the start. */
  out: number;
  /** Passed on, per second. Of the recorder, what it has taken and not lost: what is on file grows by whole batches. */
  out_rate_hz: number | null;
  /** Which way its data go. */
  path: FlowPath;
  /** How full the ring behind the stage is, 0 to 1; null where there is none. */
  ring_fill: number | null;
  /** The stage. */
  stage: Stage;
  /** It stands beside the path: as what was refused there. */
  stands_apart: boolean;
  /** What is counted here. */
  unit: Unit;
}

/** The form in which a run keeps its hits, its fragments or its events. */
export type Kept = "rows" | "raw_bytes" | "nothing";

/** How bad it is. */
export type Level = "info" | "warning" | "error";

/** The run that the live state is of. */
export interface LiveRun {
  /** The comment of its configuration. */
  comment: string;
  /** Where it is recorded. */
  directory: string;
  /** Since the first data could come, seconds. */
  elapsed_seconds: number;
  /** Whether its data are kept: of a run that was started without, only `run.json`, the ledger, losses and spectra are. */
  keeps_data: boolean;
  /** When it ends by itself. */
  limits: EndWhen;
  /** Name of its directory; null before it has one. */
  name: string | null;
  /** Its number; 0 before it has one. */
  number: number;
  /** Its title. */
  title: string;
}

/** Everything that is said of a run while it goes on, and after its end. */
export interface LiveState {
  /** Alarms as they stand. */
  alarms: Alarm[];
  /** What is applied to what is shown of the run, and is not in its configuration. */
  applied: AppliedChange[];
  /** Whether the trigger is asked to wait now, for whatever reason. */
  busy: boolean;
  /** How long BUSY was raised, and how long it was not, of a run with triggered sources; null where nobody here knows. */
  busy_time: DeadTime | null;
  /** How fast that grows, bytes per second; known once two batches of the recorder may have come. */
  byte_rate_hz: number | null;
  /** What the files of the run take, bytes. */
  bytes_recorded: number;
  /** What is known of the boards' clocks, of a run whose clocks are watched. */
  clocks: ClockState[];
  /** Of a run with coincidence. */
  coincidences: CoincidenceState | null;
  /** Coincidences recorded since the start; null of a run without coincidence. */
  coincidences_recorded: number | null;
  /** Copies of the runs elsewhere, by destination of `[ship]`; none in the lines of JSON of the terminal. */
  copies: CopyState[];
  /** What each cut keeps, in the order in which they are made. */
  cuts: CutReport[];
  /** What of the run is not taken, as one number; null where nobody reports dead time. */
  dead_time: RunDeadTime | null;
  /** What did not balance in them. */
  discrepancies: string[];
  /** Free space where the run is recorded, bytes. */
  disk_free_bytes: number;
  /** How long that lasts at the mean rate of the run while it takes data, and of other programs where they fill the disk, too, seconds; null
   * while nothing is written, in the first seconds of a run, and between runs. */
  disk_left_seconds: number | null;
  /** Since the first data could come, as in `run`, seconds. */
  elapsed_seconds: number;
  /** When it ends by itself, as in `run`. */
  end: EndWhen;
  /** Of a run with triggered sources. */
  events: EventState | null;
  /** What has gone wrong: the run ends by it. */
  failures: string[];
  /** The path from the boards to the disk, by stage. Not in the lines of JSON of the terminal. */
  flow: FlowStage[];
  /** What is kept of them. */
  hits_kept: Kept;
  /** Hits that came to the recording since the start. */
  hits_recorded: number;
  /** The ledger by `[[source]]`; `events` and units have lines of their own. Counts of stages that follow each other are
   * of moments up to a tenth of a second apart. Only in the lines of JSON of the terminal: `/metrics` and `/api/system` have it, too. */
  ledger?: Entries[] | null;
  /** Lost hits, fragments, events and coincidences, those of them that the run has, with how well they are known, and in words. */
  loss: LossTotal[];
  /** Every loss by `[[source]]`, stage and reason. */
  losses: Loss[];
  /** Sum of the losses of the sources and of the coincidences. */
  lost: number;
  /** What was lost on it, by unit, the most first. Not in the lines of JSON of the terminal. */
  lost_in: LostIn[];
  /** The last messages, oldest first, at most a hundred. */
  messages: OperatorMessage[];
  /** Between runs, where `[unattended]` starts the next one: how long until then, seconds. `stop` takes that back. */
  next_run_seconds: number | null;
  /** Hits put into time order per second; null where that is not known, as all rates. */
  ordered_rate_hz: number | null;
  /** Of a paused run. */
  paused_by: PausedBy | null;
  /** The time that all rates are over, seconds; 0 where there is none: before the second snapshot since the start or the end of a pause,
   * and when no data are taken any more. */
  rate_window_seconds: number;
  /** Time BUSY ÷ time over the last seconds, 0 to 1; null where that is not known. */
  recent_busy_fraction: number | null;
  /** Hits given to the recording per second, those that wait for their batch among them. */
  recorded_rate_hz: number | null;
  /** The first datagrams, blocks and fragments that were refused. */
  refused: RefusedUnit[];
  /** Which run it is. */
  run: LiveRun;
  /** Where it is recorded, as in `run`. */
  run_directory: string;
  /** Counts the states of a run: a higher one is newer. 0 before the first. */
  sequence: number;
  /** Values of slow control, by name. */
  series: Record<string, SeriesValue>;
  /** Snapshots of the ledger that were checked on the way. */
  snapshots: number;
  /** By `[[source]]`, in the order of the configuration. */
  sources: SourceState[];
  /** Where the run stands. */
  state: RunState;
  /** Its title, as in `run`. */
  title: string;
  /** What the trigger was offered and what it refused, where it reports that. */
  trigger: TriggerState | null;
}

/** One loss of one source. */
export interface Loss {
  /** What was seen, and what to do about it. Empty in the ledger itself; a room that knows the configuration fills it in. */
  advice: string;
  /** How many are lost. */
  count: number;
  /** How many came there, including the lost ones. */
  of: number;
  /** How well the count is known. */
  quality: Quality;
  /** Why it was lost. */
  reason: LossReason;
  /** Name of the source. */
  source: string;
  /** The stage that lost it or found it missing. */
  stage: Stage;
  /** The unit of `count` and `of`. */
  unit: Unit;
}

/** One of never_received, datagram_gap, buffer_gap, frame_gap, datagram_too_long, unexpected_sender, no_block, capture_truncated, capture_damaged, fragment_missing, duplicate_datagram, bad_framing, bad_hash, resynchronised, unfinished, too_large, zero_words, word_count, unknown_format, bad_channel, truncated_hit, bad_samples, wrong_constant, bad_length, time_range, late, over_budget, late_fragment, duplicate_fragment, out_of_window, wrong_run, unknown_source, incomplete, missing_fragment, busy, undecided, unit_lost, disk_full, write_failed, abandoned, board_gone, recording_damaged, not_forced, or the name of an added one. */
export type LossReason = string;

/** A stretch of time in which something was lost. */
export interface LossThen {
  /** When it began, seconds before now. */
  from_ago_seconds: number;
  /** What was lost. */
  losses: CountedLoss[];
  /** When it ended. */
  until_ago_seconds: number;
}

/** The lost hits, fragments, events or coincidences of a run or of a source. */
export interface LossTotal {
  /** If the quality is `unknown`: the loss from which this follows, in the unit in which it was counted. */
  bound: LostCount | null;
  /** How many are lost. */
  count: number;
  /** Lost ÷ all, 0 to 1; `None` if there were none. */
  fraction: number | null;
  /** How many there were, including the lost ones. */
  of: number;
  /** Whether the events are coincidences, which are made of hits. Left out where they are not. */
  of_coincidences?: boolean;
  /** How well `count` is known. `unknown`: more than `count` may be lost, because `bound` is. */
  quality: Quality;
  /** All of this as text. */
  text: string;
  /** What is counted. */
  unit: Unit;
}

/** A number of lost units, and of all. */
export interface LostCount {
  /** How many are lost. */
  count: number;
  /** Lost ÷ all, 0 to 1; `None` if there were none. */
  fraction: number | null;
  /** How many there were, including the lost ones. */
  of: number;
  /** What is counted. */
  unit: Unit;
}

/** What a stage, or all of a path, lost in one unit. */
export interface LostIn {
  /** How many. */
  count: number;
  /** The least certain of its losses. */
  quality: Quality;
  /** Of what came in since the start, 0 to 1; at least as much where their number is one at least. Null where that is not known, where the
   * unit comes into being, and of several stages, into which different numbers came. */
  share: number | null;
  /** Of what came in within the window of the rates, 0 to 1. */
  share_now: number | null;
  /** What is counted. */
  unit: Unit;
}

/** What the recorded events of a run stand for. */
export interface NormalisedEvents {
  /** Accepted ÷ offered, 0 to 1; null before the first trigger. */
  live_fraction: number | null;
  /** How well the live time is known. */
  live_time_quality: Quality;
  /** Of these, the seconds without BUSY. */
  live_time_s: number | null;
  /** Accepted triggers that these stand for: of a run with an event filter, those whose events it would have kept. */
  loss_corrected: Corrected;
  /** Accepted triggers of which no event was built: no board answered, or the event was dropped because it was incomplete. */
  lost_before_building: number;
  /** How well that is known. `at_least`: the trigger does not report, so what no board answered may have been refused. */
  lost_before_building_quality: Quality;
  /** Triggers per second, refused and lost ones among them. */
  rate_hz: Corrected;
  /** Seconds for which triggers could come; null where the trigger does not report. */
  real_time_s: number | null;
  /** Events recorded. */
  recorded: number;
  /** Of these, those that were answered. */
  triggers_accepted: number | null;
  /** Triggers that came; null where the trigger does not report. */
  triggers_offered: number | null;
  /** Of these, those that were refused because of BUSY or an inhibit. */
  triggers_refused: number | null;
}

/** One line for the operator. */
export interface OperatorMessage {
  /** What can be done about it; may be empty. */
  advice: string;
  /** `info`, `warning` or `error`; `note` of what the operator has written down. */
  level: string;
  /** Rises by one from message to message. */
  number: number;
  /** What happened. */
  text: string;
  /** When, UTC, as `2026-11-21T02:18:04.123Z`. */
  time: string;
}

/** The rates of some time until now. */
export interface Past {
  /** When each moment was, seconds before now; the oldest first. */
  ago_seconds: number[];
  /** The part of the seconds before each moment that BUSY was raised, 0 to 1; null of moments of which nobody knew. */
  busy: (number | null)[];
  /** Stretches with a loss, the oldest first. */
  losses: LossThen[];
  /** The values of slow control, in the order in which they came. */
  series: SeriesThen[];
  /** The sources, in the order in which they came. */
  sources: RateThen[];
  /** From one moment to the next: 1, or 60 where the rates are means. */
  step_seconds: number;
}

/** Why a run is paused. */
export type PausedBy = "command" | "disk";

/** How well the number of a loss is known, or a number that was corrected by it, in order from best to worst. */
export type Quality = "exact" | "at_least" | "unknown";

/** The rate of one source at each moment. */
export interface RateThen {
  /** Hits or fragments per second at each moment; null where it was not there, or where that was not known. */
  rates_hz: (number | null)[];
  /** The `[[source]]`. */
  source: string;
}

/** A datagram, block or fragment that was refused, one of the first of its kind. */
export interface RefusedUnit {
  /** Its length; of a damaged stream, how much there was behind the damage. Bytes. */
  bytes: number;
  /** What would have been taken in its place. */
  expected: string;
  /** Its first bytes, two hexadecimal digits each. */
  head: string;
  /** Why. */
  reason: LossReason;
  /** When it came, seconds since the clock of the run was started. */
  seconds: number;
  /** Name of the board; of the link, where the board is not known. */
  source: string;
  /** Where: `unpack` (framing) or `build`. */
  stage: Stage;
  /** The trigger number that it gave, if that could be read. */
  trigger: number | null;
}

/** Dead time of a run as one number: everybody who shows one shows this. */
export interface RunDeadTime {
  /** Since the start, 0 to 1. */
  fraction: number;
  /** How long triggers could be taken, or the source that was dead longest could take hits, since the start: seconds; null where nobody knows. */
  live_seconds: number | null;
  /** Of what. */
  of: DeadTimeOf;
  /** Of the last seconds where triggers came in them, or BUSY is known over them, 0 to 1; null where not, as behind the end of the run and
   * of boards, which report since the start alone. */
  recent_fraction: number | null;
}

/** The state of a run. The names are those of the page, the log and the API. */
export type RunState = "configured" | "ready" | "running" | "paused" | "stopping" | "stopped" | "failed";

/** What is cut. */
export type Scope = "hit" | "event";

/** A value of slow control at each moment. */
export interface SeriesThen {
  /** The `[[series]]`. */
  series: string;
  /** Its unit; empty where it has none. */
  unit: string;
  /** What it was at each moment; null where it was not known. */
  values: (number | null)[];
}

/** A value of slow control. */
export interface SeriesValue {
  /** Its unit; empty where it has none. */
  unit: string;
  /** The latest value; null before the first one, and where the last reading failed. */
  value: number | null;
}

/** What a source gives. */
export type SourceKind = "hits" | "triggered";

/** One `[[source]]`: all its links and boards together. */
export interface SourceState {
  /** Boards of a triggered source; 0 of one that gives hits. */
  boards: number;
  /** Bytes received per second. */
  byte_rate_hz: number | null;
  /** Bytes received since the start. */
  bytes: number;
  /** Its channels, of a source of hits. Not in the lines of JSON of the terminal. */
  channels: ChannelState[];
  /** Live and dead time as its boards report them, the mean over its channels; null where they do not. */
  dead_time: DeadTime | null;
  /** The kernel's drop counters and the like, which place losses and are added to nothing. */
  drop_counters: Record<string, number>;
  /** Fragments found per second. */
  fragment_rate_hz: number | null;
  /** Fragments found since the start. */
  fragments: number;
  /** Hits decoded per second, as all rates over `rate_window_seconds`; null where that is not known. */
  hit_rate_hz: number | null;
  /** Hits decoded since the start. */
  hits: number;
  /** What it gives. */
  kind: SourceKind;
  /** Links of a triggered source; 0 of one that gives hits. */
  links: number;
  /** Its lost hits or fragments, with how well they are known, and in words. */
  loss: LossTotal | null;
  /** Lost since the start, each loss in the finest unit that is known: hits, fragments, else frames, else datagrams, else bytes. */
  lost: number;
  /** How fast `lost` grows, per second. */
  lost_rate_hz: number | null;
  /** Its name. */
  name: string;
  /** Memory of its pools, bytes. */
  pool_bytes: number;
  /** Blocks on loan, 0 to 1: of its fullest pool. */
  pool_fill: number;
  /** Fullest ring behind the receiver, 0 to 1. */
  ring_fill: number;
}

/** One of trigger, sender, wire, receive, raw, unpack, decode, order, cut, coincide, time_slice, build, ship, filter, record, spectra, or the name of an added one. */
export type Stage = string;

/** The trigger of a run, where it reports what it counts: emulated ones do. */
export interface TriggerState {
  /** Those that were taken. */
  accepted: number;
  /** Refused ÷ offered since the start, 0 to 1; null before the first trigger. */
  dead_time_fraction: number | null;
  /** Triggers that came since the start. */
  offered: number;
  /** The same over the last seconds; null where no trigger came in them, and behind the end of the run. */
  recent_dead_time_fraction: number | null;
  /** Those that were refused because BUSY was raised. */
  refused: number;
}

/** What is counted. */
export type Unit = "datagrams" | "bytes" | "frames" | "hits" | "fragments" | "events";
