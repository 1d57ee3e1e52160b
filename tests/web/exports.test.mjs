// Spectra as ROOT JSON: JSROOT, in the real browser, reads them as the histograms that they are, and draws them.
//
//   thalweg serve ─► stop ─┬─► /api/spectra ──────────────────────────────────────────────► names, axes, entries
//                          └─► /api/spectra/ID/export?format=root ─► JSROOT ─► TH1, TH2 ──► the same; SVG with a line in it

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { after, before, describe, it } from "node:test";
import { open_browser, WAIT_MS } from "./browser.mjs";
import { skip_without, skip_without_chromium } from "./prerequisite.mjs";
import { start_server } from "./server.mjs";

const JSROOT = fileURLToPath(new URL("../../web/node_modules/jsroot/build/jsroot.js", import.meta.url));
const TESTS = "spectra in JSROOT";
const skip =
  skip_without(process.env.THALWEG_BINARY, TESTS, "no THALWEG_BINARY: the mock exports nothing") ||
  skip_without_chromium(TESTS);

describe(TESTS, { skip, concurrency: 1 }, () => {
  let server, browser, page, spectra;

  const asked = async (path) => (await fetch(new URL(path, server.address))).json();
  const until = async (what, look) => {
    for (const end = Date.now() + WAIT_MS; ; await new Promise((resolve) => setTimeout(resolve, 100))) {
      const found = await look();
      if (found) return found;
      assert.ok(Date.now() < end, what);
    }
  };

  before(async () => {
    server = await start_server("hits");
    await until("no spectrum has two thousand counts", async () =>
      (await asked("/api/spectra")).some(({ what, entries }) => what === "plane" && entries > 2000),
    );
    const headers = { "content-type": "application/json", "x-thalweg": "1" };
    await fetch(new URL("/api/run/stop", server.address), { method: "POST", headers, body: "{}" });
    await until("the run goes on", async () => (await asked("/api/state")).state === "stopped");
    spectra = await asked("/api/spectra");
    browser = await open_browser();
    page = await browser.newPage();
    page.setDefaultTimeout(WAIT_MS);
    // JSROOT wants to know where it came from, so it is served, from a host that there is only here.
    await page.route("http://histograms.test/**", (route) =>
      route.request().url().endsWith(".js")
        ? route.fulfill({ path: JSROOT, contentType: "text/javascript" })
        : route.fulfill({ body: "<!doctype html><script src=jsroot.js></script>", contentType: "text/html" }),
    );
    await page.goto("http://histograms.test/");
  });

  after(async () => {
    await browser?.close();
    await server?.close();
  });

  /** What JSROOT makes of an export. */
  async function read(spectrum, option) {
    const text = await (await fetch(new URL(`/api/spectra/${spectrum.id}/export?format=root`, server.address))).text();
    return page.evaluate(
      async ([text, option]) => {
        const object = JSROOT.parse(text);
        const axis = ({ fNbins, fXmin, fXmax, fTitle }) => ({ bins: fNbins, low: fXmin, high: fXmax, title: fTitle });
        const [columns, rows] = [object.fXaxis.fNbins, object.fYaxis.fNbins];
        const is_plane = /^TH2/.test(object._typename);
        // Bin 0 and the last of an axis are what lies beside it.
        const contents = is_plane
          ? Array.from({ length: rows }, (_, y) =>
              Array.from({ length: columns }, (_, x) => object.getBinContent(x + 1, y + 1)),
            )
          : Array.from({ length: columns }, (_, x) => object.getBinContent(x + 1));
        const beside = is_plane ? null : [object.getBinContent(0), object.getBinContent(columns + 1)];
        const svg = await JSROOT.makeSVG({ object, option, width: 800, height: 500 });
        return {
          type: object._typename,
          title: object.fTitle,
          metadata: object.metadata,
          entries: object.fEntries,
          cells: object.fNcells,
          x: axis(object.fXaxis),
          y: axis(object.fYaxis),
          contents,
          beside,
          svg,
        };
      },
      [text, option],
    );
  }

  /** The same spectrum by the other export, whose contents Python's tests hold against the page's. */
  async function by_uhi({ id }) {
    const { storage } = await asked(`/api/spectra/${id}/export?format=uhi`);
    return storage.values;
  }

  const longest_path = (svg) =>
    Math.max(0, ...[...svg.matchAll(/<path[^>]*\sd="([^"]*)"/g)].map(([, drawn]) => drawn.length));

  it("reads an energy spectrum as TH1 with its bins, and draws it", async () => {
    const spectrum = spectra.find(({ what, entries }) => what === "energy" && entries > 0);
    const [axis] = spectrum.axes;
    const found = await read(spectrum, "hist");
    assert.equal(found.type, "TH1D");
    assert.ok(found.title.startsWith(`${spectrum.name}, live time `), found.title);
    const { metadata } = await asked(`/api/spectra/${spectrum.id}/export?format=uhi`);
    assert.deepEqual(found.metadata, metadata);
    assert.match(metadata.live_time_quality, /^(exact|at_least|unknown)$/);
    assert.equal(found.entries, spectrum.entries);
    assert.equal(found.cells, axis.bins + 2);
    assert.deepEqual([found.x.bins, found.x.low, found.x.high], [axis.bins, axis.low, axis.high]);
    assert.deepEqual([found.beside[0], ...found.contents, found.beside[1]], await by_uhi(spectrum));
    assert.equal(
      found.contents.reduce((sum, n) => sum + n, 0),
      spectrum.entries,
    );
    assert.match(found.svg, /^<svg/);
    assert.ok(longest_path(found.svg) > 500, "no line of a histogram in the picture");
  });

  it("reads a plane as TH2 with its bins, and draws it", async () => {
    const spectrum = spectra.find(({ what, entries }) => what === "plane" && entries > 0);
    const [x, y] = spectrum.axes;
    const found = await read(spectrum, "col");
    assert.equal(found.type, "TH2D");
    assert.equal(found.cells, (x.bins + 2) * (y.bins + 2));
    assert.deepEqual([found.x.bins, found.x.low, found.x.high], [x.bins, x.low, x.high]);
    assert.deepEqual([found.y.bins, found.y.low, found.y.high], [y.bins, y.low, y.high]);
    const columns = await by_uhi(spectrum);
    assert.deepEqual(
      found.contents,
      Array.from({ length: y.bins }, (_, row) => columns.map((column) => column[row])),
    );
    assert.ok(longest_path(found.svg) > 500, "no cells in the picture");
  });
});
