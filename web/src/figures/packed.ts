// Counts as the server packs them.
//
//   frame: id u32 │ revision u64 │ entries u64 │ bins u32 │ bytes u32 │ counts, little-endian, one frame after the other
//   counts: LEB128; a zero is followed by the length of the run of zeros that it begins

/** The counts of one spectrum. */
export interface Frame {
  id: number;
  /** Exact also beyond 2⁵³: it is only sent back. */
  revision: bigint;
  entries: number;
  counts: Float64Array;
}

/** Bytes before the counts of a frame. */
export const HEADER_BYTES = 4 + 8 + 8 + 4 + 4;

/** No spectrum has more bins: a length beyond this is damage. */
const MOST_BINS = 1 << 24;

/** All frames of an answer. Throws at bytes that are none, with what is wrong. */
export function frames(buffer: ArrayBuffer): Frame[] {
  const view = new DataView(buffer);
  const found: Frame[] = [];
  for (let at = 0; at < view.byteLength;) {
    if (at + HEADER_BYTES > view.byteLength)
      throw new Error(`spectra: ${view.byteLength - at} bytes where a header should be`);
    const [bins, bytes] = [view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
    const begin = at + HEADER_BYTES;
    if (begin + bytes > view.byteLength)
      throw new Error(`spectra: ${bytes} bytes of counts promised, ${view.byteLength - begin} there`);
    found.push({
      id: view.getUint32(at, true),
      revision: view.getBigUint64(at + 4, true),
      entries: Number(view.getBigUint64(at + 12, true)),
      counts: unpacked(new Uint8Array(buffer, begin, bytes), bins),
    });
    at = begin + bytes;
  }
  return found;
}

/** Packed counts as numbers; there have to be `bins` of them. */
export function unpacked(bytes: Uint8Array, bins: number): Float64Array {
  if (bins > MOST_BINS) throw new Error(`spectra: ${bins} bins, at most ${MOST_BINS}`);
  const counts = new Float64Array(bins);
  let [at, bin] = [0, 0];
  const take = (): number => {
    // Above 2³¹ bits no longer fit a shift, so weights are multiplied.
    for (let [value, weight] = [0, 1]; ; weight *= 128) {
      const byte = bytes[at++];
      if (byte === undefined || weight > 2 ** 63) throw new Error("spectra: a count without end");
      value += (byte & 0x7f) * weight;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const count = take();
    const run = count === 0 ? take() : 1;
    if (run === 0 || bin + run > bins) throw new Error(`spectra: more than ${bins} counts`);
    if (count > 0) counts[bin] = count;
    bin += run;
  }
  if (bin !== bins) throw new Error(`spectra: ${bin} counts, ${bins} promised`);
  return counts;
}
