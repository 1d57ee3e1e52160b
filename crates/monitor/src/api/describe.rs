//! The OpenAPI document, from the places and from the types that are served there.
//!
//! ```text
//!  operations below ─┐
//!  LiveState, … ─ JsonSchema ─► components/schemas ─┴─► openapi.json     `make generated` writes it, a test compares it
//! ```
//! The document is part of the source, so that a program costs nothing to start and a change is seen in review.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use thalweg_analysis::view::{Applied, NewCalibration, NewCut};
use thalweg_data::topology::Topology;

use super::{control, pulses, runs, spectra, view};
use crate::experiment::{OperatorMessage, PulseChannel, PulseTrace, RequestRefused, StartRun};
use crate::history::Past;
use crate::recorded_run::{RecordedRun, RunNote};
use crate::state::LiveState;

/// One method of one place.
struct Operation {
    method: &'static str,
    path: &'static str,
    name: &'static str,
    tag: &'static str,
    summary: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Vec<(u16, Value)>,
    /// Besides those that every place may refuse with.
    refusals: &'static [u16],
}

/// What every place may refuse with, and what those that change something may refuse with in addition.
const ALWAYS: [u16; 4] = [401, 403, 421, 503];
const OF_BODIES: [u16; 3] = [400, 413, 415];

impl Operation {
    fn get(
        path: &'static str,
        name: &'static str,
        tag: &'static str,
        summary: &'static str,
        answer: Value,
    ) -> Operation {
        let answers = vec![(200, answer)];
        let (parameters, body) = (Vec::new(), None);
        Operation { method: "get", path, name, tag, summary, parameters, body, answers, refusals: &[] }
    }

    fn post(
        path: &'static str,
        name: &'static str,
        tag: &'static str,
        summary: &'static str,
        body: Value,
        answer: Value,
    ) -> Operation {
        Operation { method: "post", body: Some(body), ..Operation::get(path, name, tag, summary, answer) }
    }

    fn with(mut self, parameter: Value) -> Operation {
        self.parameters.push(parameter);
        self
    }

    fn or_answers(mut self, status: u16, answer: Value) -> Operation {
        self.answers.push((status, answer));
        self
    }

    fn refuses(self, refusals: &'static [u16]) -> Operation {
        Operation { refusals, ..self }
    }

    fn document(mut self) -> Value {
        let of_body = if self.body.is_some() { &OF_BODIES[..] } else { &[] };
        let mut responses: Map<String, Value> = [&ALWAYS, of_body, self.refusals]
            .concat()
            .iter()
            .map(|status| (status.to_string(), json!({ "$ref": "#/components/responses/Refused" })))
            .collect();
        responses.extend(self.answers.into_iter().map(|(status, answer)| (status.to_string(), answer)));
        let mut document = json!({
            "operationId": self.name, "tags": [self.tag], "summary": self.summary, "responses": responses,
        });
        if let Some(body) = self.body {
            self.parameters.push(json!({ "$ref": "#/components/parameters/Own" }));
            document["requestBody"] =
                json!({ "required": false, "content": { "application/json": { "schema": body } } });
        }
        if !self.parameters.is_empty() {
            document["parameters"] = self.parameters.into();
        }
        document
    }
}

fn answer(description: &str, content_type: &str, schema: &Value) -> Value {
    json!({ "description": description, "content": { content_type: { "schema": schema } } })
}

fn json_answer(schema: &Value) -> Value {
    answer("Answered.", "application/json", schema)
}

fn in_path(name: &str, description: &str, kind: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "description": description, "schema": { "type": kind } })
}

fn in_query(name: &str, is_required: bool, description: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "required": is_required, "description": description, "schema": schema })
}

/// The schemas of what is sent and of what is taken.
struct Schemas {
    sent: SchemaGenerator,
    taken: SchemaGenerator,
}

impl Schemas {
    fn new() -> Schemas {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
            })
        };
        Schemas {
            sent: settings().for_serialize().into_generator(),
            taken: settings().for_deserialize().into_generator(),
        }
    }

    fn sent<T: JsonSchema>(&mut self) -> Value {
        self.sent.subschema_for::<T>().to_value()
    }

    fn taken<T: JsonSchema>(&mut self) -> Value {
        self.taken.subschema_for::<T>().to_value()
    }

    fn definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.sent.take_definitions(true);
        definitions.extend(self.taken.take_definitions(true));
        definitions
    }
}

