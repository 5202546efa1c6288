"""A data file and a data set: size, checksum, licence, and how to get them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataFile:
    """One file, at ``name`` below a data folder."""

    name: str
    size: int
    sha256: str
    url: str | None = None
    """The address of its publisher."""
    by_hand: str | None = None
    """Instructions to get a file without such an address."""
    plain: DataFile | None = None
    """The file with the same content, uncompressed, if it is published so. Either is accepted."""
    within: str | None = None
    """A larger file that contains it, and is used if it exists."""
    prepared: bool = False
    """True for a file made by ``hyperfront data prepare``, which writes its checksum beside it."""
    needed: bool = True
    """False for a description that no code reads."""

    @property
    def forms(self) -> tuple[DataFile, ...]:
        return (self, self.plain) if self.plain else (self,)

    @property
    def dataset(self) -> str:
        return self.name.partition("/")[0]

    @property
    def home(self) -> DataFile | None:
        """The form of the file that can be downloaded, if any."""
        return next((form for form in self.forms if form.url), None)

    @property
    def instruction(self) -> str:
        """Instructions to get the file, in one line."""
        if self.home:
            return f"download {self.home.url}"
        return self.by_hand or "copy it from a folder that has it"


@dataclass(frozen=True)
class Dataset:
    """A data set: title, licence and files."""

    title: str
    license: str
    files: tuple[DataFile, ...]
