// Energy calibration: a straight line through peaks whose energies are known, as the configuration takes it.

/** A peak whose energy is known. */
export interface KnownPeak {
  /** Where it is, in the units of the measured energy. */
  centroid: number;
  kev: number;
}

/** keV = offset + gain · energy. */
export interface Calibration {
  offset_kev: number;
  gain_kev: number;
  /** How far the peaks lie from the line, root mean square; `null` of two, through which it passes. */
  residual_kev: number | null;
}

/** Peaks in an address: `1173.2:1173.228,1332.5:1332.492`. */
export function known_peaks(text: string | undefined): KnownPeak[] {
  const peaks = (text ?? "")
    .split(",")
    .filter((part) => part !== "")
    .map((part) => part.split(":").map((number) => (number.trim() === "" ? NaN : Number(number))));
  const whole = peaks.every((peak) => peak.length === 2 && peak.every(Number.isFinite));
  return whole ? peaks.map(([centroid = 0, kev = 0]) => ({ centroid, kev })) : [];
}

/** Peaks to an address. */
export function from_known_peaks(peaks: readonly KnownPeak[]): string {
  return peaks.map(({ centroid, kev }) => `${Number(centroid.toPrecision(7))}:${kev}`).join(",");
}

/** The line of least squares; `null` while there are no two peaks apart, or it would fall. */
export function calibration(peaks: readonly KnownPeak[]): Calibration | null {
  const count = peaks.length;
  const mean = (of: (peak: KnownPeak) => number) => peaks.reduce((sum, peak) => sum + of(peak), 0) / count;
  const [middle, middle_kev] = [mean(({ centroid }) => centroid), mean(({ kev }) => kev)];
  const spread = mean(({ centroid }) => (centroid - middle) ** 2);
  if (count < 2 || !(spread > 0)) return null;
  const gain_kev = mean(({ centroid, kev }) => (centroid - middle) * (kev - middle_kev)) / spread;
  if (!(gain_kev > 0)) return null;
  const offset_kev = middle_kev - gain_kev * middle;
  const squares = mean(({ centroid, kev }) => (kev - offset_kev - gain_kev * centroid) ** 2);
  return { offset_kev, gain_kev, residual_kev: count > 2 ? Math.sqrt(squares) : null };
}

/** The polynomial of a channel, constant first, as it is written and applied. */
export function coefficients({ offset_kev, gain_kev }: Calibration): [number, number] {
  return [Number(offset_kev.toPrecision(7)), Number(gain_kev.toPrecision(7))];
}

/** The lines for the configuration. */
export function calibration_lines(channel: number, line: Calibration): string {
  return `[[channel]]\nnumber = ${channel}\nenergy_kev = [${coefficients(line).join(", ")}]\n`;
}
