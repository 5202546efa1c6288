"""The data sets: every file with its size, SHA-256, licence and origin."""

from __future__ import annotations

from hyperfront.errors import unknown_name
from hyperfront.zoo.data.datafile import DataFile, Dataset


def _idx(folder: str, home: str, files: dict[str, tuple[int, str]]) -> tuple[DataFile, ...]:
    return tuple(DataFile(f"{folder}/{name}", *known, url=home + name) for name, known in files.items())


_UCI = "https://archive.ics.uci.edu"
_ADULT = _UCI + "/ml/machine-learning-databases/adult/"
_BANK = f"download data set 222 from {_UCI}/dataset/222/bank+marketing, unpack bank-additional.zip inside it and take "
_DEFAULT = (
    f"download data set 350 from {_UCI}/dataset/350/default+of+credit+card+clients and convert its sheet: "
    "pandas.read_excel(FILE, header=1).rename(columns={'default payment next month': 'default.payment.next.month'})"
    ".to_csv('default_of_credit_card_clients.csv', index=False, quoting=csv.QUOTE_NONNUMERIC)"
)
_NYUV2 = (
    "download nyu_depth_v2_labeled.mat and splits.mat from https://cs.nyu.edu/~fergus/datasets/nyu_depth_v2.html, put "
    "classMapping40.mat of the code of Gupta et al. (2014, 'Learning rich features from RGB-D images') beside them, "
    "and run hyperfront data prepare nyuv2 nyu_depth_v2_labeled.mat --out FOLDER with the data folder"
)
_ACS = (
    "run pip download --no-deps nannyml==0.13.1, and hyperfront data prepare acs nannyml-0.13.1-py3-none-any.whl --out "
    "FOLDER with the data folder"
)

