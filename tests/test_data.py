"""Data files: found where they are, fetched where they are published, refused when they are not what they should be."""

from __future__ import annotations

import gzip
import hashlib
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

import hyperfront.zoo.data
from hyperfront.apps.cli import main
from hyperfront.errors import DataError, HyperfrontError
from hyperfront.problem.registry import build
from hyperfront.zoo.data import download, find, read
from hyperfront.zoo.data.checksums import note
from hyperfront.zoo.data.datafile import DataFile, Dataset
from hyperfront.zoo.data.idx import parse
from hyperfront.zoo.data.registry import DATASETS, datafile
from tests.helpers.data import DATA

CONTENT = bytes(range(256)) * 1000


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves ``content``, or its part that a Range header asks for, and remembers what it was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.ranges, self.cut, self.ignores_ranges = CONTENT, [], None, False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = None if self.server.ignores_ranges else self.headers["Range"]
        self.server.ranges.append(self.headers["Range"])
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        body = self.server.content[start:]
        self.send_response((206 if asked else 200) if self.path == "/file.bin" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cut])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    """No folder is named, and the cache is empty."""
    monkeypatch.delenv("HYPERFRONT_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    for module in ("hyperfront.zoo.data", "hyperfront.apps.cli.data"):
        monkeypatch.setattr(f"{module}.cache", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def toy(server, monkeypatch) -> DataFile:
    """A file whose home is the server."""
    file = DataFile("toy/file.bin", len(CONTENT), sha256(CONTENT), url=server.url)
    monkeypatch.setitem(DATASETS, "toy", Dataset("a toy", "none", (file,)))
    return file


# ---- download --------------------------------------------------------------------------------------------------------


def test_a_file_is_fetched_once_into_the_cache(toy, server, cache):
    assert find(toy.name) == find(toy.name) == cache / toy.name
    assert (cache / toy.name).read_bytes() == CONTENT
    assert server.ranges == [None]
    assert [path.name for path in (cache / "toy").iterdir()] == ["file.bin"]


def test_a_download_that_was_cut_goes_on_where_it_stopped(toy, server, cache):
    server.cut = 2 * download.BLOCK
    with pytest.raises(DataError, match="continues where it stopped"):
        find(toy.name)
    assert not (cache / toy.name).exists()
    server.cut = None
    assert find(toy.name).read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={2 * download.BLOCK}-"]


def test_a_server_that_cannot_resume_sends_all_of_it_again(toy, server):
    server.cut, server.ignores_ranges = 100_000, True
    with pytest.raises(DataError):
        find(toy.name)
    server.cut = None
    assert find(toy.name).read_bytes() == CONTENT


def test_a_download_that_was_complete_but_not_yet_in_place_is_not_fetched_again(toy, server, cache):
    (cache / "toy").mkdir(parents=True)
    (cache / "toy" / "file.bin.part").write_bytes(CONTENT)
    assert find(toy.name).read_bytes() == CONTENT
    assert not server.ranges


def test_a_wrong_file_is_refused_with_both_checksums_and_leaves_nothing_behind(toy, server, cache):
    server.content = b"x" + CONTENT[1:]
    with pytest.raises(DataError) as refused:
        find(toy.name)
    assert toy.sha256 in str(refused.value) and sha256(server.content) in str(refused.value)
    assert not list((cache / "toy").iterdir())
    server.content = CONTENT
    assert find(toy.name).read_bytes() == CONTENT


def test_what_is_no_longer_there_or_never_answers_is_said_with_where_to_put_the_file(toy, server, cache, monkeypatch):
    gone = DataFile(toy.name, toy.size, toy.sha256, url=server.url + "x")
    silent = DataFile(toy.name, toy.size, toy.sha256, url="http://127.0.0.1:9/file.bin")
    for file, reason in ((gone, "404"), (silent, "refused")):
        monkeypatch.setitem(DATASETS, "toy", Dataset("a toy", "none", (file,)))
        with pytest.raises(DataError, match=reason) as error:
            find(toy.name)
        assert file.url in str(error.value) and str(cache / toy.name) in str(error.value)


def test_without_pooch_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r"hyperfront\[data\]"):
        download.cache()


# ---- a folder of the user's ------------------------------------------------------------------------------------------


def test_a_named_folder_is_used_offline(toy, server, tmp_path, monkeypatch):
    with pytest.raises(DataError, match="missing") as error:
        find(toy.name, tmp_path)
    assert str(tmp_path / toy.name) in str(error.value) and server.url in str(error.value)
    monkeypatch.setenv("HYPERFRONT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="no folder"):
        find(toy.name)
    assert not server.ranges


def test_the_argument_goes_before_the_environment_before_the_cache(toy, tmp_path, monkeypatch):
    for folder in ("argument", "environment", "cache"):
        (tmp_path / folder / "toy").mkdir(parents=True)
        (tmp_path / folder / toy.name).write_bytes(CONTENT)
    assert find(toy.name) == tmp_path / "cache" / toy.name
    monkeypatch.setenv("HYPERFRONT_DATA", str(tmp_path / "environment"))
    assert find(toy.name) == tmp_path / "environment" / toy.name
    assert find(toy.name, tmp_path / "argument") == tmp_path / "argument" / toy.name


@pytest.mark.parametrize("content", [CONTENT[:-1], b"x" + CONTENT[1:], b""])
def test_a_truncated_or_altered_file_is_refused_with_both_checksums_even_if_it_was_right_before(toy, tmp_path, content):
    path = tmp_path / toy.name
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    assert find(toy.name, tmp_path) == path
    path.write_bytes(content)
    with pytest.raises(DataError, match=str(path)) as error:
        find(toy.name, tmp_path)
    assert sha256(content) in str(error.value) and toy.sha256 in str(error.value)
    assert f"{len(content):,} bytes" in error.value.got


def test_unknown_names_get_the_nearest_known_one():
    with pytest.raises(HyperfrontError, match=r"unknown data set 'minst'[\s\S]*did you mean 'mnist'"):
        find("minst/train-images-idx3-ubyte.gz")
    with pytest.raises(HyperfrontError, match=r"unknown data file[\s\S]*did you mean 'mnist/train-images"):
        find("mnist/train-image-idx3-ubyte.gz")


def test_a_prepared_file_is_held_to_the_checksum_that_was_noted_when_it_was_made(tmp_path):
    file = datafile("nyuv2/nyuv2_144x192.npz")
    path = tmp_path / file.name
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    with pytest.raises(DataError, match=file.sha256):
        find(file.name, tmp_path)
    note(path)
    assert find(file.name, tmp_path) == path
    path.write_bytes(CONTENT[1:])
    with pytest.raises(DataError, match=f"{sha256(CONTENT)}, as noted beside it"):
        find(file.name, tmp_path)


@pytest.mark.parametrize(
    "data", [b"", b"\x1f\x8b\x08\x00", bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2]), bytes([0, 0, 13, 1, 0, 0, 0, 0])]
)
def test_what_is_no_idx_file_of_bytes_is_refused(data):
    with pytest.raises(DataError, match="IDX"):
        parse(data)


