// Numbers, times, axes, addresses, regions: how they are written and what they mean.

import assert from "node:assert/strict";
import { test } from "node:test";
import { corners, from_corners, from_range, parsed, range, written } from "../../web/src/figures/address.js";
import { channel_times, event_counts } from "../../web/src/figures/channel_times.js";
import { coincidence_window_ps, text_of } from "../../web/src/live/configuration.js";
import { narrowed } from "../../web/src/live/chosen_spectra.js";
import type { ChannelState, NormalisedEvents } from "../../web/src/live/generated.js";
import type { Axis, Spectrum } from "../../web/src/live/generated_spectra.js";
import { value_in_words } from "../../web/src/figures/named_value.js";
import {
  as_name,
  configuration,
  crosses_itself,
  is_inside,
  rectangle,
  type Point,
} from "../../web/src/figures/polygon.js";
import { Persistence } from "../../web/src/figures/pulse.js";
import { count, exact, measured, measured_as, quantity, rate, share } from "../../web/src/figures/quantity.js";
import { background, bins_of, projections, rebinned } from "../../web/src/figures/spectrum.js";
import { along, decades, logarithmic_ticks, tick, ticks } from "../../web/src/figures/ticks.js";
import { ago, elapsed, lasting } from "../../web/src/figures/time.js";
import { chance } from "./chance.js";

test("live time and corrected rate of a channel are unknown where nobody knows them", () => {
  const channel: ChannelState = {
    channel: 3,
    name: "c3",
    group: null,
    enabled: true,
    rate_hz: 900,
    hits: 7900,
    live_time_s: 1.6,
    live_time_quality: "at_least",
    dead_time_fraction: 0.2,
    corrected_hits: 8000,
    corrected_quality: "exact",
    corrected_rate_hz: 5000,
    corrected_rate_uncertainty_hz: 56,
  };
  const values = (own: ChannelState) => channel_times(own).map(([, value]) => value);
  assert.deepEqual(values(channel), ["≥ 1.6 s", "20.0 %", "8.00 k", "5.000 ± 0.056 k/s"]);
  const unknown = { live_time_s: null, dead_time_fraction: null, corrected_hits: null, corrected_rate_hz: null };
  assert.deepEqual(values({ ...channel, ...unknown }), ["unknown", "unknown", "unknown", "unknown"]);
});

test("what events stand for is said with its quality, unknown where the trigger says nothing, and not at all of time slices", () => {
  const number = { low_95: 0, high_95: 0, quality: "exact" as const };
  const known: NormalisedEvents = {
    triggers_offered: 20_000,
    triggers_accepted: 16_000,
    triggers_refused: 4000,
    live_fraction: 0.8,
    real_time_s: 2,
    live_time_s: 1.6,
    live_time_quality: "exact",
    lost_before_building: 160,
    lost_before_building_quality: "exact",
    recorded: 15_840,
    loss_corrected: { ...number, value: 16_000, uncertainty: 127 },
    rate_hz: { ...number, value: 10_000, uncertainty: 71 },
  };
  const values = (own: NormalisedEvents | null) => event_counts(own).map(([, value]) => value);
  assert.deepEqual(values(known), ["16.0 k", "80.0 %", "160", "16.00 ± 0.13 k", "10.000 ± 0.071 k/s"]);
  const bound = { ...number, value: 9900, uncertainty: 70, quality: "at_least" as const };
  const unknown = { ...number, value: null, uncertainty: null, quality: "unknown" as const };
  const unsaid = { triggers_accepted: null, live_fraction: null, lost_before_building_quality: "at_least" as const };
  const of_boards = { ...known, ...unsaid, loss_corrected: unknown, rate_hz: bound };
  assert.deepEqual(values(of_boards), ["unknown", "unknown", "≥ 160", "unknown", "≥ 9.900 ± 0.070 k/s"]);
  assert.deepEqual(values(null), []);
});

test("three significant digits, prefix, unit", () => {
  assert.equal(rate(3_214_567), "3.21 M/s");
  assert.equal(quantity(61.34e6, "B/s"), "61.3 MB/s");
  assert.equal(quantity(999.6, "B"), "1.00 kB");
  assert.equal(quantity(999.4, "B"), "999 B");
  assert.equal(quantity(99.96, "s"), "100 s");
  assert.equal(quantity(0, "B"), "0 B");
  assert.equal(quantity(2.14e-4, "s"), "214 µs");
  assert.equal(quantity(-4e-8, "s"), "−40.0 ns");
  assert.equal(quantity(null, "B"), "–");
  assert.equal(quantity(NaN, "B"), "– B");
  assert.equal(count(9999), "9999");
  assert.equal(count(12_345), "12.3 k");
  assert.equal(exact(1_234_567), "1\u202f234\u202f567");
  for (let power = -14; power < 19; power++)
    assert.match(quantity(1.2345 * 10 ** power, ""), /^(1\.23|12\.3|123)( [fpnµmkMGTPE])?$/);
});

