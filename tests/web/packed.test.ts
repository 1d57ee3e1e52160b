// Packed counts, as crates/analysis/src/spectrum/pack.rs writes them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { frames, HEADER_BYTES, unpacked } from "../../web/src/figures/packed.js";
import { chance } from "./chance.js";

function pack(counts: readonly number[]): number[] {
  const bytes: number[] = [];
  const put = (value: number) => {
    for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
    bytes.push(value);
  };
  for (let at = 0; at < counts.length;) {
    const count = counts[at] ?? 0;
    let end = at + 1;
    put(count);
    if (count === 0) {
      while (end < counts.length && counts[end] === 0) end++;
      put(end - at);
    }
    at = end;
  }
  return bytes;
}

function frame(id: number, revision: bigint, entries: bigint, counts: readonly number[]): Uint8Array {
  const packed = pack(counts);
  const bytes = new Uint8Array(HEADER_BYTES + packed.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, id, true);
  view.setBigUint64(4, revision, true);
  view.setBigUint64(12, entries, true);
  view.setUint32(20, counts.length, true);
  view.setUint32(24, packed.length, true);
  bytes.set(packed, HEADER_BYTES);
  return bytes;
}

test("the server's own examples are read", () => {
  assert.deepEqual([...unpacked(Uint8Array.of(0x07, 0x00, 0x03, 0xac, 0x02), 5)], [7, 0, 0, 0, 300]);
  assert.deepEqual([...unpacked(Uint8Array.of(0, 0x80, 0x20), 4096)], new Array(4096).fill(0));
});

test("what is packed is unpacked", () => {
  const random = chance(1);
  for (let round = 0; round < 300; round++) {
    const counts = Array.from({ length: Math.floor(random() * 200) }, () =>
      random() < 0.6 ? 0 : Math.floor(2 ** (random() * 52)),
    );
    assert.deepEqual([...unpacked(Uint8Array.from(pack(counts)), counts.length)], counts);
  }
});

test("frames follow each other, and a revision keeps all its bits", () => {
  const revision = (3n << 48n) | 123_456_789_012n;
  const both = new Uint8Array([...frame(4, revision, 9n, [0, 9, 0]), ...frame(5, 1n, 0n, [0])]);
  const [first, second, more] = frames(both.buffer);
  assert.equal(first?.id, 4);
  assert.equal(first?.revision, revision);
  assert.equal(first?.entries, 9);
  assert.deepEqual([...(first?.counts ?? [])], [0, 9, 0]);
  assert.equal(second?.id, 5);
  assert.equal(more, undefined);
});

test("damage is told, and never hangs", () => {
  assert.throws(() => unpacked(Uint8Array.of(0, 5), 4), /more than 4/);
  assert.throws(() => unpacked(Uint8Array.of(0, 0), 4), /more than 4/);
  assert.throws(() => unpacked(Uint8Array.of(1, 2), 4), /2 counts, 4 promised/);
  assert.throws(() => unpacked(Uint8Array.of(0x80), 1), /without end/);
  assert.throws(() => unpacked(new Uint8Array(40).fill(0xff), 1), /without end/);
  assert.throws(() => frames(new ArrayBuffer(5)), /header/);
  assert.throws(() => frames(frame(1, 1n, 1n, [1, 2, 3]).slice(0, -1).buffer), /promised/);
  const random = chance(2);
  for (let round = 0; round < 2000; round++) {
    const bytes = Uint8Array.from({ length: Math.floor(random() * 60) }, () => Math.floor(random() * 256));
    try {
      frames(bytes.buffer);
      unpacked(bytes, 50);
    } catch (error) {
      assert.ok(error instanceof Error);
    }
  }
});
