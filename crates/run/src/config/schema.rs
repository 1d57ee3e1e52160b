//! The JSON Schema of the configuration, generated from the types that read it.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{RunSettings, SourceHead};
use thalweg_frontend::FORMATS;
use thalweg_frontend::format::Format;

/// The schema of a whole file: editors that know JSON Schema complete and check configurations with it.
pub fn json_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let section = |schema: schemars::Schema| schema.to_value();
    let run = section(generator.subschema_for::<RunSettings>());
    let order = section(generator.subschema_for::<thalweg_order::Settings>());
    let processing = processing(&mut generator);
    let mut trigger = thalweg_frontend::trigger::Settings::json_schema(&mut generator).to_value();
    let follow = section(generator.subschema_for::<super::FollowTrigger>());
    let enable = section(generator.subschema_for::<thalweg_readout::Switch>());
    if let Some(properties) = trigger.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("follow".to_owned(), follow);
        properties.insert("enable".to_owned(), enable);
    }
    let busy = section(generator.subschema_for::<thalweg_readout::busy::BusySettings>());
    let mut build = thalweg_build::Settings::json_schema(&mut generator).to_value();
    let rules = section(generator.subschema_for::<thalweg_build::unit::Settings>());
    if let Some(properties) = build.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("units".to_owned(), rules);
    }
    let slices = section(generator.subschema_for::<thalweg_build::slices::Settings>());
    let filter = section(generator.subschema_for::<thalweg_analysis::event_filter::Settings>());
    let unit = section(generator.subschema_for::<super::UnitSettings>());
    let threads = section(generator.subschema_for::<super::ThreadSettings>());
    let record = section(generator.subschema_for::<thalweg_record::Settings>());
    let kinds: Vec<Value> = FORMATS.iter().map(|format| source_schema(&mut generator, format)).collect();
    let definitions: Map<String, Value> = generator.take_definitions(true);
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "thalweg configuration",
        "description": "One file from front-end boards to recorded hits and events; the sections follow the data.",
        "type": "object",
        "additionalProperties": false,
        "required": ["source"],
        "properties": {
            "run": run,
            "source": { "type": "array", "minItems": 1, "items": { "oneOf": kinds } },
            "order": order,
            "trigger": trigger,
            "busy": busy,
            "slices": slices,
            "build": build,
            "filter": filter,
            "unit": { "type": "array", "items": unit },
            "threads": threads,
            "record": record,
        },
        "$defs": definitions,
    });
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.extend(processing);
    }
    schema
}

