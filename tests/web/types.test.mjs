// The page's types follow the schemas: what is required is required, and what is not understood is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readFileSync } from "node:fs";
import { type_of, types_of } from "../../web/types.mjs";
import { recorded_runs } from "./mock-host.mjs";
import { hits_state, live_state, triggered_state } from "./mock-states.mjs";

test("what is required is not optional, and null is a value", () => {
  const rate = { type: "number", description: "Hits per second." };
  const schema = {
    type: "object",
    required: ["rate_hz", "left"],
    properties: {
      rate_hz: rate,
      left: { type: ["number", "null"] },
      ledger: { type: "array", items: { type: "string" } },
    },
  };
  const text = type_of(schema).replaceAll(/\s+/g, " ");
  assert.equal(text, '{ /** Hits per second. */ "rate_hz": number; "left": number | null; "ledger"?: (string)[]; }');
});

test("words, tuples, maps and references", () => {
  const word = (constant) => ({ type: "string", const: constant, description: "A word." });
  const reference = { $ref: "#/components/schemas/DeadTime" };
  const number = { type: "integer", format: "uint64", minimum: 0 };
  for (const [schema, expected] of [
    [{ oneOf: [word("exact"), word("unknown")] }, '"exact" | "unknown"'],
    [{ type: "string", enum: ["hits", "events"] }, '"hits" | "events"'],
    [{ anyOf: [reference, { type: "null" }] }, "DeadTime | null"],
    [{ ...reference, description: "Of the boards." }, "DeadTime"],
    [{ type: ["array", "null"], prefixItems: [number, number], minItems: 2, maxItems: 2 }, "[number, number] | null"],
    [{ type: "array", items: number, minItems: 3, maxItems: 3 }, "[number, number, number]"],
    [{ type: "array", items: number, minItems: 17, maxItems: 17 }, "(number)[]"],
    [{ type: "object", additionalProperties: number }, "Record<string, number>"],
  ])
    assert.equal(type_of(schema), expected);
});

test("a schema that is not understood is refused with its place", () => {
  assert.throws(() => type_of({ allOf: [] }, "LiveState.run"), /LiveState\.run: .* is not known/);
  assert.throws(() => type_of({ type: "date" }, "x"), /type "date"/);
  assert.throws(() => types_of(["Gone"], {}), /no schema Gone/);
});

test("a file has the types that are asked for, and those that they need", () => {
  const schemas = {
    Run: { type: "object", properties: { state: { $ref: "#/components/schemas/State" } }, required: ["state"] },
    State: { type: "string", enum: ["running"], description: "Where it stands." },
    Other: { type: "string" },
  };
  const text = types_of(["Run"], schemas);
  assert.match(text, /export interface Run/);
  assert.match(text, /\/\*\* Where it stands\. \*\/\nexport type State = "running";/);
  assert.doesNotMatch(text, /Other/);
});

const OPENAPI = new URL("../../crates/monitor/src/openapi.json", import.meta.url);
const { schemas } = JSON.parse(readFileSync(OPENAPI, "utf8")).components;

/** The schema of a value, behind references, and of those that it may have the one that is an object or an array. */
function resolved(schema) {
  const one = schema.anyOf?.find((each) => each.type !== "null") ?? schema;
  return one.$ref ? resolved(schemas[one.$ref.split("/").at(-1)]) : one;
}

/** What a value lacks, or has too much, of a schema. */
function differences(value, unresolved, place) {
  const schema = resolved(unresolved);
  if (Array.isArray(value))
    return value.flatMap((each, at) => differences(each, schema.items ?? {}, `${place}[${at}]`));
  if (typeof value !== "object" || value === null || !schema.properties) return [];
  const missing = (schema.required ?? [])
    .filter((key) => value[key] === undefined)
    .map((key) => `${place}.${key} is missing`);
  const unknown = Object.keys(value)
    .filter((key) => !schema.properties[key])
    .map((key) => `${place}.${key} is unknown`);
  const inside = Object.entries(value).flatMap(([key, each]) =>
    differences(each, schema.properties[key] ?? {}, `${place}.${key}`),
  );
  return [...missing, ...unknown, ...inside];
}

test("the states that the mock makes up are whole live states", () => {
  const experiment = { elapsed: () => 10, lost: () => 3, total: (_, rate_hz) => rate_hz * 10 };
  const given = { state: "running", disk_free_bytes: 1, disk_left_seconds: null, messages: [] };
  for (const of_kind of [hits_state, triggered_state]) {
    const state = { ...live_state({ number: 1 }, 10), ...given, ...of_kind(experiment, true) };
    assert.deepEqual(differences(state, schemas.LiveState, "state"), []);
  }
  recorded_runs().forEach((run) => assert.deepEqual(differences(run, schemas.RecordedRun, "run"), []));
  assert.deepEqual(differences({ number: 1 }, schemas.LiveRun, "run").length, 7, "what is missing is found");
});
