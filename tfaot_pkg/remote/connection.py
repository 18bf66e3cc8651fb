"""Connections: requests with our policy of redirects, and with an end to answers that never begin.

The user's proxies, netrc and certificates hold, as requests reads them.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.poolmanager import PoolManager

from tfaot_pkg._version import __version__
from tfaot_pkg.remote.address import Address

if TYPE_CHECKING:
    from urllib3.response import HTTPResponse


class _Watched(HTTPConnection):
    """The status line and all headers must be there in time, also where they drip in byte by byte.

    A socket's time-out begins anew with every byte, so a watch shuts the connection down. The time is that of the
    connection's time-out for reading (not the socket's, which is still that for connecting), for the whole head.
    """

    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as urllib3 itself does
        expired = threading.Event()
        watch = threading.Timer(self.timeout or 60, _give_up, (self.sock, expired))
        watch.daemon = True
        watch.start()
        try:
            response = super().getresponse()
        except OSError as error:
            raise _late() if expired.is_set() else error from error
        finally:
            watch.cancel()
        if expired.is_set():  # what had come by then looked like a whole head
            response.close()
            self.close()
            raise _late()
        return response


def _give_up(sock: socket.socket, expired: threading.Event) -> None:
    expired.set()
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended by itself
        pass


def _late() -> TimeoutError:
    return TimeoutError("the head of the answer did not come in time")


class _WatchedTLS(_Watched, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Watched


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedTLS


class _Adapter(HTTPAdapter):
    """Watched connections, directly and through proxies."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        _watch(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        _watch(manager)
        return manager


def _watch(manager: PoolManager) -> None:
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}


class Session(requests.Session):
    """A session for one registry: redirects go only where its address allows."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address
        self.max_redirects = 5
        self.headers.clear()
        self.headers.update({"User-Agent": f"tfaot-pkg/{__version__}", "Accept": "*/*"})
        self.adapters.clear()
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(max_retries=0, pool_maxsize=8))

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Where the answer sends us. Raises NetworkError where we do not go there."""
        target = super().get_redirect_target(resp)
        if target is not None:
            self._address.check(urljoin(resp.url, target), resp.url)
        return target
