// Makes the page's types from the schemas that the server's own types give.
//
//   crates/monitor/src/openapi.json ─ components/schemas ─► web/src/live/generated.ts, generated_runs.ts, generated_spectra.ts
//
// Understands what schemars writes of plain structs and enums, and refuses everything else: a type that was guessed would be worse than
// none. `make generated` writes the files; with --check they are only compared.

import { readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { argv, exit } from "node:process";
import { fileURLToPath } from "node:url";
import { format } from "prettier";

const here = dirname(fileURLToPath(import.meta.url));
const SOURCE = join(here, "../crates/monitor/src/openapi.json");
/** The files, and the schemas of each; what these need is in the same file, or comes from one before it. */
const FILES = {
  "src/live/generated.ts": ["LiveState", "Past", "OperatorMessage"],
  "src/live/generated_runs.ts": ["RecordedRun"],
  "src/live/generated_spectra.ts": ["Spectrum", "PulseChannel", "PulseTrace"],
};
const PREFIX = "#/components/schemas/";
/** What may stand in a schema without changing the type: words, and limits of numbers. */
const SAID = ["description", "format", "minimum", "maximum", "default", "title", "examples", "maxProperties"];

/** The TypeScript of a schema: a type without a name. */
export function type_of(schema, place = "the schema") {
  if (schema === true) return "unknown";
  const { $ref, type, anyOf, oneOf, enum: words, const: constant, ...rest } = schema;
  const refuse = (what) => {
    throw new Error(`${place}: ${what} is not known to web/types.mjs`);
  };
  const only = (...keys) => {
    const unknown = Object.keys(rest).find((key) => !SAID.includes(key) && !keys.includes(key));
    if (unknown) refuse(`"${unknown}"`);
  };
  const union = (types) => [...new Set(types)].join(" | ");
  if ($ref !== undefined) {
    only();
    if (!$ref.startsWith(PREFIX)) refuse($ref);
    return $ref.slice(PREFIX.length);
  }
  if (constant !== undefined) return (only("type"), JSON.stringify(constant));
  if (words) return (only(), union(words.map((word) => JSON.stringify(word))));
  if (anyOf ?? oneOf) return (only(), union((anyOf ?? oneOf).map((each) => type_of(each, place))));
  if (Array.isArray(type)) return union(type.map((one) => type_of({ ...rest, type: one }, place)));
  switch (type) {
    case "string":
    case "boolean":
    case "null":
      return type;
    case "integer":
    case "number":
      return "number";
    case "array":
      return array_of(schema, place);
    case "object":
      return object_of(schema, place);
    default:
      return refuse(type === undefined ? "a schema without a type" : `type "${type}"`);
  }
}

/** Longer arrays of one length are plain arrays: nobody reads their places one by one. */
const LONGEST_TUPLE = 8;

function array_of({ prefixItems, items, minItems, maxItems }, place) {
  if (!prefixItems) {
    const item = type_of(items ?? true, place);
    return minItems > 0 && minItems === maxItems && minItems <= LONGEST_TUPLE
      ? `[${new Array(minItems).fill(item).join(", ")}]`
      : `(${item})[]`;
  }
  if (minItems !== prefixItems.length || maxItems !== prefixItems.length)
    throw new Error(`${place}: a tuple of any length`);
  return `[${prefixItems.map((item) => type_of(item, place)).join(", ")}]`;
}

function object_of({ properties, required = [], additionalProperties }, place) {
  if (!properties) return `Record<string, ${type_of(additionalProperties || true, place)}>`;
  const fields = Object.entries(properties).map(([name, property]) => {
    const mark = required.includes(name) ? "" : "?";
    return `${comment(property.description)}${JSON.stringify(name)}${mark}: ${type_of(property, `${place}.${name}`)};`;
  });
  return `{\n${fields.join("\n")}\n}`;
}

function comment(text) {
  return text ? `/** ${text.replaceAll("*/", "* /").replaceAll("\n", "\n * ")} */\n` : "";
}

/** The schemas that a part of one names. */
function named_by(part) {
  if (typeof part !== "object" || part === null) return [];
  const own = typeof part.$ref === "string" ? [part.$ref.slice(PREFIX.length)] : [];
  return own.concat(Object.values(part).flatMap(named_by));
}

/** The schemas that these need, with themselves. */
function reachable(names, schemas) {
  const found = new Set();
  const add = (name) => {
    if (found.has(name)) return;
    if (!schemas[name]) throw new Error(`there is no schema ${name}`);
    found.add(name);
    named_by(schemas[name]).forEach(add);
  };
  names.forEach(add);
  return [...found].sort();
}

/** A file with the types of these schemas, and of those that they need; `made` has the module of each that is there already. */
export function types_of(names, schemas, made = new Map()) {
  const own = reachable(names, schemas).filter((name) => !made.has(name));
  const types = own.map((name) => {
    const schema = schemas[name];
    const body = type_of(schema, name);
    const is_interface = schema.type === "object" && schema.properties;
    return `${comment(schema.description)}export ${is_interface ? `interface ${name} ${body}` : `type ${name} = ${body};`}`;
  });
  const taken = new Set(own.flatMap((name) => named_by(schemas[name])).filter((name) => made.has(name)));
  const modules = [...new Set([...taken].map((name) => made.get(name)))].sort();
  const imports = modules.map((module) => {
    const names = [...taken].filter((name) => made.get(name) === module).sort();
    return `import type { ${names.join(", ")} } from "${module}";`;
  });
  const head =
    "// Made by web/types.mjs from crates/monitor/src/openapi.json: change the types of Rust, then `make generated`.";
  return `${[head, imports.join("\n"), ...types].filter((part) => part !== "").join("\n\n")}\n`;
}

async function main() {
  const { schemas } = JSON.parse(await readFile(SOURCE, "utf8")).components;
  const style = JSON.parse(await readFile(join(here, ".prettierrc.json"), "utf8"));
  const made = new Map();
  for (const [name, names] of Object.entries(FILES)) {
    const file = join(here, name);
    const types = types_of(names, schemas, made);
    const fresh = reachable(names, schemas).filter((each) => !made.has(each));
    fresh.forEach((each) => made.set(each, `./${basename(name, ".ts")}.js`));
    const text = await format(types, { ...style, parser: "typescript" });
    if (!argv.includes("--check")) await writeFile(file, text);
    else if ((await readFile(file, "utf8").catch(() => "")) !== text) {
      console.error(`web/${name} is not what the types of Rust give: run \`make generated\``);
      exit(1);
    }
  }
}

if (argv[1] === fileURLToPath(import.meta.url)) await main();
