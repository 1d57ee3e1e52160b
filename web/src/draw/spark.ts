// A spectrum the size of a stamp: one canvas, one path, no axes; many of them share one scale.

import { colour } from "../parts/theme.js";

/** Draws counts over the whole width; `most` is the top of the shared scale. Plane counts are drawn by their first projection. */
export function draw_spark(canvas: HTMLCanvasElement, counts: ArrayLike<number>, most: number, log: boolean): void {
  const context = canvas.getContext("2d");
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!context || width === 0) return;
  const ratio = devicePixelRatio;
  if (canvas.width !== Math.round(width * ratio))
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const columns = Math.max(Math.floor(width), 1);
  const ceiling = log ? Math.log10(Math.max(most, 10) * 1.5) + 0.3 : Math.max(most, 1) * 1.05;
  context.beginPath();
  context.moveTo(0, height);
  for (let column = 0; column < columns; column++) {
    const n = highest(counts, (column * counts.length) / columns, ((column + 1) * counts.length) / columns);
    const tall = log ? (n > 0 ? Math.log10(n) + 0.3 : 0) : n;
    const y = height - Math.min(tall / ceiling, 1) * (height - 1);
    context.lineTo(column, y);
    context.lineTo(column + 1, y);
  }
  context.lineTo(columns, height);
  context.fillStyle = colour("spark-fill");
  context.fill();
  context.strokeStyle = colour("line-0");
  context.lineWidth = 1;
  context.stroke();
}

function highest(counts: ArrayLike<number>, from: number, to: number): number {
  let most = 0;
  for (let bin = Math.floor(from); bin < Math.max(to, Math.floor(from) + 1) && bin < counts.length; bin++)
    most = Math.max(most, counts[bin] ?? 0);
  return most;
}
