"""ACS employment: 277,677 people in Massachusetts, and whether each is employed.

Answers to the American Community Survey of the US Census Bureau, 2015 to 2018, in the columns of the task *employment*
of Ding et al. (2021, "Retiring Adult"). The files are three tables in Parquet inside the wheel of the Python package
``nannyml``; :func:`prepare` reads them from the wheel, which need not be installed, and writes one compressed CSV.

- ``SEX`` is 1 (male) or 2 (female). The codes of the other columns are those of the survey; 0 means "does not apply".
- ``AGEP`` is the age, 0 to 95. Children are rows too, and hardly ever employed.
- ``year`` is the year of the survey. It is kept in the file and not used as an input.
- The row numbers, and the predictions of a model of that package, are left out.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from pathlib import Path

from hyperfront.errors import DataError
from hyperfront.zoo.data.people import DataSet
from hyperfront.zoo.data.registry import datafile
from hyperfront.zoo.data.tables import NUMBER, FileSchema

NAME = "acs/employment.csv.gz"
PARTS = {
    "reference": "21d0e33655666071bde9ed21bf35b24fe14c1476e3dd37a5194b827ad5a570e4",
    "analysis": "591328bcf7e46139660f2cc6b1705a6f2f66edf2418ce2a893cf2892be3f66a7",
    "analysis_target": "c306840f0c092bda7608a09e61e7e715ac2b7fb2d17da8062900c3ecd6fdbe30",
}
"""The tables in the wheel, with their SHA-256: 2015, the later years, and the labels of the later years."""


def _codes(first: int, last: int) -> tuple[str, ...]:
    return tuple(str(code) for code in range(first, last + 1))


ACS = DataSet(
    files=(NAME,),
    schema=FileSchema(
        {
            "AGEP": NUMBER,
            "SCHL": _codes(0, 24),  # schooling
            "MAR": _codes(1, 5),  # marital status
            "RELP": _codes(0, 17),  # relationship
            "DIS": _codes(1, 2),  # disability
            "ESP": _codes(0, 8),  # employment of the parents
            "CIT": _codes(1, 5),  # citizenship
            "MIG": _codes(0, 3),  # whether the person has moved
            "MIL": _codes(0, 4),  # military service
            "ANC": _codes(1, 4),  # ancestry
            "NATIVITY": _codes(1, 2),
            "DEAR": _codes(1, 2),
            "DEYE": _codes(1, 2),
            "DREM": _codes(0, 2),
            "SEX": _codes(1, 2),
            "RAC1P": _codes(1, 9),
            "year": _codes(2015, 2018),
            "employed": _codes(0, 1),
        }
    ),
    label="employed",
    positive=("1",),
    protected=lambda columns: columns["SEX"] == ACS.schema.code("SEX", "2"),
    unused=("year",),
)


def prepare(wheel: Path, folder: Path) -> list[Path]:
    """Make ``acs/employment.csv.gz`` in the data folder from the wheel of ``nannyml``, and return its path."""
    try:
        import pyarrow
        from pyarrow import csv, parquet
    except ImportError:
        raise DataError("reading a Parquet file needs pyarrow", fix="pip install 'hyperfront[data]'") from None
    first, later, labels = (parquet.read_table(io.BytesIO(_content(wheel, part))) for part in PARTS)
    later = later.append_column("employed", labels["employed"])  # the checksums fix the order of rows
    names = list(ACS.schema.columns)
    whole = pyarrow.concat_tables([table.select(names) for table in (first, later)])
    kinds = [(name, pyarrow.int64() if name == "AGEP" else pyarrow.string()) for name in names]
    whole = whole.cast(pyarrow.schema(kinds))
    text = io.BytesIO(",".join(names).encode() + b"\n")
    text.seek(0, io.SEEK_END)
    csv.write_csv(whole, text, csv.WriteOptions(include_header=False, quoting_style="none"))
    path = folder / NAME
    path.write_bytes(gzip.compress(text.getvalue(), mtime=0))
    return [path]


def _content(wheel: Path, part: str) -> bytes:
    """The bytes of a table in the wheel."""
    name = f"nannyml/datasets/data/employment_MA_{part}.pq"
    try:
        content = zipfile.ZipFile(wheel).read(name)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise DataError("a wheel cannot be read", got=f"{wheel}: {error}", fix=datafile(NAME).instruction) from None
    found = hashlib.sha256(content).hexdigest()
    if found != PARTS[part]:
        raise DataError(
            f"{name} in {wheel} is another file than expected",
            got=f"SHA-256 {found}",
            expected=f"SHA-256 {PARTS[part]}",
            fix=datafile(NAME).instruction,
        )
    return content
