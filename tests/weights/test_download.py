"""Downloads from a server on the loopback interface: checked, resumed, mirrored, offline, and refused where unsafe."""

import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator, Mapping

import pytest
from reference.seeded_weights import make_arrays, make_options, write_model
from weights.fuzzing import fuzz
from weights.loopback import Site, serving

import spacy_elmo.weights.origins as fetch
from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.util import hash_file
from spacy_elmo.weights.origins import (
    MAX_REDIRECTS,
    Origin,
    OriginFile,
    SafeRedirects,
    _recorded_names,
    check_url,
    download,
    find_origin,
    open_url,
    read_origins,
    read_record,
)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "published", make_options(), make_arrays(make_options()))


@pytest.fixture
def site(model: Path) -> Iterator[Site]:
    files = {f"elmo/tiny_{name}": (model / name).read_bytes() for name in ("options.json", "weights.hdf5")}
    with serving(Site(files)) as site:
        yield site


@pytest.fixture
def origin(site: Site) -> Origin:
    """A published biLM on the server, without documented checksums."""
    files = [OriginFile(f"elmo/tiny_{name}", name, None, None) for name in ("options.json", "weights.hdf5")]
    return replace(find_origin("small"), name="tiny", n_parameters=None, files=tuple(files), mirrors=(site.address,))


def with_digest(origin: Origin, sha256: str) -> Origin:
    options, weights = origin.files
    return replace(origin, files=(options, replace(weights, sha256=sha256)))


def refuse(url: str, headers: Mapping[str, str]) -> Any:
    raise AssertionError(f"{url} was opened")


@pytest.mark.issue(17)
def test_downloaded_files_load(origin: Origin, site: Site, model: Path, tmp_path: Path) -> None:
    counted: list[int] = []
    files = download(origin, tmp_path / "out", on_bytes=counted.append)
    assert (load_bilm(tmp_path / "out").embed([["a"]])[0] == load_bilm(model).embed([["a"]])[0]).all()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"options.json", "weights.hdf5", "origin.json"}
    assert [file.sha256 for file in files] == [hash_file(model / file.name) for file in files]
    assert sum(counted) == sum(file.n_bytes for file in files)
    assert not any(file.is_documented for file in files)


@pytest.mark.issue(17)
def test_origin_is_recorded_beside_the_files(origin: Origin, site: Site, model: Path, tmp_path: Path) -> None:
    digest = hash_file(model / "weights.hdf5")
    download(with_digest(origin, digest), tmp_path / "out")
    record = read_record(tmp_path / "out")
    assert record and record["name"] == "tiny" and record["licence_source"] == origin.licence_source
    weights = {file["name"]: file for file in record["files"]}["weights.hdf5"]
    assert weights["sha256"] == digest and weights["is_documented"]
    assert weights["url"] == f"{site.address}elmo/tiny_weights.hdf5"
    assert read_record(tmp_path) is None
    (tmp_path / "out" / "origin.json").write_text("[")
    assert read_record(tmp_path / "out") is None


@pytest.mark.issue(17)
@pytest.mark.parametrize("has_ranges", [True, False])
def test_interrupted_download_is_resumed(
    has_ranges: bool, origin: Origin, site: Site, model: Path, tmp_path: Path
) -> None:
    site.has_ranges, site.cuts = has_ranges, [10_000, 1000]
    download(origin, tmp_path / "out")
    assert (tmp_path / "out" / "weights.hdf5").read_bytes() == (model / "weights.hdf5").read_bytes()
    assert [path for path, _ in site.requests].count("elmo/tiny_weights.hdf5") == 2
    assert site.requests[-1][1]["Range"] == "bytes=1000-" and site.requests[-1][1]["If-Range"] == '"1"'


@pytest.mark.issue(17)
def test_a_later_call_continues(origin: Origin, site: Site, model: Path, tmp_path: Path) -> None:
    site.cuts = [10_000, 1000, 0, 0]
    with pytest.raises(ValueError, match="(?s)interrupted after 1,000 of"):
        download(origin, tmp_path / "out")
    assert (tmp_path / "out" / "weights.hdf5.part").stat().st_size == 1000
    assert not (tmp_path / "out" / "weights.hdf5").exists() and not (tmp_path / "out" / "options.json").exists()
    site.requests.clear()
    download(origin, tmp_path / "out")
    assert [headers.get("Range") for _, headers in site.requests] == ["bytes=1000-"]
    assert (tmp_path / "out" / "weights.hdf5").read_bytes() == (model / "weights.hdf5").read_bytes()