const COUNTS: &str = "For each spectrum, little endian: id u32, revision u64, entries u64, bins u32, bytes u32, then so many bytes of \
     counts: LEB128 numbers, and a zero is followed by the LEB128 length of the run of zeros that it begins. Of a plane, the first \
     axis runs fastest. A spectrum whose revision is the one that was given is left out.";

fn state_and_system(schemas: &mut Schemas) -> Vec<Operation> {
    let object = json!({ "type": "object" });
    let events = "The state as it changes, and each new message, as server-sent events `state` and `message`. A bounded number may \
         watch; one who takes nothing is let go.";
    let text = json!({ "type": "string" });
    let state = json_answer(&schemas.sent::<LiveState>());
    let past = json_answer(&schemas.sent::<Past>());
    let topology = json_answer(&schemas.sent::<Topology>());
    vec![
        Operation::get(
            "/api/state",
            "state",
            "state",
            "The state of the run, at most one update old.",
            state,
        )
        .refuses(&[500]),
        Operation::get(
            "/api/events",
            "events",
            "state",
            events,
            answer(
                "Events; the data of `state` is a LiveState, that of `message` an OperatorMessage.",
                "text/event-stream",
                &text,
            ),
        ),
        Operation::get(
            "/api/history",
            "history",
            "state",
            "Rates and losses of the last time, from before anybody looked, too: ten minutes by second, a day by minute.",
            past,
        )
        .with(in_query("seconds", false, "How far back: 600 unless said otherwise, 86400 at most.", &json!({ "type": "number" })))
        .refuses(&[400]),
        Operation::get(
            "/api/configuration",
            "configuration",
            "system",
            "The configuration, and the plan that follows from it.",
            json_answer(&object),
        ),
        Operation::get(
            "/api/topology",
            "topology",
            "system",
            "Who feeds whom in the run, or in the last one: stages, what they count and hand on, threads, rings, memory.",
            topology,
        )
        .refuses(&[404]),
        Operation::get(
            "/api/system",
            "system",
            "system",
            "The host with checks of what it should be, threads, memory, kernel and network counters.",
            json_answer(&object),
        ),
        Operation::get("/api/openapi.json", "openapi", "system", "This description.", json_answer(&object)),
        Operation::get(
            "/metrics",
            "metrics",
            "system",
            "Metrics.",
            answer("OpenMetrics text.", "application/openmetrics-text", &text),
        ),
    ]
}

fn spectra_operations(schemas: &mut Schemas) -> Vec<Operation> {
    let empty = json_answer(&json!({ "type": "object" }));
    let binary = json!({ "type": "string", "format": "binary" });
    let list = |item: Value| json_answer(&json!({ "type": "array", "items": item }));
    vec![
        Operation::get(
            "/api/spectra",
            "spectra",
            "spectra",
            "Which spectra there are.",
            list(schemas.sent::<spectra::Spectrum>()),
        ),
        Operation::get(
            "/api/spectra/counts",
            "counts",
            "spectra",
            "Counts of some spectra, packed.",
            answer(COUNTS, "application/octet-stream", &binary),
        )
        .with(in_query(
            "ids",
            true,
            "Numbers of spectra, separated by commas; after a number and a colon, the revision that the asker has: `1,2:77`.",
            &json!({ "type": "string" }),
        ))
        .refuses(&[400, 404, 413]),
        Operation::get(
            "/api/spectra/{id}/export",
            "exportSpectrum",
            "spectra",
            "One spectrum for other programs.",
            answer(
                "A histogram as UHI JSON, or a TH1D or TH2D as JSROOT reads it.",
                "application/json",
                &json!({ "type": "object" }),
            ),
        )
        .with(in_path("id", "Number of the spectrum.", "integer"))
        .with(in_query(
            "format",
            false,
            "Which form.",
            &json!({ "type": "string", "enum": ["uhi", "root"], "default": "uhi" }),
        ))
        .refuses(&[400, 404, 413]),
        Operation::post(
            "/api/spectra/reset",
            "resetSpectra",
            "spectra",
            "Empties spectra.",
            schemas.taken::<spectra::Reset>(),
            empty,
        )
        .refuses(&[404]),
    ]
}