test("shares, and a share of nearly all is not all", () => {
  assert.deepEqual([0, 0.0009, 0.31, 1, 0.99997].map(share), ["0 %", "0.09 %", "31.0 %", "100 %", "99.997 %"]);
  assert.equal(share(undefined), "–");
});

test("a measured number has two digits of its error", () => {
  assert.equal(measured(1173.2412, 0.1234), "1173.24 ± 0.12");
  assert.equal(measured(6243.4, 95.2), "6243 ± 95");
  assert.equal(measured(123_456, 1234), "123500 ± 1200");
  assert.equal(measured_as(5.7021e-9, 1.2e-11, "s"), "5.702 ± 0.012 ns");
  assert.equal(measured(5, 0), "5");
});

test("times", () => {
  assert.deepEqual([4.21, 59.9, 187, 4327, 90_000, 86_400 * 9.2].map(lasting), [
    "4.2 s",
    "59 s",
    "3 m 07 s",
    "1 h 12 m",
    "1 day 1 h",
    "9 days 4 h",
  ]);
  assert.equal(elapsed(4327), "1:12:07");
  assert.deepEqual([0, -30, -120, -150].map(ago), ["now", "−30 s", "−2 m", "−2 m 30 s"]);
});

test("ticks are round", () => {
  assert.deepEqual(ticks(0, 40_000, 4), [0, 10_000, 20_000, 30_000, 40_000]);
  assert.deepEqual(ticks(-1, 1, 4), [-1, -0.5, 0, 0.5, 1]);
  assert.deepEqual(ticks(1, 1, 4), []);
  assert.deepEqual(decades(0.5, 1000), [1, 10, 100, 1000]);
  assert.deepEqual(
    logarithmic_ticks(0, 1).map((each) => Math.round(10 ** each)),
    [1, 2, 5, 10],
  );
  assert.deepEqual([20_000, 1_500_000, 0.2, 0, 100].map(tick), ["20 k", "1.5 M", "0.2", "0", "100"]);
  assert.deepEqual(
    [-40_000, 0, 1e6].map((ps) => along(ps, "ps")),
    ["−40 ns", "0 s", "1 µs"],
  );
});

test("values say their unit by their name", () => {
  assert.equal(value_in_words("busy_share", 0.5), "50.0 %");
  assert.equal(value_in_words("held_bytes", 7.1e6), "7.10 MB");
  assert.equal(value_in_words("rate_hz", 120), "120 /s");
  assert.equal(value_in_words("ok", false), "▲ no");
  assert.equal(value_in_words("anything", null), "–");
});

test("an address restores what is shown", () => {
  const address = {
    screen: "spectra" as const,
    shown: {
      channel: "3",
      x: "100~500",
      shape: "1,2;3,4;5,6",
      condition: "energy in [200, 300] && !pile_up",
      log: "1",
    },
  };
  assert.deepEqual(parsed(written(address)), address);
  assert.equal(
    written({
      screen: "spectra",
      shown: {
        x: from_range([100, 500.25]),
        shape: from_corners([
          [1, 2],
          [3, 4.5],
        ]),
        gone: "",
      },
    }),
    "#/spectra?x=100~500.25&shape=1,2;3,4.5",
  );
  assert.deepEqual(parsed("#/nowhere?x=1"), { screen: "run", shown: { x: "1" } });
  assert.deepEqual(parsed(""), { screen: "run", shown: {} });
  assert.deepEqual(range("100~500"), [100, 500]);
  for (const wrong of ["", undefined, "5", "5~1", "a~b", "1~2~3", "~5"]) assert.equal(range(wrong), null);
  assert.deepEqual(corners("1,2;3,4;5,6"), [
    [1, 2],
    [3, 4],
    [5, 6],
  ]);
  assert.deepEqual(corners("1,2;3"), []);
});

test("inside and outside, and regions side by side share no point", () => {
  const square = rectangle([2, 1], [0, 0]);
  assert.ok(is_inside(square, [1, 0.5]));
  assert.ok(is_inside(square, [0, 0]) && !is_inside(square, [2, 0.5]) && !is_inside(square, [1, 1]));
  const hook: Point[] = [
    [0, 0],
    [4, 0],
    [4, 4],
    [3, 4],
    [3, 1],
    [0, 1],
  ];
  assert.ok(is_inside(hook, [3.5, 3]) && !is_inside(hook, [1, 3]));
  const random = chance(9);
  const diagonal: [Point[], Point[]] = [
    [
      [0, 0],
      [1, 0],
      [0, 1],
    ],
    [
      [1, 0],
      [1, 1],
      [0, 1],
    ],
  ];
  for (let round = 0; round < 2000; round++) {
    const point: Point = [Math.floor(random() * 8) / 8, Math.floor(random() * 8) / 8];
    assert.equal(diagonal.filter((each) => is_inside(each, point)).length, 1, String(point));
  }
});

