// A plane the size of a stamp: bins joined to one pixel each, colours by the logarithm.

import { CIVIDIS_PIXELS, place_on } from "./colours.js";

// Four bins of a 256-bin axis to a pixel: enough to see bands.
const PIXELS = 96;

/** Draws a plane; the canvas is stretched by its style. */
export function draw_stamp(
  canvas: HTMLCanvasElement,
  counts: ArrayLike<number>,
  columns: number,
  rows: number,
  most: number,
): void {
  const [wide, high] = [Math.min(columns, PIXELS), Math.min(rows, PIXELS)];
  canvas.width = wide;
  canvas.height = high;
  const pixels = new ImageData(wide, high);
  const words = new Uint32Array(pixels.data.buffer);
  const brightest = new Float64Array(wide * high);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const n = counts[row * columns + column] ?? 0;
      const at = (high - 1 - Math.floor((row * high) / rows)) * wide + Math.floor((column * wide) / columns);
      if (n > (brightest[at] ?? 0)) brightest[at] = n;
    }
  }
  brightest.forEach((n, at) => {
    if (n > 0) words[at] = CIVIDIS_PIXELS[Math.round(place_on(n, 0.7, most, true) * 255)] ?? 0;
  });
  canvas.getContext("2d")?.putImageData(pixels, 0, 0);
}
