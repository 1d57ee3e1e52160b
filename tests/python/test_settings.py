"""The published JSON Schema describes what the program reads: examples pass, mistakes do not."""

import json
import subprocess
import tomllib

import jsonschema
import pytest
from conftest import BINARY, ROOT

# Networks are read by `predict` and boards by `emulate`, whose tests have them.
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*.toml") if path.parent.name not in {"networks", "boards"})


@pytest.fixture(scope="module")
def validator():
    """The schema as the binary prints it."""
    schema = json.loads(subprocess.run([BINARY, "schema"], capture_output=True, check=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid(validator, example):
    errors = list(validator.iter_errors(tomllib.loads(example.read_text())))
    assert not errors, errors


@pytest.mark.parametrize("change", [
    lambda text: text.replace("[record]", "[recrod]"),
    lambda text: text.replace("compression = ", "compresion = "),
    lambda text: text.replace('"lz4"', '"gzip"'),
    lambda text: text.replace("format = ", "fromat = "),
])
def test_mistakes_are_not(validator, change):
    text = (ROOT / "examples" / "two-boards.toml").read_text()
    assert change(text) != text
    assert not validator.is_valid(tomllib.loads(change(text)))