# ---- the real files --------------------------------------------------------------------------------------------------


@pytest.mark.data
def test_every_file_of_a_data_set_that_is_there_is_known_and_as_it_should_be():
    files = [file for known in DATASETS.values() for file in known.files if (DATA / file.name).parent.is_dir()]
    for file in files:
        path = find(file.name, DATA)
        assert path.stat().st_size == file.size
    there = {str(path.relative_to(DATA)) for path in DATA.glob("*/*") if path.suffix not in (".sha256", ".part")}
    assert there <= {form.name for file in files for form in file.forms}


@pytest.mark.data
def test_files_that_are_published_uncompressed_are_taken_so(tmp_path):
    published = {  # MD5 sums that the UCI files are known by
        "adult/adult.data": "5d7c39d7b8804f071cdd1f2a7c460872",
        "adult/adult.test": "35238206dfdf7f1fe215bbb874adecdc",
        "bank_marketing/bank-additional-full.csv": "f6cb2c1256ffe2836b36df321f46e92c",
    }
    for name, md5 in (published | {"default_credit/default_of_credit_card_clients.csv": None}).items():
        packed = find(f"{name}.gz", DATA)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(gzip.decompress(packed.read_bytes()))
        path = find(f"{name}.gz", tmp_path)
        assert path == tmp_path / name
        assert read(path) == read(packed)
        assert md5 in (None, hashlib.md5(read(path)).hexdigest())
    for problem in ("adult", "default", "bank"):  # not only found: the same rows
        plain, packed = (build(problem, data_dir=folder).val.source.batches(8, "cpu") for folder in (tmp_path, DATA))
        for ours, theirs in zip(next(iter(plain)), next(iter(packed)), strict=True):
            assert torch.equal(ours, theirs)