@pytest.mark.issue(17)
def test_a_mirror_without_the_file_does_not_cost_what_is_there(
    origin: Origin, site: Site, model: Path, tmp_path: Path
) -> None:
    origin = replace(origin, mirrors=(*origin.mirrors, f"{site.address}gone/"))
    site.cuts = [10_000, 1000, 0, 0]
    with pytest.raises(ValueError, match="(?s)interrupted after 1,000 of.*status 404"):
        download(origin, tmp_path / "out")
    assert (tmp_path / "out" / "weights.hdf5.part").stat().st_size == 1000
    download(origin, tmp_path / "out")
    assert site.requests[-1][1]["Range"] == "bytes=1000-"
    assert (tmp_path / "out" / "weights.hdf5").read_bytes() == (model / "weights.hdf5").read_bytes()


@pytest.mark.issue(17)
def test_a_file_that_became_shorter_is_downloaded_again(
    origin: Origin, site: Site, model: Path, tmp_path: Path
) -> None:
    site.cuts = [10_000, 1000, 0, 0]
    with pytest.raises(ValueError, match="Check the connection and run the command"):
        download(origin, tmp_path / "out")
    site.statuses = [416]
    download(origin, tmp_path / "out")
    assert [headers.get("Range") for _, headers in site.requests[-2:]] == ["bytes=1000-", None]
    assert (tmp_path / "out" / "weights.hdf5").read_bytes() == (model / "weights.hdf5").read_bytes()


@pytest.mark.issue(17)
@pytest.mark.parametrize("tag", ['"2"', None])
def test_another_version_is_not_appended(tag: str, origin: Origin, site: Site, model: Path, tmp_path: Path) -> None:
    site.cuts = [10_000, 1000, 0, 0]
    with pytest.raises(ValueError, match="Check the connection and run the command"):
        download(origin, tmp_path / "out")
    site.tag = tag
    site.files["elmo/tiny_weights.hdf5"] = changed = (model / "weights.hdf5").read_bytes() + b"more"
    download(origin, tmp_path / "out")
    assert (tmp_path / "out" / "weights.hdf5").read_bytes() == changed


@pytest.mark.issue(17)
def test_file_without_a_version_is_downloaded_again(origin: Origin, site: Site, tmp_path: Path) -> None:
    site.cuts, site.tag = [10_000, 1000], None
    download(origin, tmp_path / "out")
    assert all("Range" not in headers for _, headers in site.requests) and len(site.requests) == 3


@pytest.mark.issue(17)
@pytest.mark.parametrize("status", [404, 403, 410])
def test_the_second_mirror_is_tried(status: int, origin: Origin, site: Site, tmp_path: Path) -> None:
    site.statuses = [status]
    origin = replace(origin, mirrors=(f"{site.address}gone/", *origin.mirrors))
    files = download(origin, tmp_path / "out")
    assert [path for path, _ in site.requests][:2] == ["gone/elmo/tiny_options.json", "elmo/tiny_options.json"]
    assert all("gone" not in file.url for file in files)


@pytest.mark.issue(17)
def test_all_mirrors_are_named_if_none_has_the_file(origin: Origin, site: Site, tmp_path: Path) -> None:
    site.files.clear()
    origin = replace(origin, mirrors=(*origin.mirrors, "http://127.0.0.1:9/"))
    with pytest.raises(ValueError, match="(?s)tiny_options.json: status 404.*127.0.0.1:9.*no connection"):
        download(origin, tmp_path / "out")
    assert sum(path == "elmo/tiny_options.json" for path, _ in site.requests) == 1, "404 is final"


@pytest.mark.issue(17)
def test_a_server_error_is_tried_again(origin: Origin, site: Site, tmp_path: Path) -> None:
    site.statuses = [503, 500]
    download(origin, tmp_path / "out")
    assert [path for path, _ in site.requests].count("elmo/tiny_options.json") == 3


@pytest.mark.issue(17)
def test_given_mirror_is_tried_first_by_published_name(origin: Origin, site: Site, tmp_path: Path) -> None:
    for name in ("options.json", "weights.hdf5"):
        site.files[f"mine/tiny_{name}"] = site.files[f"elmo/tiny_{name}"]
    files = download(origin, tmp_path / "out", mirrors=[f"{site.address}mine"])
    assert all(file.url.startswith(f"{site.address}mine/tiny_") for file in files)


@pytest.mark.issue(17)
def test_wrong_checksum_is_refused(origin: Origin, site: Site, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="(?s)should have 00"):
        download(with_digest(origin, "00" * 32), tmp_path / "out")
    assert not (tmp_path / "out" / "weights.hdf5").exists()
    assert not (tmp_path / "out" / "weights.hdf5.part").exists(), "a wrong file is not continued"


