"""Answers that no good store gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from reference.uploading import upload_bytes, upload_file

from atompack_torch import CorruptFileError
from atompack_torch.remote import listing
from atompack_torch.remote.client import RemoteStore
from atompack_torch.remote.listing import list_objects, parse_xml
from atompack_torch.remote.objects import MIN_PART_BYTES

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class Answer:
    """What RemoteStore.request returns."""

    def __init__(
        self,
        body: str = "",
        status: int = 200,
        headers: dict[str, str] | None = None,
        n_attempts: int = 1,
    ) -> None:
        self.body, self.status, self.n_attempts = body.encode(), status, n_attempts
        self.headers = list((headers or {}).items())

    def check(self, url: str) -> None:
        if self.status >= 300:
            raise OSError(5, str(self.status), url)


class Scripted:
    """Stands in for a RemoteStore."""

    def __init__(self, answer: Callable[..., Answer]) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer

    def request(self, method: str, url: str, **others: Any) -> Answer:
        self.calls.append((method, others))
        return self._answer(method, **others)


def store(answer: Callable[..., Answer]) -> RemoteStore:
    return cast(RemoteStore, Scripted(answer))


def page(content: str) -> str:
    return f"<?xml version='1.0'?><ListBucketResult {NAMESPACE}>{content}</ListBucketResult>"


def test_pages_are_joined_and_keys_decoded() -> None:
    def answer(method: str, query: list[tuple[str, str]], **_: Any) -> Answer:
        token = dict(query).get("continuation-token")
        key = "a%2Bb+c" if token is None else "%C3%A9"
        more = "true</IsTruncated><NextContinuationToken>t/=" if token is None else "false"
        end = "</NextContinuationToken>" if token is None else "</IsTruncated>"
        item = f'<Contents><Key>p/{key}</Key><Size>3</Size><ETag>"e"</ETag></Contents>'
        return Answer(page(f"<EncodingType>url</EncodingType>{item}<IsTruncated>{more}{end}"))

    found = list(list_objects(store(answer), "s3://b/p/"))
    assert [o.url for o in found] == ["s3://b/p/a+b c", "s3://b/p/\u00e9"]
    assert (found[0].size, found[0].etag) == (3, '"e"')


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("not xml", "expected XML"),
        ("<Other/>", "expected <ListBucketResult>, got <Other>"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><ListBucketResult/>", "without declarations"),
        (page("<Contents><Key>a</Key></Contents>"), "a key and a size"),
        (page("<Contents><Key>a</Key><Size>-1</Size></Contents>"), "a key and a size"),
        (page("<Contents><Size>1</Size></Contents>"), "a key and a size"),
        (page("<IsTruncated>true</IsTruncated>"), "another page"),
        (
            page("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
            "another page",
        ),
    ],
)
def test_damaged_listings_are_errors(body: str, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        list(list_objects(store(lambda *_, **__: Answer(body)), "s3://b/p"))


@pytest.mark.parametrize(
    ("tokens", "has_keys", "message"),
    [
        (itertools.cycle("ab"), True, "another page, got none or an old one"),
        (map(str, itertools.count()), True, "at most 20 pages"),
        (map(str, itertools.count()), False, "5 empty ones"),
    ],
)
def test_listings_that_never_end(
    monkeypatch: pytest.MonkeyPatch, tokens: Iterator[str], has_keys: bool, message: str
) -> None:
    monkeypatch.setattr(listing, "_MAX_PAGES", 20)
    monkeypatch.setattr(listing, "_MAX_EMPTY_PAGES", 5)
    key = "<Contents><Key>p/a</Key><Size>3</Size></Contents>" if has_keys else ""

    def answer(*_: object, **__: object) -> Answer:
        token = f"<NextContinuationToken>{next(tokens)}</NextContinuationToken>"
        return Answer(page(f"{key}<IsTruncated>true</IsTruncated>{token}"))

    with pytest.raises(CorruptFileError, match=rf"s3://b/p/: a listing: .*{message}"):
        list(list_objects(store(answer), "s3://b/p/"))


def test_namespaces_are_dropped() -> None:
    assert parse_xml(page("<A>1</A>").encode(), "u", "ListBucketResult").findtext("A") == "1"


def test_a_lost_answer_is_not_a_conflict() -> None:
    """The object was made by an attempt whose response did not arrive."""

    def answer(is_own: bool) -> Callable[..., Answer]:
        marks: list[str] = []

        def of(method: str, headers: Any = (), **_: Any) -> Answer:
            if method == "HEAD":
                return Answer(headers={"x-amz-meta-upload": marks[0] if is_own else "other"})
            marks.append(dict(headers)["x-amz-meta-upload"])
            return Answer(status=412, n_attempts=2)

        return of

    upload_bytes(store(answer(True)), "s3://b/k", b"", overwrite=False)
    with pytest.raises(FileExistsError):
        upload_bytes(store(answer(False)), "s3://b/k", b"", overwrite=False)
    with pytest.raises(FileExistsError):
        upload_bytes(store(lambda *_, **__: Answer(status=412)), "s3://b/k", b"", overwrite=False)


def test_failed_joins_are_errors_and_aborted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(MIN_PART_BYTES + 1))

    def answer(method: str, query: list[tuple[str, str]], **_: Any) -> Answer:
        if ("uploads", "") in query:
            result = "InitiateMultipartUploadResult"
            return Answer(f"<{result}><UploadId>7</UploadId></{result}>")
        if method == "POST":
            return Answer("<Error><Code>InternalError</Code><Message>later</Message></Error>")
        return Answer(headers={"etag": '"e"'})

    scripted = Scripted(answer)
    with pytest.raises(OSError, match="not joined, InternalError: later"):
        upload_file(cast(RemoteStore, scripted), "s3://b/k", path, part_bytes=MIN_PART_BYTES)
    assert scripted.calls[-1] == ("DELETE", {"query": [("uploadId", "7")]})
    parts = [others["file"][1:] for method, others in scripted.calls if method == "PUT"]
    assert sorted(parts) == [(0, MIN_PART_BYTES), (MIN_PART_BYTES, 1)]