# ---- the command line ------------------------------------------------------------------------------------------------


def run(capsys, *words: object, code: int = 0) -> str:
    try:
        main(["data", *map(str, words)])
        found = 0
    except SystemExit as end:
        found = end.code
    text = capsys.readouterr()
    assert found == code, text
    return text.out + text.err


def test_fetch_then_list_and_check_find_it(toy, server, capsys, tmp_path):
    assert "missing  toy/file.bin" in run(capsys, "list", "--data-dir", tmp_path)
    assert "fetched  toy/file.bin" in run(capsys, "fetch", "toy", "--data-dir", tmp_path)
    assert "found    toy/file.bin" in run(capsys, "fetch", "toy", "--data-dir", tmp_path)
    assert len(server.ranges) == 1
    assert "found    toy/file.bin" in run(capsys, "list", "--data-dir", tmp_path)
    assert "ok       toy/file.bin" in run(capsys, "check", "--data-dir", tmp_path)
    (tmp_path / toy.name).write_bytes(CONTENT[1:])
    text = run(capsys, "check", "--data-dir", tmp_path, code=1)
    assert "damaged  toy/file.bin" in text and toy.sha256 in text


def test_list_says_how_to_get_what_is_missing(capsys, tmp_path):
    text = run(capsys, "list", "--data-dir", tmp_path)
    for name, known in DATASETS.items():
        assert name in text and known.license in text
        for file in known.files:
            way = f"hyperfront data fetch {name}" if file.home else file.instruction
            assert f"missing  {file.name}" in text and (way in text or not file.needed)


def test_what_has_no_public_home_comes_with_instructions(capsys, tmp_path):
    text = run(capsys, "fetch", "bank_marketing", "--data-dir", tmp_path, code=1)
    assert str(tmp_path / "bank_marketing/bank-additional-full.csv") in text and "dataset/222" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "adullt"], "did you mean 'adult'"),
        (["check", "--data-dir", "/nowhere"], "no data sets in the folder"),
        (["fetch"], "nothing to fetch"),
        (["prepare", "nyuv2", "/nowhere.mat"], "nyu_depth_v2_labeled.mat"),
    ],
)
def test_mistakes_get_an_answer(words, message, capsys):
    assert message in run(capsys, *words, code=2)


def test_what_is_prepared_is_found_afterwards(capsys, tmp_path, monkeypatch):
    def prepare(file: Path, folder: Path) -> list[Path]:
        path = folder / "nyuv2" / "nyuv2_144x192.npz"
        path.write_bytes(file.read_bytes())
        return [path]

    maker = types.ModuleType("hyperfront.zoo.data.nyuv2")
    maker.prepare = prepare
    monkeypatch.setitem(sys.modules, maker.__name__, maker)
    monkeypatch.setattr(hyperfront.zoo.data, "nyuv2", maker, raising=False)
    (tmp_path / "official.mat").write_bytes(CONTENT)
    text = run(capsys, "prepare", "nyuv2", tmp_path / "official.mat", "--out", tmp_path / "data")
    assert "nyuv2_144x192.npz" in text
    assert read(find("nyuv2/nyuv2_144x192.npz", tmp_path / "data")) == CONTENT
