"""Where the official files of the data sets can be had, and what is known of them."""

from dataclasses import dataclass

MOST_BYTES = 1 << 30  # of a file whose size is not known


@dataclass(frozen=True)
class File:
    """A file to fetch. most: bytes, where its size is not known. unpack: "gunzip", "cars", or None for as it is."""

    filename: str
    urls: tuple[str, ...]
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    most: int = MOST_BYTES
    unpack: str | None = None


def _smallnorb(name: str, size: int, sha256: str) -> File:
    url = f"https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/{name}.mat.gz"
    return File(f"{name}.mat.gz", (url,), sha256=sha256, size=size, unpack="gunzip")


def _mpi3d(version: str, second: str) -> File:
    # The published sums are of files at an address that is gone; whether the mirrors have the same bytes is not known.
    name = f"mpi3d_{version}.npz"
    return File(
        name,
        (
            f"https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main/{name}",
            f"https://storage.googleapis.com/mpi3d_disentanglement_dataset/data/{second}",
            f"https://storage.googleapis.com/disentanglement_dataset/Final_Dataset/{name}",
        ),
        most=1 << 34,  # the largest has 12.7 GB
    )


_DSPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
_TRAINING = "smallnorb-5x46789x9x18x6x2x96x96-training"
_TESTING = "smallnorb-5x01235x9x18x6x2x96x96-testing"

SOURCES: dict[str, tuple[File, ...]] = {
    "dsprites": (
        File(
            _DSPRITES,
            (
                f"https://raw.githubusercontent.com/google-deepmind/dsprites-dataset/master/{_DSPRITES}",
                f"https://github.com/google-deepmind/dsprites-dataset/raw/master/{_DSPRITES}",
            ),
            md5="7da33b31b13a06f4b04a70402ce90c2e",
        ),
    ),
    "shapes3d": (
        File(
            "3dshapes.h5",
            (
                "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
                "https://storage.googleapis.com/storage/v1/b/3d-shapes/o/3dshapes.h5?alt=media",
            ),
            sha256="0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
            size=267573662,
        ),
    ),
    "smallnorb": (
        _smallnorb(f"{_TRAINING}-cat", 348, "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa"),
        _smallnorb(f"{_TRAINING}-info", 71052, "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32"),
        _smallnorb(f"{_TRAINING}-dat", 131896188, "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873"),
        _smallnorb(f"{_TESTING}-cat", 347, "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff"),
        _smallnorb(f"{_TESTING}-info", 10428, "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2"),
        _smallnorb(f"{_TESTING}-dat", 130799817, "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474"),
    ),
    "cars3d": (
        File(
            "nips2015-analogy-data.tar.gz",
            (
                "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
                "http://www-personal.umich.edu/~reedscot/files/nips2015-analogy-data.tar.gz",
            ),
            md5="4e866a7919c1beedf53964e6f7a23686",
            unpack="cars",
        ),
    ),
    "mpi3d_toy": (_mpi3d("toy", "mpi3d_toy.npz"),),
    "mpi3d_realistic": (_mpi3d("realistic", "mpi3d_realistic.npz"),),
    "mpi3d_real": (_mpi3d("real", "real.npz"),),
}