test("regions whose sides cross are found", () => {
  assert.ok(
    crosses_itself([
      [0, 0],
      [1, 1],
      [1, 0],
      [0, 1],
    ]),
  );
  assert.ok(
    !crosses_itself([
      [0, 0],
      [1, 0],
      [1, 1],
      [0, 1],
    ]),
  );
  assert.ok(
    !crosses_itself([
      [0, 0],
      [1, 0],
      [0, 1],
    ]),
  );
});

test("the lines for the configuration", () => {
  assert.equal(
    configuration(
      "neutrons",
      "energy",
      "psd",
      [
        [200.004, 0.2],
        [3000, 0.15],
        [3000, 0.4],
      ],
      false,
    ),
    '[[polygon]]\nname = "neutrons"\nx = "energy"\ny = "psd"\npoints = [[200, 0.2], [3000, 0.15], [3000, 0.4]]\n\n[[cut]]\nname = "neutrons"\nkeep = "!inside(neutrons)"\n',
  );
  assert.deepEqual(["n γ!", "7 up", "", "ok_1"].map(as_name), ["n", "region_7_up", "region", "ok_1"]);
});

const AXIS: Axis = { label: "energy", field: "energy", unit: "", bins: 10, low: 0, high: 100 };

test("bins of a range, and joined bins", () => {
  assert.deepEqual(bins_of(AXIS, 20, 40), [2, 4]);
  assert.deepEqual(bins_of(AXIS, -5, 1000), [0, 10]);
  assert.deepEqual(bins_of(AXIS, 33, 33), [3, 4]);
  assert.deepEqual(bins_of(AXIS, 500, 600), [9, 10]);
  const { axis, counts } = rebinned(AXIS, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 4);
  assert.deepEqual([axis.bins, axis.high, ...counts], [2, 80, 10, 26]);
});

test("the background passes under a peak", () => {
  const smooth = (bin: number) => 400 * Math.exp(-bin / 150) + 20;
  const counts = Array.from({ length: 400 }, (_, bin) => smooth(bin) + 900 * Math.exp(-0.5 * ((bin - 200) / 4) ** 2));
  const below = background(counts, 20);
  assert.ok(Math.abs((below[200] ?? 0) - smooth(200)) < 0.08 * smooth(200));
  assert.ok(Math.abs((below[100] ?? 0) - smooth(100)) < 0.08 * smooth(100));
});

test("projections of a part of a plane", () => {
  const { along_x, along_y } = projections([1, 2, 3, 4, 5, 6], 3, [1, 3], [0, 2]);
  assert.deepEqual(
    [[...along_x], [...along_y]],
    [
      [7, 9],
      [5, 11],
    ],
  );
});

test("persistence counts every sample once, and grows where pulses leave it", () => {
  const laid = new Persistence();
  const pulse = (time_ps: number, top: number) => ({
    time_ps,
    ns_per_sample: 2,
    analog: [[100, 100, top, 100]],
    digital: [],
  });
  laid.add([pulse(2, 200), pulse(1, 180)]);
  laid.add([pulse(3, 5000), pulse(2, 200)]);
  const plane = laid.plane();
  assert.equal(laid.pulses, 3);
  assert.equal(
    plane?.counts.reduce((sum, n) => sum + n, 0),
    12,
  );
  assert.ok((plane?.y.high ?? 0) > 5000);
});

test("the window of the coincidence is found in text and in parts", () => {
  assert.equal(
    coincidence_window_ps({
      text: '[run]\nname = "a"\n\n[coincidence]\nmode = "any_pair"\nwindow_ps = 40_000\n\n[record]\n',
    }),
    40_000,
  );
  assert.equal(coincidence_window_ps({ text: "[coincidence]\nwindow_ps = 7" }), 7);
  assert.equal(coincidence_window_ps({ text: "[veto]\nwindow_ps = 7" }), null);
  assert.equal(coincidence_window_ps({ plan: { coincidence: { window_ps: 12 } } }), 12);
  assert.equal(coincidence_window_ps(null), null);
  assert.equal(text_of({ text: "a" }), "a");
});

test("energies are shown in keV only where every channel is calibrated", () => {
  const spectrum = (channel: number, field: string) =>
    ({ id: channel, name: "", at: "received", channel, axes: [{ field }] }) as unknown as Spectrum;
  const raw = [spectrum(0, "energy"), spectrum(1, "energy")];
  const of_one = [...raw, spectrum(1, "keV")];
  const of_all = [...of_one, spectrum(0, "keV")];
  const shown = (list: Spectrum[], asked?: string) =>
    narrowed(list, undefined, asked).map(({ channel, axes }) => `${channel} ${axes[0]?.field}`);
  assert.deepEqual(shown(raw), ["0 energy", "1 energy"]);
  assert.deepEqual(shown(of_one), ["0 energy", "1 energy"]);
  assert.deepEqual(shown(of_one, "0"), ["1 keV"]);
  assert.deepEqual(shown(raw, "0"), ["0 energy", "1 energy"]);
  assert.deepEqual(shown(of_all), ["1 keV", "0 keV"]);
  assert.deepEqual(shown(of_all, "1"), ["0 energy", "1 energy"]);
});
