"""Three tables of people with a label and a protected group: Adult, Default of Credit Card Clients, Bank Marketing.

All are from the UCI Machine Learning Repository. Their peculiarities:

- Adult: rows with a missing value (``?``) are dropped, which leaves 45,222. ``fnlwgt`` is a sampling weight, and
  ``education-num`` repeats ``education``; both are kept as ordinary columns.
- Default: ``ID`` is the number of the row and is not used. The repayment status ``PAY_*`` counts months of delay, but
  its codes -2, -1 and 0 do not: it is categorical, and so are the undocumented codes of EDUCATION and MARRIAGE.
- Bank: ``duration`` is only known after the call, when the answer is known too. It is kept for comparison with
  published results; a model in use would not have it. ``unknown`` is a category; ``pdays`` = 999 means never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hyperfront.errors import DataError
from hyperfront.zoo.data import find, placed
from hyperfront.zoo.data.registry import datafile
from hyperfront.zoo.data.tables import NUMBER, FileSchema, read

Columns = Mapping[str, np.ndarray]


class People(NamedTuple):
    """The rows of a data set, in the order of its files."""

    numbers: np.ndarray
    """``[N, k]`` float64, with the values of the file."""
    categories: np.ndarray
    """``[N, c]`` int64, the codes of each column from 0."""
    label: np.ndarray
    """``[N]`` bool."""
    protected: np.ndarray
    """``[N]`` bool: members of the protected group."""


@dataclass(frozen=True)
class DataSet:
    """The files of a data set, their schema, the label and the protected group."""

    files: tuple[str, ...]
    schema: FileSchema
    label: str
    positive: tuple[str, ...]
    protected: Callable[[Columns], np.ndarray]
    unused: tuple[str, ...] = ()

    @property
    def features(self) -> dict[str, tuple[str, ...]]:
        """The columns to predict from, with their categories."""
        return {name: kinds for name, kinds in self.schema.columns.items() if name not in (self.label, *self.unused)}

    @property
    def numbers(self) -> list[str]:
        return [name for name, kinds in self.features.items() if not kinds]

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        return {name: kinds for name, kinds in self.features.items() if kinds}

    def load(self, data_dir: str | Path | None = None) -> People:
        parts = [self._read(file, data_dir) for file in self.files]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in self.schema.columns}
        positive = [self.schema.code(self.label, category) for category in self.positive]
        return People(
            numbers=np.stack([columns[name] for name in self.numbers], axis=1),
            categories=np.stack([columns[name] for name in self.categories], axis=1),
            label=np.isin(columns[self.label], positive),
            protected=self.protected(columns),
        )

    def _read(self, file: str, data_dir: str | Path | None) -> Columns:
        try:
            return read(find(file, data_dir), self.schema)
        except DataError:
            known = datafile(file)
            most = 2 * (known.plain or known).size  # a file of somebody else may unpack to far more
            for path in placed(file, data_dir):  # errors of the table are more helpful than of the checksum
                read(path, self.schema, most)
            raise


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADULT = DataSet(
    files=("adult/adult.data.gz", "adult/adult.test.gz"),
    schema=FileSchema(
        {
            "age": NUMBER,
            "workclass": _words(
                "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"
            ),
            "fnlwgt": NUMBER,
            "education": _words(
                "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th "
                "10th Doctorate 5th-6th Preschool"
            ),
            "education-num": NUMBER,
            "marital-status": _words(
                "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
            ),
            "occupation": _words(
                "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
                "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv "
                "Armed-Forces"
            ),
            "relationship": _words("Wife Own-child Husband Not-in-family Other-relative Unmarried"),
            "race": _words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
            "sex": _words("Female Male"),
            "capital-gain": NUMBER,
            "capital-loss": NUMBER,
            "hours-per-week": NUMBER,
            "native-country": _words(
                "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan "
                "Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal "
                "Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua "
                "Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands"
            ),
            "income": _words("<=50K >50K <=50K. >50K."),  # adult.test ends its labels with a full stop
        },
        header=False,
        missing="?",
    ),
    label="income",
    positive=(">50K", ">50K."),
    protected=lambda columns: columns["sex"] == ADULT.schema.code("sex", "Female"),
)

_DELAY = _words("-2 -1 0 1 2 3 4 5 6 7 8 9")
_MONTHS = range(1, 7)

DEFAULT = DataSet(
    files=("default_credit/default_of_credit_card_clients.csv.gz",),
    schema=FileSchema(
        {
            "ID": NUMBER,
            "LIMIT_BAL": NUMBER,
            "SEX": _words("1 2"),  # male, female
            "EDUCATION": _words("0 1 2 3 4 5 6"),
            "MARRIAGE": _words("0 1 2 3"),
            "AGE": NUMBER,
            **{f"PAY_{month}": _DELAY for month in (0, 2, 3, 4, 5, 6)},  # there is no PAY_1
            **{f"BILL_AMT{month}": NUMBER for month in _MONTHS},
            **{f"PAY_AMT{month}": NUMBER for month in _MONTHS},
            "default.payment.next.month": _words("0 1"),
        }
    ),
    label="default.payment.next.month",
    positive=("1",),
    protected=lambda columns: columns["SEX"] == DEFAULT.schema.code("SEX", "2"),
    unused=("ID",),
)

BANK = DataSet(
    files=("bank_marketing/bank-additional-full.csv.gz",),
    schema=FileSchema(
        {
            "age": NUMBER,
            "job": _words(
                "admin. blue-collar entrepreneur housemaid management retired self-employed services student "
                "technician unemployed unknown"
            ),
            "marital": _words("divorced married single unknown"),
            "education": _words(
                "basic.4y basic.6y basic.9y high.school illiterate professional.course university.degree unknown"
            ),
            "default": _words("no yes unknown"),
            "housing": _words("no yes unknown"),
            "loan": _words("no yes unknown"),
            "contact": _words("cellular telephone"),
            "month": _words("jan feb mar apr may jun jul aug sep oct nov dec"),
            "day_of_week": _words("mon tue wed thu fri"),
            "duration": NUMBER,
            "campaign": NUMBER,
            "pdays": NUMBER,
            "previous": NUMBER,
            "poutcome": _words("failure nonexistent success"),
            "emp.var.rate": NUMBER,
            "cons.price.idx": NUMBER,
            "cons.conf.idx": NUMBER,
            "euribor3m": NUMBER,
            "nr.employed": NUMBER,
            "y": _words("no yes"),
        },
        separator=";",
    ),
    label="y",
    positive=("yes",),
    protected=lambda columns: (columns["age"] < 25) | (columns["age"] >= 60),
)
