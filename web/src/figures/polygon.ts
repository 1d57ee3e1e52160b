// Regions of a plane, as they are drawn and as the configuration writes them.

/** A corner: the values along the two axes. */
export type Point = readonly [number, number];

/** Whether a point is inside. On a left or lower border it is, on a right or upper one it is not: as the cuts count. */
export function is_inside(points: readonly Point[], [x, y]: Point): boolean {
  let inside = false;
  for (let index = 0; index < points.length; index++) {
    const [x1, y1] = points[index] ?? [0, 0];
    const [x2, y2] = points[(index + 1) % points.length] ?? [0, 0];
    if (y1 <= y !== y2 <= y && x < x1 + ((y - y1) * (x2 - x1)) / (y2 - y1)) inside = !inside;
  }
  return inside;
}

/** Whether any two sides cross: such a region is refused by the configuration. */
export function crosses_itself(points: readonly Point[]): boolean {
  const side = (index: number): [Point, Point] => [
    points[index] ?? [0, 0],
    points[(index + 1) % points.length] ?? [0, 0],
  ];
  for (let one = 0; one < points.length; one++) {
    for (let other = one + 2; other < points.length; other++) {
      const neighbours = one === 0 && other === points.length - 1;
      if (!neighbours && cross(side(one), side(other))) return true;
    }
  }
  return false;
}

function cross([a, b]: [Point, Point], [c, d]: [Point, Point]): boolean {
  const turn = (p: Point, q: Point, r: Point) =>
    Math.sign((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]));
  return turn(a, b, c) !== turn(a, b, d) && turn(c, d, a) !== turn(c, d, b);
}

/** A rectangle by two opposite corners. */
export function rectangle([x1, y1]: Point, [x2, y2]: Point): Point[] {
  const [left, right, low, high] = [Math.min(x1, x2), Math.max(x1, x2), Math.min(y1, y2), Math.max(y1, y2)];
  return [
    [left, low],
    [right, low],
    [right, high],
    [left, high],
  ];
}

/** A name that an expression can call: letters, digits, underscores. */
export function as_name(text: string): string {
  const cleaned = text
    .trim()
    .replace(/[^A-Za-z0-9_]+/g, "_")
    .replace(/^_+|_+$/g, "");
  return /^[A-Za-z]/.test(cleaned) ? cleaned : cleaned === "" ? "region" : `region_${cleaned}`;
}

/** A cut on a region, as it is applied. */
export interface RegionCut {
  name: string;
  keep: string;
  polygon: { name: string; x: string; y: string; points: Point[] };
}

/** The cut that keeps this region, or cuts it away. */
export function cut_of(name: string, x: string, y: string, points: readonly Point[], kept: boolean): RegionCut {
  const rounded = (value: number) => Number(value.toPrecision(5));
  const corners = points.map(([a, b]) => [rounded(a), rounded(b)] as const);
  return { name, keep: `${kept ? "" : "!"}inside(${name})`, polygon: { name, x, y, points: corners } };
}

/** What to write into the configuration for it. */
export function configuration(name: string, x: string, y: string, points: readonly Point[], kept: boolean): string {
  const { keep, polygon } = cut_of(name, x, y, points, kept);
  const corners = polygon.points.map(([a, b]) => `[${a}, ${b}]`).join(", ");
  return [
    "[[polygon]]",
    `name = "${name}"`,
    `x = "${x}"`,
    `y = "${y}"`,
    `points = [${corners}]`,
    "",
    "[[cut]]",
    `name = "${name}"`,
    `keep = "${keep}"`,
    "",
  ].join("\n");
}
