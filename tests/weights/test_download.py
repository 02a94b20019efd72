"""Downloads from a server on the loopback interface: checked, resumed, mirrored, offline, and refused where unsafe."""

import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator, List, Mapping, Optional

import pytest
from reference.seeded_weights import make_arrays, make_options, write_model
from weights.loopback import Site, serving

import spacy_elmo.weights.download as fetch
from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.files import hash_file
from spacy_elmo.weights.download import SafeRedirects, download, open_url
from spacy_elmo.weights.meta import read_record
from spacy_elmo.weights.published import Published, PublishedFile, find_published


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> List[float]:
    """Seconds before each further try, which a test does not wait."""
    waits: List[float] = []
    monkeypatch.setattr(fetch, "time", SimpleNamespace(sleep=waits.append))
    return waits


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "published", make_options(), make_arrays(make_options()))


@pytest.fixture
def site(model: Path) -> Iterator[Site]:
    files = {f"elmo/tiny_{name}": (model / name).read_bytes() for name in ("options.json", "weights.hdf5")}
    with serving(Site(files)) as site:
        yield site


@pytest.fixture
def published(site: Site) -> Published:
    """A published biLM on the server, without documented checksums."""
    files = [PublishedFile(f"elmo/tiny_{name}", name, None, None) for name in ("options.json", "weights.hdf5")]
    return replace(find_published("small"), name="tiny", n_parameters=None, files=tuple(files), mirrors=(site.address,))


def with_weights(published: Published, **known: Any) -> Published:
    options, weights = published.files
    return replace(published, files=(options, replace(weights, **known)))


def refuse(url: str, headers: Mapping[str, str]) -> Any:
    raise AssertionError(f"{url} was opened")


def test_downloaded_files_load_with_a_record_of_their_origin(
    published: Published, site: Site, model: Path, tmp_path: Path
) -> None:
    counted: list[int] = []
    digests = {name: hash_file(model / name) for name in ("options.json", "weights.hdf5")}
    published = with_weights(published, sha256=digests["weights.hdf5"])
    files = download(published, tmp_path / "out", on_bytes=counted.append)
    assert (load_bilm(tmp_path / "out").embed([["a"]])[0] == load_bilm(model).embed([["a"]])[0]).all()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"options.json", "weights.hdf5", "origin.json"}
    assert {file.name: (file.sha256, file.is_documented) for file in files} == {
        name: (digest, name == "weights.hdf5") for name, digest in digests.items()
    }
    assert sum(counted) == sum(file.n_bytes for file in files)
    record = read_record(tmp_path / "out")
    assert record and record["name"] == "tiny" and record["licence_source"] == published.licence_source
    weights = {file["name"]: file for file in record["files"]}["weights.hdf5"]
    assert (weights["sha256"], weights["is_documented"]) == (digests["weights.hdf5"], True)
    assert weights["url"] == f"{site.address}elmo/tiny_weights.hdf5"


@pytest.mark.issue(48)
def test_a_download_keeps_its_language_licence_and_paper_in_what_is_made_of_it(
    published: Published, model: Path, tmp_path: Path
) -> None:
    stated = replace(published, name="tiny", language="nb", licence="CC BY 4.0", paper="A paper")
    download(stated, tmp_path / "out", local_files=[model])
    for path in (tmp_path / "out", tmp_path / "out" / "weights.hdf5"):
        save_bilm(load_bilm(path), tmp_path / "native", force=True)
        meta = load_bilm(tmp_path / "native").meta
        facts = {
            "name": "tiny",
            "lang": "nb",
            "license": "CC BY 4.0",
            "paper": "A paper",
            "source": published.documented,
        }
        assert facts.items() <= meta.items()
    write_model(tmp_path / "out", make_options(), make_arrays(make_options()))
    (tmp_path / "out" / "weights.hdf5").rename(tmp_path / "out" / "mine.hdf5")
    assert "license" not in load_bilm(tmp_path / "out" / "mine.hdf5").meta, "it was not downloaded"


@pytest.mark.parametrize("has_ranges", [True, False])
def test_interrupted_download_is_resumed(
    has_ranges: bool, published: Published, site: Site, model: Path, tmp_path: Path
) -> None:
    site.has_ranges, site.cuts = has_ranges, [10_000, 1000]
    download(published, tmp_path / "out")
    assert (tmp_path / "out" / "weights.hdf5").read_bytes() == (model / "weights.hdf5").read_bytes()
    assert [path for path, _ in site.requests].count("elmo/tiny_weights.hdf5") == 2
    assert site.requests[-1][1]["Range"] == "bytes=1000-" and site.requests[-1][1]["If-Range"] == '"1"'