fn view_operations(schemas: &mut Schemas) -> Vec<Operation> {
    let applied = json_answer(&schemas.sent::<Applied>());
    let calibrate = "Shows the energies of a channel by this calibration, from the next batch on. What is recorded stays as configured.";
    let cut = "Shows only hits that this cut keeps, in the spectra behind cuts and in coincidence, from the next batch on. What is \
         recorded stays as configured.";
    let revert = "Takes such a change back.";
    [
        ("/api/view/calibrate", "calibrate", calibrate, schemas.taken::<NewCalibration>()),
        ("/api/view/cut", "cut", cut, schemas.taken::<NewCut>()),
        ("/api/view/revert", "revert", revert, schemas.taken::<view::Revert>()),
    ]
    .into_iter()
    .map(|(path, name, summary, body)| {
        Operation::post(path, name, "spectra", summary, body, applied.clone()).refuses(&[409])
    })
    .collect()
}

fn pulse_operations(schemas: &mut Schemas) -> Vec<Operation> {
    let empty = json_answer(&json!({ "type": "object" }));
    let list = |item: Value| json_answer(&json!({ "type": "array", "items": item }));
    vec![
        Operation::get(
            "/api/pulses",
            "pulseChannels",
            "pulses",
            "Channels that have pulses.",
            list(schemas.sent::<PulseChannel>()),
        ),
        Operation::get(
            "/api/pulses/{channel}",
            "pulses",
            "pulses",
            "The latest pulses of a channel, newest first.",
            list(schemas.sent::<PulseTrace>()),
        )
        .with(in_path("channel", "Number of the channel.", "integer"))
        .with(in_query(
            "count",
            false,
            "At most so many.",
            &json!({ "type": "integer", "minimum": 1, "maximum": pulses::MOST, "default": pulses::USUAL }),
        ))
        .refuses(&[400, 404, 409]),
        Operation::post(
            "/api/pulses/filter",
            "filterPulses",
            "pulses",
            "Keeps only pulses for which an expression holds.",
            schemas.taken::<pulses::Filter>(),
            empty,
        )
        .refuses(&[409]),
    ]
}

fn recorded_runs(schemas: &mut Schemas) -> Vec<Operation> {
    let run = schemas.sent::<RecordedRun>();
    let binary = json!({ "type": "string", "format": "binary" });
    let file = |description| answer(description, "application/octet-stream", &binary);
    let name = || in_path("name", "Name of the run, as /api/runs says it.", "string");
    vec![
        Operation::get(
            "/api/runs",
            "runs",
            "runs",
            "The recorded runs, newest first.",
            json_answer(&json!({ "type": "array", "items": run })),
        )
        .refuses(&[409]),
        Operation::get("/api/runs/{name}", "run", "runs", "One run.", json_answer(&run))
            .with(name())
            .refuses(&[404, 409]),
        Operation::get(
            "/api/runs/{name}/files/{file}",
            "runFile",
            "runs",
            "A file of a run, whole or a range of bytes.",
            file("The file."),
        )
        .or_answers(206, file("The range."))
        .with(name())
        .with(in_path("file", "Name of the file, as the run lists it.", "string"))
        .with(json!({
            "name": "range", "in": "header", "required": false, "description": "One range of bytes.",
            "schema": { "type": "string" },
        }))
        .refuses(&[404, 416]),
    ]
}

fn changes_of_runs(schemas: &mut Schemas) -> Vec<Operation> {
    let empty = json_answer(&json!({ "type": "object" }));
    let name = || in_path("name", "Name of the run, as /api/runs says it.", "string");
    vec![
        Operation::post(
            "/api/runs/{name}/comment",
            "comment",
            "runs",
            "Replaces the comment of a run.",
            schemas.taken::<runs::Comment>(),
            empty.clone(),
        )
        .with(name())
        .refuses(&[404, 409]),
        Operation::post(
            "/api/runs/{name}/labels",
            "label",
            "runs",
            "Changes the labels of a run, under way or over.",
            schemas.taken::<runs::NewLabels>(),
            empty.clone(),
        )
        .with(name())
        .refuses(&[404, 409]),
        Operation::post(
            "/api/runs/{name}/notes",
            "addNote",
            "runs",
            "Adds a note to a run, under way or over.",
            schemas.taken::<runs::NewNote>(),
            empty.clone(),
        )
        .with(name())
        .refuses(&[400, 404, 409]),
        Operation::post(
            "/api/runs/{name}/verify",
            "verify",
            "runs",
            "Checks the files of a run against its record.",
            schemas.taken::<runs::Nothing>(),
            empty,
        )
        .with(name())
        .refuses(&[404, 409]),
    ]
}

