"""Which file system a URI needs, and with which settings.

pyarrow brings S3, GCS, Azure and HDFS. Any other scheme is left to fsspec, if that is installed. Settings have the
names that Hadoop gives them (``fs.s3a.endpoint``), because a cluster that runs Spark mostly has them already. What
Hadoop does not set comes from the environment (``AWS_ENDPOINT_URL``). The driver gathers both and sends them along with
the work, so that a worker needs no settings of its own. Without any, a worker uses the rights of its machine.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache

from pyarrow import fs
from pyspark.sql import SparkSession

from culm.errors import ConfigError, CulmError

Settings = tuple[tuple[str, str], ...]
"""Settings by Hadoop's names, sorted. They may hold secrets: never print them."""

_S3 = {"s3", "s3a", "s3n"}
_ARROW = {"gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfss", "hdfs": "hdfs", "viewfs": "viewfs"}

# The settings of Hadoop that matter here. The others would only be copied into every task.
_KNOWN = re.compile(
    r"fs\.s3a\.(bucket\.[^.]+(\.[^.]+)*\.)?"
    r"(endpoint|endpoint\.region|access\.key|secret\.key|session\.token|path\.style\.access|connection\.ssl\.enabled)"
    r"|fs\.azure\.account\.key\..+"
)
_OF_ENVIRONMENT = {
    "AWS_ENDPOINT_URL": "fs.s3a.endpoint",
    "AWS_ENDPOINT_URL_S3": "fs.s3a.endpoint",
    "AWS_DEFAULT_REGION": "fs.s3a.endpoint.region",
    "AWS_REGION": "fs.s3a.endpoint.region",
    "AWS_ACCESS_KEY_ID": "fs.s3a.access.key",
    "AWS_SECRET_ACCESS_KEY": "fs.s3a.secret.key",
    "AWS_SESSION_TOKEN": "fs.s3a.session.token",
}

# Seconds until a server counts as unreachable, and attempts. With Arrow's defaults a wrong address costs a minute.
_CONNECT_SECONDS, _ATTEMPTS = 5, 3

# What the text of an error means for a user, who is told what to do rather than the name of a method of the server.
_MEANINGS = {
    r"NO_SUCH_BUCKET|[Bb]ucket.*(not found|does not exist)": "there is no such bucket",
    r"ACCESS_DENIED|SIGNATURE_DOES_NOT_MATCH|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|HTTP (status )?40[13]\b": "no"
    " permission; check the keys (for S3: fs.s3a.access.key and fs.s3a.secret.key in Spark's configuration, or"
    " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)",
    r"NETWORK_CONNECTION|[Cc]ouldn't (connect|resolve)|[Cc]onnection (refused|timed out)|resolve host": "its server"
    " cannot be reached; check the network and the address (for S3: fs.s3a.endpoint or AWS_ENDPOINT_URL)",
    r"libhdfs|libjvm|CLASSPATH": "HDFS needs Hadoop's libhdfs on this machine; set HADOOP_HOME, JAVA_HOME and CLASSPATH"
    " (to what hadoop classpath --glob prints)",
}