/// Returns the sections for the processing of ordered hits, and for what is shown of a run.
fn processing(generator: &mut SchemaGenerator) -> Map<String, Value> {
    use thalweg_analysis::{channels, clocks, coincide, cut, hit_stage, pulse, spectrum};
    let one = |schema: schemars::Schema| schema.to_value();
    let many = |schema: schemars::Schema| json!({ "type": "array", "items": schema.to_value() });
    let sections = [
        ("channels", one(generator.subschema_for::<channels::Settings>())),
        ("channel", many(generator.subschema_for::<channels::ChannelSettings>())),
        ("clocks", one(generator.subschema_for::<clocks::Settings>())),
        ("stage", many(generator.subschema_for::<hit_stage::Settings>())),
        ("cut", many(generator.subschema_for::<cut::Settings>())),
        ("polygon", many(generator.subschema_for::<cut::polygon::Settings>())),
        ("coincidence", one(generator.subschema_for::<coincide::Settings>())),
        ("spectra", one(generator.subschema_for::<spectrum::Settings>())),
        ("pulses", one(generator.subschema_for::<pulse::Settings>())),
        ("spectrum", many(generator.subschema_for::<spectrum::SpectrumSettings>())),
        ("ship", one(generator.subschema_for::<thalweg_ship::Settings>())),
        ("control", many(generator.subschema_for::<thalweg_readout::DeviceSettings>())),
        ("series", many(generator.subschema_for::<super::SeriesSettings>())),
        ("monitor", one(generator.subschema_for::<thalweg_monitor::Settings>())),
        ("alarm", many(generator.subschema_for::<thalweg_monitor::alarm::Rule>())),
        ("notify", one(generator.subschema_for::<thalweg_monitor::alarm::NotifySettings>())),
        ("unattended", one(generator.subschema_for::<super::Unattended>())),
    ];
    sections.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// One kind of source: the run's keys, the endpoint's and the format's, side by side.
fn source_schema(generator: &mut SchemaGenerator, format: &Format) -> Value {
    let parts = [
        SourceHead::json_schema(generator).to_value(),
        thalweg_readout::Settings::json_schema(generator).to_value(),
        format.schema(generator).to_value(),
    ];
    let mut properties = Map::new();
    let mut required = Vec::new();
    for part in &parts {
        if let Some(map) = part.get("properties").and_then(Value::as_object) {
            properties.extend(map.clone());
        }
        if let Some(list) = part.get("required").and_then(Value::as_array) {
            required.extend(list.iter().cloned());
        }
    }
    properties.insert("format".to_owned(), json!({ "const": format.word }));
    if let Some(emulate) = format.emulate_schema(generator) {
        properties.insert("emulate".to_owned(), emulate.to_value());
    }
    json!({
        "title": format!("source of format \"{format}\""),
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": required,
    })
}

#[cfg(test)]
mod tests {
    use thalweg_data::ledger::Carrier;
    use thalweg_data::{LossReason, PoolError, Stage};
    use thalweg_readout::pool_refusal;
    use thalweg_record::RecordError;
    use thalweg_record::advice::{advice, template};

    use super::json_schema;
    use thalweg_frontend::FORMATS;

    fn advices<A>(each: impl Fn(LossReason, Stage, Carrier) -> A) -> Vec<A> {
        let mut advices = Vec::new();
        for (reason, stage) in
            LossReason::ALL.iter().flat_map(|why| Stage::ALL.iter().map(move |at| (*why, *at)))
        {
            let carriers = [Carrier::Datagrams, Carrier::Stream, Carrier::Unknown];
            advices.extend(carriers.map(|carrier| each(reason, stage, carrier)));
        }
        advices
    }

    fn keys_in(advice: &str) -> impl Iterator<Item = &str> {
        let quoted = advice.split('`').skip(1).step_by(2);
        quoted.map(|quoted| quoted.split(" = ").next().unwrap_or(quoted))
    }

    #[test]
    fn every_key_that_an_advice_names_is_in_the_schema_of_the_format_it_is_given_for() {
        let schema = json_schema();
        let kinds = schema["properties"]["source"]["items"]["oneOf"].as_array().expect("a list of kinds");
        for (format, kind) in FORMATS.iter().zip(kinds) {
            let known = |key: &str| kind["properties"].get(key).is_some();
            for advice in advices(|reason, stage, carrier| advice(reason, stage, carrier, known)) {
                for key in keys_in(&advice) {
                    let found = match key.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
                        None => known(key),
                        Some((section, key)) => {
                            let whole = section.split('.').fold(&schema, |outer, inner| {
                                let section = &outer["properties"][inner];
                                let of_some = section["anyOf"].get(0).unwrap_or(section);
                                let named =
                                    of_some["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
                                named.and_then(|place| schema.pointer(place)).unwrap_or(section)
                            });
                            whole["properties"].get(key).is_some()
                        }
                    };
                    assert!(found, "`{key}` of \"{advice}\" is no key of a source of format \"{format}\"");
                }
                assert!(!advice.contains("dumps"), "nobody keeps any here: {advice}");
            }
        }
    }

    /// Messages of other rooms that name keys.
    fn messages_with_keys() -> Vec<String> {
        let cause = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let (blocks, block_size) = (4, 4096);
        let pool = [
            PoolError::Memory { blocks, block_size, cause: cause() },
            PoolError::HugePages { blocks, block_size, needed: 1, cause: cause() },
            PoolError::Node { node: 1, cause: cause() },
        ];
        let full = RecordError::Full { path: "runs".into() }.to_string();
        pool.iter().map(pool_refusal).chain([full]).collect()
    }

    #[test]
    fn every_key_that_an_advice_or_a_message_names_is_in_the_configuration() {
        let schema = json_schema().to_string();
        let advices = advices(template).into_iter().map(str::to_owned);
        let messages = messages_with_keys();
        assert!(messages.iter().all(|message| message.contains('`')), "{messages:?}");
        for text in advices.chain(messages) {
            // A command of the system is none.
            let is_command =
                |quoted: &str| ["sysctl ", "numactl ", "mbind"].iter().any(|name| quoted.starts_with(name));
            for key in keys_in(&text).filter(|quoted| !is_command(quoted)) {
                for word in key.trim_start_matches('[').split(['.', ']']) {
                    let found = schema.contains(&format!("\"{}\"", word.trim()));
                    assert!(found, "`{word}` of \"{text}\" is no key of the configuration");
                }
            }
        }
    }
}
