"""Opens a run's tables with pyarrow, polars and DuckDB and compares what they see.

    python3 open_with_stock_readers.py RUN_DIRECTORY

Prints one JSON object: rows per table and reader. Ends with 1 when a reader fails or two disagree. Readers that are
not installed are left out and named.
"""

import glob
import hashlib
import importlib
import json
import os
import sys


def summary(columns, rows):
    """Rows, and a digest of every value, column by column, as Python sees them."""
    digest = hashlib.sha256()
    for column in columns:
        for value in column:
            digest.update(repr(value).encode())
    return {"rows": rows, "digest": digest.hexdigest()[:16]}


def with_pyarrow(path):
    import pyarrow as pa

    with pa.OSFile(path, "rb") as source:
        table = pa.ipc.open_stream(source).read_all()
    table.validate(full=True)
    return summary((column.to_pylist() for column in table.columns), table.num_rows)


def with_polars(path):
    import polars as pl

    frame = pl.read_ipc_stream(path)
    return summary((column.to_list() for column in frame.get_columns()), frame.height)


def with_duckdb(path):
    """DuckDB scans Arrow streams that pyarrow opens: the way its own documentation shows."""
    import duckdb
    import pyarrow as pa

    with pa.OSFile(path, "rb") as source:
        rows_of_table = pa.ipc.open_stream(source)
        connection = duckdb.connect()
        connection.register("rows_of_table", rows_of_table)
        rows = connection.execute("select * from rows_of_table").fetchall()
    return summary(zip(*rows), len(rows))


READERS = {"pyarrow": with_pyarrow, "polars": with_polars, "duckdb": with_duckdb}


def main(directory):
    report = {"run_directory": directory, "missing_readers": [], "tables": {}}
    readers = {}
    for name, read in READERS.items():
        try:
            importlib.import_module(name)
            readers[name] = read
        except ImportError:
            report["missing_readers"].append(name)
    agree = True
    for path in sorted(glob.glob(os.path.join(directory, "*.arrows"))):
        seen = {}
        for name, read in readers.items():
            try:
                seen[name] = read(path)
            except Exception as error:  # any failure of a reader is a finding
                seen[name] = {"error": f"{type(error).__name__}: {error}"}
        agree &= not any("error" in result for result in seen.values())
        agree &= len({result.get("rows") for result in seen.values()}) <= 1
        agree &= len({result["digest"] for result in seen.values() if "digest" in result}) <= 1
        report["tables"][os.path.basename(path)] = seen
    report["ok"] = agree and bool(readers) and bool(report["tables"])
    print(json.dumps(report, indent=2))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