def scheme_of(uri: str) -> str:
    """The scheme in lower case; "" for a path on this machine."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", uri)
    return found[1].lower() if found else ""


def check_bucket(uri: str, system: fs.FileSystem, path: str) -> None:
    """Raise ``ConfigError`` if a path of an object store is in a bucket or container that is not there."""
    has_buckets = scheme_of(uri) in {*_S3, "gs", "gcs", "abfs", "abfss"}
    if has_buckets and system.get_file_info(path.partition("/")[0]).type == fs.FileType.NotFound:
        raise ConfigError(f"{uri}: there is no such bucket")


def settings_here(given: Mapping[str, str] | None = None) -> Settings:
    """The settings for other machines' files: those of the environment, of the active session, and ``given``.

    Later ones win. Names in ``given`` that are no such settings do not count.
    """
    found = {setting: os.environ[name] for name, setting in _OF_ENVIRONMENT.items() if os.environ.get(name)}
    if "fs.s3a.endpoint" in found:  # Hadoop would name the bucket in the host's name unless it is told otherwise.
        found["fs.s3a.path.style.access"] = "true"
    session = {name: value for name, value in _of_session().items() if value}
    if "fs.s3a.endpoint" not in session:
        session.pop("fs.s3a.path.style.access", None)  # Hadoop's default, which says nothing about our endpoint
    found |= {**session, **(given or {})}
    return tuple(sorted((name, value) for name, value in found.items() if _KNOWN.fullmatch(name) and value))


def _of_session() -> dict[str, str]:
    if (active := SparkSession.getActiveSession()) is None:
        return {}
    if hasattr(active, "_jsc"):
        hadoop = active._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark shows Hadoop's configuration in no other way
        starts = ("fs.s3a.", "fs.azure.account.key.")
        return {f"{start}{name}": value for start in starts for name, value in hadoop.getPropsWithPrefix(start).items()}
    return {name.removeprefix("spark.hadoop."): value for name, value in active.conf.getAll.items()}  # of Connect


def filesystem(uri: str, settings: Settings) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path in it. ``ConfigError`` if no package knows the scheme."""
    scheme = scheme_of(uri)
    if not scheme:
        return fs.LocalFileSystem(), uri
    authority, slash, path = uri.partition("://")[2].partition("/")
    with said(uri):
        if scheme in _S3:
            return _s3(authority, settings), f"{authority}{slash}{path}".rstrip("/")
        if scheme in _ARROW:
            found, root = _of_arrow(_ARROW[scheme], authority, settings)
            return found, f"{root.rstrip('/')}/{path}".rstrip("/") if root.strip("/") else f"/{path}"
        return _of_fsspec(uri, scheme)


@lru_cache(maxsize=64)
def _s3(bucket: str, settings: Settings) -> fs.FileSystem:
    of_all = dict(settings)

    def setting(name: str) -> str | None:
        return of_all.get(f"fs.s3a.bucket.{bucket}.{name}", of_all.get(f"fs.s3a.{name}"))

    scheme, _, host = (setting("endpoint") or "").rpartition("://")
    region = setting("endpoint.region")
    if not (region or host):
        with suppress(OSError):  # a bucket that is not there is told when it is listed
            region = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        access_key=setting("access.key"),
        secret_key=setting("secret.key"),
        session_token=setting("session.token"),
        region=region,
        scheme=scheme or ("http" if setting("connection.ssl.enabled") == "false" else "https"),
        endpoint_override=host.rstrip("/") or None,
        force_virtual_addressing=bool(host) and setting("path.style.access") != "true",
        connect_timeout=_CONNECT_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )


@lru_cache(maxsize=64)
def _of_arrow(scheme: str, authority: str, settings: Settings) -> tuple[fs.FileSystem, str]:
    account = authority.rpartition("@")[2]
    key = dict(settings).get(f"fs.azure.account.key.{account}")
    if scheme.startswith("abfs") and key is not None:
        return fs.AzureFileSystem(account.partition(".")[0], account_key=key), authority.rpartition("@")[0]
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(f"{scheme}://{authority}/")
    return found


def _of_fsspec(uri: str, scheme: str) -> tuple[fs.FileSystem, str]:
    try:
        from fsspec import core, get_filesystem_class  # noqa: PLC0415 - an extra

        get_filesystem_class(scheme)
    except ImportError as error:  # of fsspec itself, or of a package that it says opens the scheme
        lacking = f"a package for {scheme}:// is missing: {error}"
        if error.name == "fsspec":
            lacking = f'{scheme}:// needs fsspec: pip install "culm[remote]"'
    except ValueError:
        known = ", ".join(sorted({"file", *_S3, *_ARROW}))
        lacking = f"no file system is known for {scheme}://; known are {known}, and what fsspec finds"
    else:
        found, path = core.url_to_fs(uri)
        return fs.PyFileSystem(fs.FSSpecHandler(found)), path
    raise ConfigError(f"{uri}: {lacking}")


@contextmanager
def said(uri: str, does: str = "be read") -> Iterator[None]:
    """Turn the errors of a file system into a ``ConfigError`` of one line that names the URI and what to do."""
    try:
        yield
    except CulmError:
        raise
    except Exception as error:  # the packages behind fsspec raise errors of any kind
        line = (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip().splitlines()[0]
        told = "there is no such file or folder" if isinstance(error, FileNotFoundError) else f"cannot {does}: {line}"
        meant = (meaning for pattern, meaning in _MEANINGS.items() if re.search(pattern, str(error)))
        raise ConfigError(f"{uri}: {next(meant, told)}") from error
