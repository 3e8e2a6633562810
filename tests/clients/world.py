"""What a case runs against: a kilnd, perhaps a way to it, and what happens to them in between.

Most cases share one server as it comes. `World.values` is what "$name" in a request stands for; `World.events` are the
steps that the runner does itself.
"""

import hashlib
import pathlib
import shutil
import subprocess
import tempfile
import threading

import faults
import models
import support
from frames import FrameProxy
from wire_proxy import WireProxy

import kiln

READY = b"\x08\x01"  # a message whose first field is true


class Servers:
    """Those of one run of the suite, by their flags. close() stops them."""

    def __init__(self):
        self._kept = {}
        self._lock = threading.Lock()
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.certificates_made = False

    def shared(self):
        with self._lock:
            if "shared" not in self._kept:
                self._kept["shared"] = support.Server("--cpu_devices=2")
            return self._kept["shared"]

    def models(self):
        """The same, over the models of models.py."""
        with self._lock:
            if "models" not in self._kept:
                self._kept["models"] = serving(self.folder / "models")
            return self._kept["models"]

    def certificates(self):
        """ca, server and client, PEM, in the folder."""
        with self._lock:
            if not self.certificates_made:
                self._certificate("ca", "/CN=ca", "CA:TRUE")
                self._certificate("server", "/CN=server", "CA:FALSE", "DNS:localhost,IP:127.0.0.1", signer="ca")
                self._certificate("member", "/CN=member", "CA:FALSE", "URI:spiffe://cluster/member", signer="ca")
                self.certificates_made = True
        return self.folder

    def _certificate(self, name, subject, constraint, names="", signer=None):
        key, request, made = (str(self.folder / (name + end)) for end in (".key", ".csr", ".pem"))
        extensions = self.folder / "extensions"
        extensions.write_text("basicConstraints=%s\n" % constraint + ("subjectAltName=%s\n" % names if names else ""))
        by = ["-signkey", key]
        if signer is not None:
            pem, its_key = (str(self.folder / (signer + end)) for end in (".pem", ".key"))
            by = ["-CA", pem, "-CAkey", its_key, "-CAcreateserial"]
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        for words in (["req", *curve, "-subj", subject, "-keyout", key, "-out", request],
                      ["x509", "-req", "-in", request, "-days", "2", "-extfile", str(extensions), "-out", made, *by]):
            subprocess.run(["openssl", *words], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def close(self):
        for server in self._kept.values():
            server.stop()
        shutil.rmtree(self.folder)


def serving(folder, *flags, **who):
    """A kilnd over the models of models.py, which it has loaded; `who` is as kiln.connect takes who asks."""
    models.write_folder(folder)
    server = support.Server("--models=%s" % folder, *models.FLAGS, *flags)
    address = "localhost:%d" % server.port if "tls" in who else server.address
    with kiln.connect(address, shared_memory=False, **who) as client:
        ready = client._connection.channel.unary_unary("/inference.GRPCInferenceService/ServerReady")
        loaded = support.eventually(lambda: ready(b"", metadata=client._connection.session.metadata) == READY)
    if not loaded:
        server.stop()
        raise AssertionError("the models were not loaded:\n" + "".join(server.log))
    return server


class World:
    """Of one run of one case. `server` is the case's own word for it: {"flags": [...], "tenants": "...", "tls": true,
    "models": true, "way": "AnswersTwice"}; `cut` cuts the connection behind so many frames of the server's."""

    def __init__(self, servers, server, rule=None, cut=None):
        self._closers = []
        self._servers = servers
        self.values = {}
        words = dict(server)
        way = words.pop("way", None)
        rule = rule or (faults.FAULTS[way]() if way else None)
        if words == {"models": True}:
            self.server = servers.models()
        else:
            self.server = self._own(words) if words else servers.shared()
        self.rule, self.frames = None, None
        address = self.server.address
        if words.get("tls"):
            address = "localhost:%d" % self.server.port
        if rule is not None:
            proxy = self._close_later(WireProxy(address, rule))
            self.rule, address = rule, proxy.address
        if cut is not None:
            self.frames = self._close_later(FrameProxy(int(address.split(":")[1]), cut))
            address = self.frames.address
        self.values["address"] = address

    def _close_later(self, made):
        self._closers.append(made.close)
        return made

    def _own(self, words):
        """A kilnd of the case's own."""
        flags = list(words.get("flags", ()))
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self._closers.append(lambda: shutil.rmtree(self.folder))
        self.values["token_file"] = str(self.folder / "token")
        self._tenants = words.get("tenants")
        self.token("first")
        if self._tenants is not None:
            flags.append("--tenants=%s" % (self.folder / "tenants.txtpb"))
        if words.get("tls"):
            pem = self._servers.certificates()
            flags += ["--tls_certificate=%s" % (pem / "server.pem"), "--tls_key=%s" % (pem / "server.key"),
                      "--tls_client_ca=%s" % (pem / "ca.pem")]  # fmt: skip
            self.values.update(ca=str(pem / "ca.pem"), certificate=str(pem / "member.pem"), key=str(pem / "member.key"))
        if words.get("models"):
            tls = {"tls": str(self._servers.certificates() / "ca.pem")} if words.get("tls") else {}
            server = serving(self.folder / "models", *flags, token="first", **tls)
        else:
            server = support.Server(*flags)
        self._closers.append(server.stop)
        return server

    def close(self):
        for closer in reversed(self._closers):
            closer()

    # -- what a case may say happens: {"runner": "evict"}

    def evict(self):
        """The server forgets every program."""
        with kiln.connect(self.server.address, shared_memory=False) as client:
            for row in client.programs().programs:
                request = kiln.v1.debug_service_pb2.EvictRequest(graph_hash=row.graph_hash)
                client._connection.call("DebugService.Evict", request)

    def import_model(self):
        """`kiln import` has made a graph of an ONNX model, and its constants lie beside it."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self._closers.append(lambda: shutil.rmtree(folder))
        models.write(folder / "model.onnx")
        support.cli("import", str(folder / "model.onnx"), "-o", str(folder / "model.kgraph"))
        self.values["graph_file"] = str(folder / "model.kgraph")
        self.values["constants_file"] = str(folder / "model.safetensors")

    def token(self, secret):
        """From now on this stands in the client's file, and is the tenants' token, if there are any."""
        (self.folder / "token").write_text(secret)
        if self._tenants is None:
            return
        draft = self.folder / "draft"
        draft.write_text(self._tenants.replace("$sha256", hashlib.sha256(secret.encode()).hexdigest()))
        draft.rename(self.folder / "tenants.txtpb")

    def count(self, method, calls=0, at_most=0):
        """So many calls of this method have come by."""
        found = self.rule.calls.get(method, 0)
        if found != calls if calls else found > at_most:
            raise AssertionError("%d calls of %s, not %d" % (found, method, calls or at_most))

    def restart(self):
        """The server ends at once, and another begins at its address."""
        port = self.server.port
        self.server.kill()
        self.server = support.Server(port=port)
        self._closers.append(self.server.stop)

    def wait_for(self, method, calls):
        """Until so many calls of this method have come by."""
        if not support.eventually(lambda: self.rule.calls.get(method, 0) >= calls):
            found = self.rule.calls.get(method, 0)
            raise AssertionError("%d calls of %s after a minute, not %d" % (found, method, calls))

    def drain(self):
        """The server is told to stop, and has."""
        self.server.stop()
