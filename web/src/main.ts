// The live page: opens the stream of states and hands it to the frame, which shows one screen at a time.
//
// No framework: a handful of elements change ten times a second, each in its place, and pictures draw themselves; that takes
// the forty lines of parts/element.ts.
//
//   live/     what the server tells       figures/  numbers, fits, regions: no page needed
//   draw/     pictures                    parts/    pieces of the page          screens/  one file per question

import { Frame } from "./frame.js";
import { Connection } from "./live/connection.js";
import { fill_series, note_series } from "./parts/slow_control.js";
import { begin_theme } from "./parts/theme.js";
import { get } from "./live/requests.js";
import type { Past } from "./live/generated.js";
import { events_screen, fill_busy, note_busy } from "./screens/events.js";
import { pulses_screen } from "./screens/pulses.js";
import { fill_rates, note_rates, run_screen } from "./screens/run.js";
import { runs_screen } from "./screens/runs.js";
import { spectra_screen } from "./screens/spectra.js";
import { system_screen } from "./screens/system.js";

begin_theme();
const connection = new Connection();
connection.listen(({ state, age_seconds }) => {
  // What is old is not noted again as if it were new.
  if (!state || age_seconds > 0.5) return;
  note_rates(state);
  note_busy(state);
  note_series(state);
});
new Frame(connection, {
  run: run_screen,
  spectra: spectra_screen,
  pulses: pulses_screen,
  events: events_screen,
  runs: runs_screen,
  system: system_screen,
});
connection.open();
get<Past>("/api/history").then(
  (past) => {
    fill_rates(Date.now() / 1000, past);
    fill_busy(Date.now() / 1000, past);
    fill_series(Date.now() / 1000, past);
  },
  // Without it lines begin now.
  () => {},
);
