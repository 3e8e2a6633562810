"""Callers of others: grpcurl asks and ghz asks many times, by each way there is to say who one is; and by none."""

import json
import subprocess

import identities
from witnesses import GHZ, GRPCURL, ROOT, check_equal, go_tool

METHOD = "kiln.v1.DeviceService/List"
PROTO = ["-import-path", "proto", "-proto", "proto/kiln/v1/device_service.proto"]
CALLS = 2000


class Fixture(identities.Identities):
    """For its server and certificates."""


def ways():
    """(name, certificate and key of Identities, bearer token) of those who are somebody."""
    yield "token", None, "secret"
    for algorithm in identities.KEYS:
        yield "JSON Web Token, " + algorithm, None, identities.token(algorithm)
    yield "certificate", "member", None


def flags(dash, certificate, bearer):
    said = [dash + "cacert", str(Fixture.folder / "ca.pem")]
    if certificate is not None:
        files = Fixture.of(certificate)
        said += [dash + "cert", files["certificate"], dash + "key", files["key"]]
    if bearer is not None:
        said += ["-H", "authorization: Bearer " + bearer] if dash == "-" else [
            "--metadata", json.dumps({"authorization": "Bearer " + bearer})]  # fmt: skip
    return said


def grpcurl(certificate, bearer):
    tool = go_tool(GRPCURL)
    return subprocess.run([tool, *flags("-", certificate, bearer), *PROTO, Fixture.address, METHOD],
                          cwd=ROOT, capture_output=True, text=True)  # fmt: skip


def lists_devices(certificate, bearer):
    done = grpcurl(certificate, bearer)
    check_equal((done.returncode, done.stderr), (0, ""))
    names = [device["name"] for device in json.loads(done.stdout)["devices"]]
    assert "CPU:0" in names, names
    return ", ".join(names)


def is_refused(code, certificate, bearer):
    done = grpcurl(certificate, bearer)
    assert done.returncode != 0 and code in done.stderr, done.stdout + done.stderr
    return code


def many(certificate, bearer):
    tool = go_tool(GHZ)
    done = subprocess.run([tool, *flags("--", certificate, bearer), "--import-paths", "proto", "--proto",
                           "proto/kiln/v1/device_service.proto", "--call", METHOD.replace("/", "."), "--total", str(CALLS),
                           "--concurrency", "4", "--format", "json", Fixture.address],
                          cwd=ROOT, capture_output=True, text=True)  # fmt: skip
    check_equal((done.returncode, done.stderr), (0, ""))
    report = json.loads(done.stdout)
    check_equal(report["statusCodeDistribution"], {"OK": CALLS})
    tail = {row["percentage"]: row["latency"] for row in report["latencyDistribution"]}
    return "%.0f calls a second, p50 %.0f us, p99 %.0f us" % (report["rps"], tail[50] / 1e3, tail[99] / 1e3)


def rows(table):
    Fixture.setUpClass()
    try:
        for name, certificate, bearer in ways():
            table.check("grpcurl", "lists devices by " + name, lambda: lists_devices(certificate, bearer))
        for name, certificate, bearer in [("no word of who asks", None, None), ("a wrong token", None, "wrong"),
                                          ("a token that has expired", None, identities.token(exp=1)),
                                          ("a certificate that is no tenant's", "nobody", None)]:  # fmt: skip
            table.check("grpcurl", "is refused with " + name, lambda: is_refused("Unauthenticated", certificate, bearer))
        table.check("grpcurl", "has no connection with a forged certificate",
                    lambda: is_refused("Failed to dial", "forged", None))  # fmt: skip
        for name, certificate, bearer in ways():
            table.check("ghz", "%d calls by %s" % (CALLS, name), lambda: many(certificate, bearer))
    finally:
        Fixture.doClassCleanups()