fn notes_for_next(schemas: &mut Schemas) -> Vec<Operation> {
    let empty = json_answer(&json!({ "type": "object" }));
    let notes = json_answer(&json!({ "type": "array", "items": schemas.sent::<RunNote>() }));
    vec![
        Operation::get(
            "/api/notes/next",
            "notesForNext",
            "runs",
            "The notes that wait for the next run, oldest first.",
            notes,
        )
        .refuses(&[409]),
        Operation::post(
            "/api/notes/next",
            "addNoteForNext",
            "runs",
            "Adds a note for the next run, which takes it when it begins.",
            schemas.taken::<runs::NewNote>(),
            empty,
        )
        .refuses(&[400, 409]),
    ]
}

fn commands(schemas: &mut Schemas) -> Vec<Operation> {
    let state = schemas.sent::<thalweg_data::RunState>();
    let state = json!({ "type": "object", "required": ["state"], "properties": { "state": state } });
    let done = answer("Done; the state after it.", "application/json", &state);
    let start = schemas.taken::<StartRun>();
    let nothing = schemas.taken::<runs::Nothing>();
    let seen = Operation::post(
        "/api/alarms/acknowledge",
        "acknowledge",
        "run",
        "Somebody has seen an alarm that stands: it is shown so until it is cleared.",
        schemas.taken::<control::Seen>(),
        json_answer(&json!({ "type": "object" })),
    )
    .refuses(&[409]);
    [
        ("/api/run/start", "start", "Begins a run.", &start),
        ("/api/run/stop", "stop", "Ends the run; what is in flight is recorded.", &nothing),
        ("/api/run/pause", "pause", "Records nothing until it is resumed.", &nothing),
        ("/api/run/resume", "resume", "Records again.", &nothing),
    ]
    .into_iter()
    .map(|(path, name, summary, body)| {
        Operation::post(path, name, "run", summary, body.clone(), done.clone()).refuses(&[409])
    })
    .chain([seen])
    .collect()
}

/// The whole document.
pub(super) fn document() -> Value {
    let mut schemas = Schemas::new();
    let operations = [
        state_and_system,
        spectra_operations,
        view_operations,
        pulse_operations,
        recorded_runs,
        changes_of_runs,
        notes_for_next,
        commands,
    ];
    let operations: Vec<Operation> = operations.iter().flat_map(|of| of(&mut schemas)).collect();
    let mut paths = Map::new();
    for operation in operations {
        let (path, method) = (operation.path, operation.method);
        paths.entry(path).or_insert_with(|| json!({}))[method] = operation.document();
    }
    let refused = schemas.sent::<RequestRefused>();
    schemas.sent::<OperatorMessage>();
    let definitions = schemas.definitions();
    let tags = ["state", "spectra", "pulses", "runs", "run", "system"].map(|name| json!({ "name": name }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "thalweg",
            "summary": "A run while it goes on, and the runs that were recorded.",
            "description": "Places that change something take POST only, with `content-type: application/json` and the header \
                `x-thalweg: 1`. From other hosts, a token is needed. A refusal is an object with `error` and `advice`.",
            "version": "1",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{}, { "bearer": [] }, { "cookie": [] }, { "query": [] }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": definitions,
            "parameters": {
                "Own": {
                    "name": "x-thalweg", "in": "header", "required": true, "schema": { "type": "string" },
                    "description": "Any value: pages of other sites cannot send it.",
                },
            },
            "responses": { "Refused": answer("Refused, and what to do.", "application/json", &refused) },
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "cookie": {
                    "type": "apiKey", "in": "cookie", "name": "thalweg_8090",
                    "description": "Set by a request with ?token=; the name ends with the port.",
                },
                "query": { "type": "apiKey", "in": "query", "name": "token" },
            },
        },
    })
}
