"""Which file system opens a URI: schemes, settings and what errors say."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any
from unittest import mock

import fsspec
import pytest

from culm.errors import ConfigError
from culm.spark.reading.inputs import plan
from culm.spark.storage import filesystems, located, said, settings_here
from culm.spark.storage.filesystems import filesystem

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def refused(uri: str) -> str:
    """What is said of a URI that cannot be read."""
    with pytest.raises(ConfigError) as error:
        plan([uri])
    assert str(error.value).startswith(f"{uri}: ")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_fsspec_opens_what_arrow_does_not() -> None:
    """A scheme that only fsspec knows is listed and read."""
    system = fsspec.filesystem("memory")
    system.pipe({"/culm/a/one": b"1", "/culm/two": b"22", "/culm/_no": b""})
    (location,) = located(["memory://culm"])
    found = list(location.listed())
    assert [("memory://culm/a/one", 1), ("memory://culm/two", 2)] == [(one.location.uri, one.size) for one in found]
    with found[1].location.open() as stream:
        assert b"22" == stream.read()


def test_what_is_missing_for_a_scheme_is_said() -> None:
    """An unknown scheme, a missing package and a missing fsspec are each an error that says what to do."""
    real = builtins.__import__

    def without_fsspec(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "fsspec":
            raise ModuleNotFoundError("No module named 'fsspec'", name="fsspec")
        return real(name, *args, **kwargs)

    assert "no file system is known for zzz://; known are abfs" in refused("zzz://a/b")
    with mock.patch("fsspec.get_filesystem_class", side_effect=ImportError("Please install adlfs")):
        assert "a package for adl:// is missing: Please install adlfs" in refused("adl://a/b")
    with mock.patch("builtins.__import__", without_fsspec):
        assert 'adl:// needs fsspec: pip install "culm[remote]"' in refused("adl://a/b")


@pytest.mark.slow
def test_a_server_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong address is an error that names the settings for it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert "cannot be reached" in (text := refused("s3a://bucket/key"))
    assert "fs.s3a.endpoint or AWS_ENDPOINT_URL" in text


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("When listing: AWS Error ACCESS_DENIED during ListObjectsV2", "no permission; check the keys"),
        ("AWS Error UNKNOWN (HTTP status 403) during HeadObject", "no permission; check the keys"),
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2", "there is no such bucket"),
        ("Unable to load libhdfs: cannot open", "set HADOOP_HOME"),
        ("something\nelse", "cannot be read: something"),
    ],
)
def test_errors_say_what_to_do(text: str, meant: str) -> None:
    """Errors of a file system become one line with the URI and what can be done."""
    with pytest.raises(ConfigError, match=f"^s3://b/k: .*{meant}"), said("s3://b/k"):
        raise OSError(text)


def test_settings_of_hadoop_open_buckets(s3: tuple[str, FileSystem], monkeypatch: pytest.MonkeyPatch) -> None:
    """Hadoop's names are understood, those of a single bucket win, and locations do not show what they hold."""
    uri, system = s3
    server = settings_here()
    with system.open_output_stream(f"{uri[6:]}/file") as stream:
        stream.write(b"content")
    for name in filesystems._OF_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    given = {f"fs.s3a.bucket.{uri[6:]}.{name[7:]}": value for name, value in server}
    given |= {"fs.s3a.endpoint": "http://127.0.0.1:1", "fs.s3a.access.key": "other", "fs.s3a.threads.max": "1"}
    (location,) = located([f"{uri}/file"], given)
    with location.open() as stream:
        assert b"content" == stream.read()
    assert "fs.s3a.threads.max" not in dict(location.settings)
    assert "secret" not in repr(location)


def test_settings_of_the_session_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark's session says of S3 wins over the environment; Hadoop's defaults do not."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://one")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")
    session = {"fs.s3a.access.key": "of the session", "fs.s3a.path.style.access": "false", "fs.s3a.endpoint": ""}
    with mock.patch.object(filesystems, "_of_session", return_value=session):
        found = dict(settings_here())
    assert ("of the session", "http://one", "true") == (
        found["fs.s3a.access.key"],
        found["fs.s3a.endpoint"],
        found["fs.s3a.path.style.access"],
    )


def test_a_key_opens_an_azure_account() -> None:
    """A URI of Azure names a container and an account, whose key Hadoop's settings have."""
    setting = ("fs.azure.account.key.account.dfs.core.windows.net", "a2V5")
    system, path = filesystem("abfss://box@account.dfs.core.windows.net/a/b", (setting,))
    assert ("abfs", "box/a/b") == (system.type_name, path)
