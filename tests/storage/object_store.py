"""A real object store for tests: OpenStack Swift with its S3 interface, one node on loopback, without redundancy.

`scripts/setup.sh` installs it into `.venv/object_store`; Debian's memcached is needed too. The folder must be on a file
system with extended attributes. The store can be killed and started again on the same folder.
"""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.running import HANG_SECONDS
from tests.support.tools import need

BIN = Path(sys.prefix) / "object_store" / "bin"
REGION = "us-east-1"
ACCESS_KEY, SECRET_KEY = "test:tester", "a-secret-that-nobody-may-print"
SERVERS = ("account", "container", "object")

_RINGS = """
import os, sys
from swift.common.ring import RingBuilder
for number, kind in enumerate(("object", "container", "account"), 1):
    port = int(sys.argv[2]) + number
    ring = RingBuilder(part_power=6, replicas=1, min_part_hours=0)
    place = {"ip": "127.0.0.1", "port": port, "replication_ip": "127.0.0.1", "replication_port": port}
    ring.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1.0, "device": "disk"} | place)
    ring.rebalance(seed=1)
    ring.get_ring().save(os.path.join(sys.argv[1], kind + ".ring.gz"))
"""
# Without workers: a server that has some looks a hundred times a second whether one has ended.
_COMMON = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}/etc
log_level = WARNING
devices = {folder}/data
mount_check = false
disable_fallocate = true
"""
_STORAGE = """[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
log_requests = false
container_update_timeout = 30
"""
_FILTERS = ("catch_errors", "gatekeeper", "healthcheck", "cache", "listing_formats", "s3api", "tempauth", "slo")
_SETTINGS = {
    "cache": "memcache_servers = 127.0.0.1:{memcached}\n",
    "s3api": f"location = {REGION}\ns3_acl = false\nmax_upload_part_num = 10000\nmin_segment_size = 1\n",
    "tempauth": f"user_{ACCESS_KEY.replace(':', '_')} = {SECRET_KEY} .admin\n",
    "slo": "max_manifest_segments = 10000\nmax_manifest_size = 33554432\nrate_limit_under_size = 0\n",
}
_EGGS = {"cache": "memcache"}


class ObjectStore:
    """The store in `folder`, at `port` and the four ports after it."""

    def __init__(self, folder: Path) -> None:
        if not (BIN / "swift-proxy-server").exists():
            reason = f"{BIN} has no object store: run scripts/setup.sh"
            pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
        self._memcached = need("memcached")
        self.folder = folder
        self.port = _free_ports(5)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._write_settings()

    @property
    def environ(self) -> dict[str, str]:
        """What a client needs in its environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> None:
        """Start the servers and wait until they answer.

        The proxy comes last: it answers that there is no such bucket while the container server does not run.
        """
        self._run([self._memcached, "-u", _user(), "-l", "127.0.0.1", "-p", str(self.port + 4), "-U", "0", "-m", "32"])
        for kind in SERVERS:
            self._run([str(BIN / f"swift-{kind}-server"), str(self.folder / "etc" / f"{kind}-server.conf")])
        for port in range(self.port + 1, self.port + 4):
            self._wait_for(port)
        self._run([str(BIN / "swift-proxy-server"), str(self.folder / "etc" / "proxy-server.conf")])
        self._wait_for(self.port)

    def kill(self) -> None:
        """Kill all servers at once, the proxy first."""
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGKILL)  # each leads a session of its own
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def _run(self, command: list[str]) -> None:
        environ = {"PATH": os.environ["PATH"], "EVENTLET_NO_GREENDNS": "yes"}
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, start_new_session=True
            )
        self._processes.append(process)

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while not _answers(port):
            ended = [process.args for process in self._processes if process.poll() is not None]
            assert not ended, f"{ended}\n{(self.folder / 'log').read_text()[-2000:]}"
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _write_settings(self) -> None:
        for name in ("etc", "data/disk"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        try:
            os.setxattr(self.folder / "data", "user.test", b"x" * 1000)
        except OSError:
            pytest.skip("needs a file system with extended attributes for temporary files")
        etc = self.folder / "etc"
        (etc / "swift.conf").write_text(
            "[swift-hash]\nswift_hash_path_suffix = test\n[storage-policy:0]\nname = gold\ndefault = yes\n"
        )
        for number, kind in enumerate(("proxy", "object", "container", "account")):
            text = _COMMON.format(port=self.port + number, user=_user(), folder=self.folder)
            text += self._pipeline() if kind == "proxy" else _STORAGE.format(kind=kind)
            (etc / f"{kind}-server.conf").write_text(text)
        subprocess.run([BIN / "python", "-c", _RINGS, etc, str(self.port)], check=True, capture_output=True)

    def _pipeline(self) -> str:
        text = f"[pipeline:main]\npipeline = {' '.join(_FILTERS)} proxy-server\n[app:proxy-server]\n"
        text += "use = egg:swift#proxy\naccount_autocreate = true\nallow_account_management = true\n"
        for name in _FILTERS:
            settings = _SETTINGS.get(name, "").format(memcached=self.port + 4)
            text += f"[filter:{name}]\nuse = egg:swift#{_EGGS.get(name, name)}\n{settings}"
        return text


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthcheck")
        connection.getresponse().read()  # storage servers know no such path, but answer
        return True
    except OSError:
        return False
    finally:
        connection.close()


def _free_ports(count: int) -> int:
    """The first of `count` free ports in a row, below those that the kernel gives to clients."""
    for first in range(20000 + os.getpid() % 1000 * 10, 32000, 10):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for number, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + number))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise AssertionError("no free ports")