@pytest.mark.issue(17)
def test_web_page_instead_of_the_file_is_refused(origin: Origin, site: Site, tmp_path: Path) -> None:
    site.files["elmo/tiny_weights.hdf5"] = b"<html>Sign in</html>"
    with pytest.raises(ValueError, match="(?s)<html>"):
        download(origin, tmp_path / "out")


@pytest.mark.issue(17)
@pytest.mark.parametrize("is_announced", [True, False])
def test_size_has_a_limit(
    is_announced: bool, origin: Origin, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MAX_FILE_BYTES", 2000)

    def open_without_length(url: str, headers: Mapping[str, str]) -> Any:
        reply: Any = open_url(url, headers)
        if not is_announced:
            del reply.headers["Content-Length"]
        return reply

    text = "should have at most 2,000" if is_announced else "sent more than 2,000"
    with pytest.raises(ValueError, match=f"(?s){text}"):
        download(origin, tmp_path / "out", opener=open_without_length)


@pytest.mark.issue(17)
def test_local_files_are_put_in_place_without_a_connection(origin: Origin, model: Path, tmp_path: Path) -> None:
    files = download(origin, tmp_path / "out", given=[model], opener=refuse)
    assert [file.url for file in files] == [str(model / "options.json"), str(model / "weights.hdf5")]
    load_bilm(tmp_path / "out")
    (model / "weights.hdf5").rename(model / "mine.hdf5")
    download(origin, tmp_path / "b", given=[model / "mine.hdf5", model / "options.json"], opener=refuse)
    with pytest.raises(ValueError, match="(?s)tiny_weights.hdf5 is missing"):
        download(origin, tmp_path / "c", given=[model / "options.json"], opener=refuse)
    (model / "yours.hdf5").write_bytes(b"")
    with pytest.raises(ValueError, match="(?s)may be any of .*mine.hdf5, .*yours.hdf5"):
        download(origin, tmp_path / "c", given=[model], opener=refuse)
    assert not (tmp_path / "c").exists()


@pytest.mark.issue(17)
def test_local_files_are_checked(origin: Origin, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="Download it again, or from another"):
        download(with_digest(origin, "00" * 32), tmp_path / "out", given=[model], opener=refuse)
    monkeypatch.setattr(fetch, "MAX_FILE_BYTES", 2000)
    with pytest.raises(ValueError, match="should have at most 2,000"):
        download(origin, tmp_path / "out", given=[model], opener=refuse)


@pytest.mark.issue(17)
def test_nothing_is_overwritten_without_force(origin: Origin, model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("keep")
    with pytest.raises(ValueError, match="EL025"):
        download(origin, tmp_path / "out", given=[model], opener=refuse)
    download(origin, tmp_path / "out", given=[model], force=True, opener=refuse)
    assert (tmp_path / "out" / "notes.txt").is_file()
    with pytest.raises(ValueError, match="EL025"):
        download(origin, tmp_path / "out" / "notes.txt", given=[model], force=True, opener=refuse)


@pytest.mark.issue(17)
def test_force_deletes_no_model_from_elsewhere(origin: Origin, model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("config.json", "vocab.txt", "model.tar.gz"):
        (tmp_path / "out" / name).write_text(name)
    with pytest.raises(ValueError, match="EL372.*config.json, model.tar.gz, vocab.txt"):
        download(origin, tmp_path / "out", given=[model], force=True, opener=refuse)
    assert {file.name: file.read_text() for file in (tmp_path / "out").iterdir()} == {
        name: name for name in ("config.json", "vocab.txt", "model.tar.gz")
    }


@pytest.mark.issue(17)
def test_files_of_another_model_do_not_stay(origin: Origin, model: Path, tmp_path: Path) -> None:
    save_bilm(load_bilm(model), tmp_path / "out")
    (tmp_path / "out" / "144.zip").write_bytes(b"PK")
    (tmp_path / "out" / "notes.txt").write_text("keep")
    record = {"files": [{"name": "144.zip"}, {"name": "../published/options.json"}, {"name": 3}, 4]}
    (tmp_path / "out" / "origin.json").write_text(json.dumps(record))
    download(origin, tmp_path / "out", given=[model], force=True, opener=refuse)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"options.json", "weights.hdf5", "origin.json", "notes.txt"}
    assert (model / "options.json").is_file()


@pytest.mark.issue(17)
@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/x", "data:text/plain,x", "/etc/passwd", "http:///x", "http://[x", ""]
)
def test_only_web_addresses_are_opened(url: str, origin: Origin, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Pass another address, or fetch the file by other"):
        check_url(url)
    with pytest.raises(ValueError, match="Pass another address, or fetch the file by other"):
        open_url(url, {})
    with pytest.raises(ValueError, match="Pass another address, or fetch the file by other"):
        download(origin, tmp_path / "out", mirrors=[url], opener=refuse)
    assert not (tmp_path / "out").exists()


@pytest.mark.issue(17)
@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirects_leave_the_web_never(target: str, origin: Origin, site: Site, tmp_path: Path) -> None:
    site.redirects["elmo/tiny_options.json"] = target
    with pytest.raises(ValueError, match="Check the connection and run the command"):
        download(origin, tmp_path / "out")
    assert not (tmp_path / "out" / "options.json").exists()


@pytest.mark.issue(17)
def test_redirects_are_limited(origin: Origin, site: Site, tmp_path: Path) -> None:
    content = site.files.pop("elmo/tiny_options.json")
    site.redirects = {f"r{i}": f"/r{i + 1}" for i in range(MAX_REDIRECTS + 2)}
    site.redirects["elmo/tiny_options.json"] = "/r0"
    with pytest.raises(ValueError, match="(?s)too many redirects"):
        download(origin, tmp_path / "out")
    assert len(site.requests) <= MAX_REDIRECTS + 1
    del site.redirects["r2"]
    site.files["r2"] = content
    download(origin, tmp_path / "out")


@pytest.mark.issue(17)
def test_redirect_from_https_to_http_is_refused() -> None:
    request = urllib.request.Request("https://host/file")
    with pytest.raises(ValueError, match="https.*not encrypted"):
        SafeRedirects().redirect_request(request, None, 302, "Found", {}, "http://host/file")
    assert SafeRedirects().redirect_request(request, None, 302, "Found", {}, "https://other/file") is not None


@pytest.mark.issue(17)
def test_registry_has_the_names_of_flair_and_all_languages() -> None:
    assert {"small", "medium", "original", "large", "pt", "pubmed"} <= {origin.name for origin in read_origins()}
    assert len([origin for origin in read_origins() if origin.name.startswith("manylangs-")]) == 44
    assert find_origin("5.5B").name == "large" and find_origin("nlpl-142").name == "manylangs-de"


@pytest.mark.issue(17)
def test_registry_is_consistent() -> None:
    names = [name for origin in read_origins() for name in (origin.name, *origin.aliases)]
    assert len(names) == len(set(names))
    for origin in read_origins():
        assert origin.mirrors and origin.files and origin.language and check_url(origin.documented)
        assert all(check_url(mirror).endswith("/") for mirror in origin.mirrors)
        for file in origin.files:
            assert Path(file.name).name == file.name and ".." not in file.path and not file.path.startswith("/")
            assert file.sha256 is None or len(file.sha256) == 64


@pytest.mark.issue(17)
def test_any_number_of_nlpl_is_known() -> None:
    assert [file.path for file in find_origin("nlpl-999").files] == ["999.zip"]
    assert find_origin("nlpl-999").mirrors[0] == "http://vectors.nlpl.eu/repository/20/"
    for name in ("nlpl-", "nlpl-../1", "smal", ""):
        with pytest.raises(ValueError, match="NUMBER is any entry of the NLPL"):
            find_origin(name)
    with pytest.raises(ValueError, match=r"'smal' in the registry\. Similar names: .*small"):
        find_origin("smal")
    with pytest.raises(ValueError, match=r"'zzz' in the registry\. Some names: small, medium"):
        find_origin("zzz")


@pytest.mark.issue(17)
def test_damaged_record_is_never_an_error(origin: Origin, model: Path, tmp_path: Path) -> None:
    download(origin, tmp_path / "out", given=[model], opener=refuse)
    assert fuzz(_recorded_names, tmp_path / "out", tmp_path / "out" / "origin.json", n=300) == 0


@pytest.mark.issue(39)
def test_a_second_download_into_the_same_folder_waits(origin: Origin, site: Site, model: Path, tmp_path: Path) -> None:
    def open_meanwhile(url: str, headers: Mapping[str, str]) -> Any:
        with pytest.raises(ValueError, match="Another process writes"):
            download(origin, tmp_path / "out")
        return open_url(url, headers)

    download(origin, tmp_path / "out", opener=open_meanwhile)
    assert (tmp_path / "out" / "weights.hdf5").read_bytes() == (model / "weights.hdf5").read_bytes()