DATASETS: dict[str, Dataset] = {
    "mnist": Dataset(
        "MNIST, handwritten digits: 60,000 + 10,000 images",
        "CC BY-SA 3.0",
        _idx(
            "mnist",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            {
                "train-images-idx3-ubyte.gz": (
                    9_912_422,
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                "train-labels-idx1-ubyte.gz": (
                    28_881,
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                "t10k-images-idx3-ubyte.gz": (
                    1_648_877,
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                "t10k-labels-idx1-ubyte.gz": (
                    4_542,
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            },
        ),
    ),
    "fashion_mnist": Dataset(
        "Fashion-MNIST, clothing: 60,000 + 10,000 images",
        "MIT",
        _idx(
            "fashion_mnist",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            {
                "train-images-idx3-ubyte.gz": (
                    26_421_880,
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                ),
                "train-labels-idx1-ubyte.gz": (
                    29_515,
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                ),
                "t10k-images-idx3-ubyte.gz": (
                    4_422_102,
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                ),
                "t10k-labels-idx1-ubyte.gz": (
                    5_148,
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            },
        ),
    ),
    "adult": Dataset(
        "Adult (census income): 48,842 people",
        "CC BY 4.0",
        (
            DataFile(
                "adult/adult.data.gz",
                408_969,
                "c7a2b4716a97f930123e0baf879188d701e798172631a654fc703d4b082907f3",
                plain=DataFile(
                    "adult/adult.data",
                    3_974_305,
                    "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                    url=_ADULT + "adult.data",
                ),
            ),
            DataFile(
                "adult/adult.test.gz",
                205_254,
                "8a2c1bffa6e7ce5abfa43881ae5e87c4311ebc2b3cd526c9c40a43f19f06f799",
                plain=DataFile(
                    "adult/adult.test",
                    2_003_153,
                    "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
                    url=_ADULT + "adult.test",
                ),
            ),
            DataFile(
                "adult/adult.names",
                5_229,
                "c248284c0b5de30c9e1958d6cdd168a34a654758b620e68f46aefa83fc0a576a",
                by_hand=f"download data set 2 from {_UCI}/dataset/2/adult and take adult.names",
                needed=False,
            ),
        ),
    ),
    "default_credit": Dataset(
        "Default of credit card clients: 30,000 people",
        "CC BY 4.0",
        (
            DataFile(
                "default_credit/default_of_credit_card_clients.csv.gz",
                979_921,
                "3b1c8e69fc71fb19229d8d3dedeeaf70012b7706bee03b534a33a6ba32a78394",
                by_hand=_DEFAULT,
                plain=DataFile(
                    "default_credit/default_of_credit_card_clients.csv",
                    2_862_995,
                    "a0f0ab49d6326671d6cd83be5c88dcf18007025fe9a53ecd699119c871176ca1",
                    by_hand=_DEFAULT,
                ),
            ),
        ),
    ),
    "bank_marketing": Dataset(
        "Bank marketing: 41,188 calls",
        "CC BY 4.0",
        (
            DataFile(
                "bank_marketing/bank-additional-full.csv.gz",
                353_533,
                "25ef5a7f820659c9010405d079b068761b9e4a75c232a6271ee6a77fc3de52ae",
                by_hand=_BANK + "bank-additional-full.csv",
                plain=DataFile(
                    "bank_marketing/bank-additional-full.csv",
                    5_834_924,
                    "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
                    by_hand=_BANK + "bank-additional-full.csv",
                ),
            ),
            DataFile(
                "bank_marketing/bank-additional-names.txt",
                5_458,
                "10045462a4c026f858dffa159370c4270510230c1fc63c6c91ca51bba4b3df26",
                by_hand=_BANK + "bank-additional-names.txt",
                needed=False,
            ),
        ),
    ),
    "acs": Dataset(
        "ACS employment in Massachusetts, 2015 to 2018: 277,677 people",
        "public domain (US Census Bureau); packed in nannyml, Apache 2.0",
        (
            DataFile(
                "acs/employment.csv.gz",
                1_369_924,
                "bd95dab015a6ca5b27e676fe6f6878466a593971b6848816466ec695cb069023",
                by_hand=_ACS,
                plain=DataFile(
                    "acs/employment.csv",
                    11_356_462,
                    "0c9ef6dfdc508092da61e1bf879d7da2eadd6ed89c2817945ce2ba1f20447fed",
                    by_hand=_ACS,
                ),
                prepared=True,
            ),
        ),
    ),
    "sarcos": Dataset(
        "SARCOS robot arm, inverse dynamics: 4,449 rows of the test file, 21,571 of the training file",
        "none stated; published for research",
        (
            DataFile(
                "sarcos/sarcos_inv_test.mat",
                996_776,
                "161a59b5c3b4f4b404584323f181607b2acbe620eb134dc720760dc3f38f5cec",
                url="http://www.gaussianprocess.org/gpml/data/sarcos_inv_test.mat",
            ),
            DataFile(
                "sarcos/sarcos_inv_subset.npz",
                3_410_378,
                "c1906f71a929c0df626de6ce2042904b18588ed863a4a330fb16b1cf23cb0fd9",
                by_hand="copy it from a folder that has it; or put the whole training file, sarcos_inv.mat of "
                "http://www.gaussianprocess.org/gpml/data/, beside sarcos_inv_test.mat: it is used instead",
                within="sarcos/sarcos_inv.mat",
            ),
        ),
    ),
    "nyuv2": Dataset(
        "NYU Depth V2, the labelled set: 1,449 images",
        "none stated; published for research, to be cited",
        (
            DataFile(
                "nyuv2/nyuv2_288x384.npz",
                63_252_107,
                "30bd980969dd562a51ca6734d96890570acfb7109ab47b712469cc2a32e30425",
                by_hand=_NYUV2,
                prepared=True,
            ),
            DataFile(
                "nyuv2/nyuv2_144x192.npz",
                25_656_003,
                "ee3a1f98becd1b63160a39577a83d538df333b94bba432a7727952e85c97d145",
                by_hand=_NYUV2,
                prepared=True,
            ),
        ),
    ),
}


def dataset(name: str) -> Dataset:
    """Find the data set of that name, or raise an error that suggests the nearest name."""
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    return DATASETS[name]


def datafile(name: str) -> DataFile:
    """The file of that name.

    >>> datafile("mnist/t10k-labels-idx1-ubyte.gz").size
    4542
    """
    files = {file.name: file for file in dataset(name.partition("/")[0]).files}
    if name not in files:
        raise unknown_name("data file", name, files)
    return files[name]
