// Numbers as people read them: three significant digits, an SI prefix, the unit always there.
//
//   3214567, "/s" ──► "3.21 M/s"        61.3e6, "B/s" ──► "61.3 MB/s"        0 ──► "0"

const PREFIXES = ["f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"] as const;
const ONE = PREFIXES.indexOf("");

/** What is shown where a number is not known. */
export const UNKNOWN = "–";

/** A number split into the figures and the prefix that scales them. */
export function scaled(value: number): { figures: string; prefix: string } {
  if (!Number.isFinite(value)) return { figures: UNKNOWN, prefix: "" };
  if (value === 0) return { figures: "0", prefix: "" };
  // Rounded first, so that 999.6 is 1.00 k and not 1000.
  const rounded = Number(Math.abs(value).toPrecision(3));
  const power = Math.floor(Math.log10(rounded) / 3 + 1e-9);
  const step = Math.min(Math.max(power, -ONE), PREFIXES.length - 1 - ONE);
  const figures = rounded / 10 ** (3 * step);
  const text = figures >= 1000 ? figures.toExponential(2) : threeDigits(figures);
  return { figures: (value < 0 ? "−" : "") + text, prefix: PREFIXES[step + ONE] ?? "" };
}

function threeDigits(figures: number): string {
  return figures.toFixed(figures >= 99.95 ? 0 : figures >= 9.995 ? 1 : 2);
}

/** Three significant digits, prefix and unit: `quantity(61.3e6, "B/s")` is `61.3 MB/s`. */
export function quantity(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) return UNKNOWN;
  const { figures, prefix } = scaled(value);
  const joined = prefix + unit;
  return joined === "" ? figures : `${figures} ${joined}`;
}

/** A rate: `3.21 M/s`. */
export function rate(value_hz: number | null | undefined): string {
  return quantity(value_hz, "/s");
}

/** A count: exact up to 9999, then three digits: `12.3 M`. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (Math.abs(value) < 10_000 && Number.isInteger(value)) return String(value).replace("-", "−");
  return quantity(value, "");
}

/** Every digit of a count, in groups of three: for tables and hints where the ledger must balance. */
export function exact(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  return Math.round(value)
    .toString()
    .replace("-", "−")
    .replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** A share of one in per cent: `0.09 %`, `31.0 %`, `100 %`. */
export function share(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNKNOWN;
  const percent = value * 100;
  if (percent === 0) return "0 %";
  if (percent >= 99.95 && percent < 100) return `${(Math.floor(percent * 1000) / 1000).toFixed(3)} %`;
  return percent < 0.01 ? `${quantity(value, "")}` : `${threeDigits(percent)} %`;
}

/** A number with its standard deviation, to two digits of the latter: `1173.24 ± 0.12`. */
export function measured(value: number, deviation: number): string {
  if (!Number.isFinite(value)) return UNKNOWN;
  if (!Number.isFinite(deviation) || deviation <= 0) return plain(value);
  const places = Math.min(Math.max(1 - Math.floor(Math.log10(deviation)), 0), 9);
  const whole = 10 ** Math.max(Math.floor(Math.log10(deviation)) - 1, 0);
  const written = (each: number) =>
    (whole > 1 ? Math.round(each / whole) * whole : each).toFixed(places).replace("-", "−");
  return `${written(value)} ± ${written(deviation)}`;
}

/** A number whose error is not known, to three digits: `≈ 1170`. */
export function rough(value: number): string {
  return Number.isFinite(value) ? `≈ ${plain(Number(value.toPrecision(3)))}` : UNKNOWN;
}

/** A number with its standard deviation and one SI prefix for both: `5.702 ± 0.012 ns`. */
export function measured_as(value: number, deviation: number, unit: string): string {
  if (!Number.isFinite(value)) return UNKNOWN;
  const { prefix } = scaled(Math.max(Math.abs(value), deviation));
  const scale = 10 ** (3 * (PREFIXES.findIndex((each) => each === prefix) - ONE));
  return `${measured(value / scale, deviation / scale)} ${prefix}${unit}`;
}

/** A coordinate on an axis: as many digits as are worth reading, no prefix. */
export function plain(value: number): string {
  if (!Number.isFinite(value)) return UNKNOWN;
  const digits = Math.abs(value) >= 10_000 ? value.toFixed(0) : String(Number(value.toPrecision(5)));
  return digits.replace("-", "−");
}