@pytest.mark.parametrize(
    "statuses, tag, ranges",
    [
        ([], '"1"', ["bytes=1000-"]),
        ([404], '"1"', [None, None, "bytes=1000-"]),  # of a mirror without the file
        ([416], '"1"', ["bytes=1000-", None]),  # the file became shorter
        ([], '"2"', ["bytes=1000-"]),  # another version, which is not appended
    ],
)
def test_a_later_call_continues_the_same_version(
    statuses: List[int], tag: str, ranges: List[Optional[str]], published: Published, site: Site, tmp_path: Path
) -> None:
    site.cuts = [10_000, 1000, 0, 0]
    with pytest.raises(ValueError, match="(?s)interrupted after 1,000 of.*Check the connection and run the command"):
        download(published, tmp_path / "out")
    assert (tmp_path / "out" / "weights.hdf5.part").stat().st_size == 1000
    assert not (tmp_path / "out" / "weights.hdf5").exists() and not (tmp_path / "out" / "options.json").exists()
    site.requests.clear()
    site.statuses, site.tag = statuses, tag
    if tag != '"1"':  # another version, of which the bytes that are there are none
        content = site.files["elmo/tiny_weights.hdf5"]
        site.files["elmo/tiny_weights.hdf5"] = content[:500] + bytes([content[500] ^ 1]) + content[501:]
    mirrors = (f"{site.address}gone/", *published.mirrors) if statuses == [404] else published.mirrors
    download(replace(published, mirrors=mirrors), tmp_path / "out")
    assert [headers.get("Range") for _, headers in site.requests] == ranges
    assert (tmp_path / "out" / "weights.hdf5").read_bytes() == site.files["elmo/tiny_weights.hdf5"]


@pytest.mark.parametrize("tag", [None, 'W/"1"'])
def test_without_a_strong_etag_a_download_starts_again(
    tag: Optional[str], published: Published, site: Site, tmp_path: Path
) -> None:
    site.cuts, site.tag = [10_000, 1000, 0, 0], tag
    with pytest.raises(ValueError, match="(?s)interrupted after 0 of"):
        download(published, tmp_path / "out")
    site.requests.clear()
    site.cuts = []
    download(published, tmp_path / "out")
    assert [headers.get("Range") for _, headers in site.requests][-1] is None
    assert (tmp_path / "out" / "weights.hdf5").read_bytes() == site.files["elmo/tiny_weights.hdf5"]


def test_mirrors_are_tried_in_turn_a_given_one_first(
    published: Published, site: Site, waits: List[float], tmp_path: Path
) -> None:
    site.statuses = [404, 503, 429]  # a server that fails or is busy is tried again after a while
    files = download(published, tmp_path / "out", mirrors=[f"{site.address}mine"])
    assert waits == [1.0, 2.0]
    names = [path for path, _ in site.requests]
    assert names[:4] == ["mine/tiny_options.json"] + ["elmo/tiny_options.json"] * 3
    assert all("mine" not in file.url for file in files)
    site.files.clear()
    site.requests.clear()
    published = replace(published, mirrors=(*published.mirrors, "http://127.0.0.1:9/"))
    with pytest.raises(ValueError, match="(?s)tiny_options.json: status 404.*127.0.0.1:9.*no connection"):
        download(published, tmp_path / "b")
    assert sum(path == "elmo/tiny_options.json" for path, _ in site.requests) == 1, "404 is final"


@pytest.mark.parametrize("is_given", [True, False])
@pytest.mark.parametrize("fault", ["checksum", "size", "web page"])
def test_another_file_is_refused_and_not_continued(
    fault: str,
    is_given: bool,
    published: Published,
    site: Site,
    model: Path,
    tmp_path: Path,
) -> None:
    n_bytes = (model / "weights.hdf5").stat().st_size
    text = f"has {n_bytes:,} bytes, but should have {n_bytes + 1:,}"
    if fault == "checksum":
        published, text = with_weights(published, sha256="00" * 32), "should have 00"
    elif fault == "size":
        published = with_weights(published, n_bytes=n_bytes + 1)
    else:
        site.files["elmo/tiny_weights.hdf5"] = b"<html>Sign in</html>"
        (model / "weights.hdf5").write_bytes(b"<html>Sign in</html>")
        text = "<html>"
    given, opener = ([model], refuse) if is_given else ([], open_url)
    with pytest.raises(ValueError, match=f"(?s){text}"):
        download(published, tmp_path / "out", local_files=given, opener=opener)
    assert not (tmp_path / "out" / "weights.hdf5").exists()
    assert not (tmp_path / "out" / "weights.hdf5.part").exists()


def test_local_files_are_put_in_place_without_a_connection(published: Published, model: Path, tmp_path: Path) -> None:
    files = download(published, tmp_path / "out", local_files=[model], opener=refuse)
    assert [file.url for file in files] == [str(model / "options.json"), str(model / "weights.hdf5")]
    load_bilm(tmp_path / "out")
    (model / "weights.hdf5").rename(model / "mine.hdf5")
    download(published, tmp_path / "b", local_files=[model / "mine.hdf5", model / "options.json"], opener=refuse)
    with pytest.raises(ValueError, match="(?s)tiny_weights.hdf5 is missing"):
        download(published, tmp_path / "c", local_files=[model / "options.json"], opener=refuse)
    (model / "yours.hdf5").write_bytes(b"")
    with pytest.raises(ValueError, match="(?s)may be any of .*mine.hdf5, .*yours.hdf5"):
        download(published, tmp_path / "c", local_files=[model], opener=refuse)
    assert not (tmp_path / "c").exists()


def test_nothing_is_overwritten_without_force(published: Published, model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("keep")
    with pytest.raises(ValueError, match="EL025"):
        download(published, tmp_path / "out", local_files=[model], opener=refuse)
    download(published, tmp_path / "out", local_files=[model], force=True, opener=refuse)
    assert (tmp_path / "out" / "notes.txt").is_file()
    with pytest.raises(ValueError, match="EL025"):
        download(published, tmp_path / "out" / "notes.txt", local_files=[model], force=True, opener=refuse)


def test_files_of_another_model_do_not_stay(published: Published, model: Path, tmp_path: Path) -> None:
    save_bilm(load_bilm(model), tmp_path / "out")
    (tmp_path / "out" / "144.zip").write_bytes(b"PK")
    (tmp_path / "out" / "notes.txt").write_text("keep")
    record = {"files": [{"name": "144.zip"}, {"name": "../published/options.json"}, {"name": 3}, 4]}
    (tmp_path / "out" / "origin.json").write_text(json.dumps(record))
    download(published, tmp_path / "out", local_files=[model], force=True, opener=refuse)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"options.json", "weights.hdf5", "origin.json", "notes.txt"}
    assert (model / "options.json").is_file()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "/etc/passwd", "http:///x", "http://[x", ""])
def test_only_web_addresses_are_opened(url: str, published: Published, tmp_path: Path) -> None:
    for open_it in (
        lambda: open_url(url, {}),
        lambda: download(published, tmp_path / "out", mirrors=[url], opener=refuse),
    ):
        with pytest.raises(ValueError, match="Pass another address, or fetch the file by other"):
            open_it()
    assert not (tmp_path / "out").exists()


def test_redirects_lead_neither_off_the_web_nor_from_https_to_http(
    published: Published, site: Site, tmp_path: Path
) -> None:
    site.redirects["elmo/tiny_options.json"] = "file:///etc/passwd"
    with pytest.raises(ValueError, match="Check the connection and run the command"):
        download(published, tmp_path / "out")
    assert not (tmp_path / "out" / "options.json").exists()
    request = urllib.request.Request("https://host/file")
    with pytest.raises(ValueError, match="https.*not encrypted"):
        SafeRedirects().redirect_request(request, None, 302, "Found", {}, "http://host/file")
    assert SafeRedirects().redirect_request(request, None, 302, "Found", {}, "https://other/file") is not None


def test_a_second_download_into_the_same_folder_waits(
    published: Published, site: Site, model: Path, tmp_path: Path
) -> None:
    def open_meanwhile(url: str, headers: Mapping[str, str]) -> Any:
        with pytest.raises(ValueError, match="Another process writes"):
            download(published, tmp_path / "out")
        return open_url(url, headers)

    download(published, tmp_path / "out", opener=open_meanwhile)
    assert (tmp_path / "out" / "weights.hdf5").read_bytes() == (model / "weights.hdf5").read_bytes()
