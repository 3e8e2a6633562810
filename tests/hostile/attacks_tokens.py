"""JSON Web Tokens of an issuer that the server knows: what is not exactly one of them is none."""

from __future__ import annotations

import hashlib
import hmac
import time

from attack import TIMEOUT, attack, support, unknown, wire
from owner import LEEWAY, base64url, new_key, part, sign

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import utils


def known(target, token):
    listed = target.call("DeviceService.List", tenant=token)
    assert listed.code in ("OK", "NOT_AUTHENTICATED"), listed.error
    return bool(listed)


def _none(name, make, promise):
    def run(target):
        # A good one is known; so what is refused is refused for what it is.
        assert known(target, target.owner.token())
        unknown(target, make(target.owner))

    run.__doc__ = promise
    attack(run, name="token_" + name, owned=True)


def _public(owner, encoding):
    """The public key as text that everybody has."""
    if encoding == "jwks":
        return (owner.folder / "keys.json").read_bytes()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return owner.key.public_key().public_bytes(serialization.Encoding(encoding), form)


def _shared(owner, encoding):
    head = part({"alg": "HS256", "kid": "key 0"}) + "." + part(owner.claims())
    return head + "." + base64url(hmac.new(_public(owner, encoding), head.encode(), hashlib.sha256).digest())


def _unsigned(owner, algorithm, signature=b""):
    return ".".join((part({"alg": algorithm, "kid": "key 0"}), part(owner.claims()), base64url(signature)))


def _spliced(owner):
    """Claims of one token under the signature of another."""
    head, _, signature = owner.token(sub="system:a").rsplit(".", 2)
    return ".".join((head, part(owner.claims(sub="system:b")), signature))


def _der(owner):
    head, signature = owner.token().rsplit(".", 1)
    raw = sign(head, owner.key)
    return head + "." + base64url(
        utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")))


def _own_key(owner):
    """A key that comes with the token, and has signed it."""
    key = new_key()
    point = key.public_key().public_numbers()
    jwk = {"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "key 0", "x": base64url(point.x.to_bytes(32, "big")),
           "y": base64url(point.y.to_bytes(32, "big"))}  # fmt: skip
    return owner.token(key, {"alg": "ES256", "kid": "key 0", "jwk": jwk, "jku": "http://127.0.0.1:1/keys"})


PAST, FUTURE = lambda: int(time.time()) - LEEWAY - 5, lambda: int(time.time()) + LEEWAY + 30
for _name, _make, _promise in (
    ("that_has_expired", lambda o: o.token(exp=PAST()), "A token counts until it expires."),
    ("that_expired_long_ago", lambda o: o.token(exp=0), "However long ago."),
    ("that_does_not_count_yet", lambda o: o.token(nbf=FUTURE()), "A token counts from its beginning."),
    ("without_an_end", lambda o: o.token(exp=None), "A token has an end."),
    ("with_an_end_in_words", lambda o: o.token(exp="never"), "Which is a number."),
    ("with_an_end_beyond_time", lambda o: o.token(exp=1e300), "Of this world."),
    ("with_a_beginning_in_words", lambda o: o.token(nbf="now"), "So is its beginning."),
    ("for_another_audience", lambda o: o.token(aud="other"), "A token for another service is none here."),
    ("for_other_audiences", lambda o: o.token(aud=["other", ["kiln"], 5]), "However many."),
    ("for_no_audience", lambda o: o.token(aud=None), "Nor is one for all."),
    ("for_half_an_audience", lambda o: o.token(aud="kil"), "Audiences are compared whole."),
    ("of_another_issuer", lambda o: o.token(iss="https://other.example"), "An issuer is one of the list."),
    ("of_an_issuer_to_a_slash", lambda o: o.token(iss="https://issuer.example/"), "To the last character."),
    ("of_no_issuer", lambda o: o.token(iss=None), "A token has an issuer."),
    ("of_nobody", lambda o: o.token(sub=None), "And a subject."),
    ("of_a_stranger", lambda o: o.token(sub="system:c"), "Which is a tenant's."),
    ("of_a_pattern", lambda o: o.token(sub="system:*"), "A subject is no pattern."),
    ("of_a_subject_with_a_nul", lambda o: o.token(sub="system:a\0"), "And is compared whole."),
    ("signed_by_none", lambda o: _unsigned(o, "none"), "Who signs by none has not signed."),
    ("signed_by_none_in_capitals", lambda o: _unsigned(o, "nOnE", b"x"), "However it is spelled."),
    ("signed_with_zeros", lambda o: _unsigned(o, "ES256", b"\0" * 64), "A signature of zeros signs nothing."),
    ("signed_with_nothing", lambda o: _unsigned(o, "ES256"), "Nor does an empty one."),
    ("signed_in_der", _der, "A signature is two numbers of 32 bytes."),
    ("signed_with_the_public_key", lambda o: _shared(o, "PEM"), "A public key is no secret that both know: not as PEM,"),
    ("signed_with_the_public_key_in_der", lambda o: _shared(o, "DER"), "nor as DER,"),
    ("signed_with_the_key_set", lambda o: _shared(o, "jwks"), "nor as the set that it is in."),
    ("signed_by_another", lambda o: o.token(new_key()), "A key's name is not the key."),
    ("with_a_key_of_its_own", _own_key, "A key that a token brings is nobody's, and nothing is fetched."),
    ("with_a_key_that_is_a_path", lambda o: o.token(new_key(), {"alg": "ES256", "kid": "../../../../dev/null"}), "A key's name is no path."),
    ("with_another_algorithm", lambda o: o.token(header={"alg": "RS256", "kid": "key 0"}), "The algorithm is the key's."),
    ("with_what_is_critical", lambda o: o.token(header={"alg": "ES256", "kid": "key 0", "crit": ["x"], "x": 1}), "What must be understood, and is not, is refused."),
    ("of_two", _spliced, "Claims are signed, too."),
):  # fmt: skip
    _none(_name, _make, _promise)


@attack(owned=True)
def token_after_its_key_has_gone(target):
    """Keys that are gone count no longer, also for tokens that were let in before; new ones count at once."""
    owner, old, new = target.owner, target.owner.key, new_key()
    before, after = owner.token(old), owner.token(new)
    assert known(target, before) and not known(target, after)
    try:
        owner.write_keys(new)
        owner.reload(target.server, lambda: known(target, after))
        unknown(target, before)
        owner.write_keys(new, old)  # both; but the names have changed places
        owner.reload(target.server, lambda: known(target, owner.token(old, {"alg": "ES256", "kid": "key 1"})))
        unknown(target, before)
        assert known(target, after)
    finally:
        owner.write_keys(old)
        owner.reload(target.server, lambda: known(target, before) and not known(target, after))


@attack(owned=True)
def token_of_keys_that_are_none(target):
    """A key set with a fault, or without a key, leaves the one before in force."""
    owner = target.owner
    token = owner.token()
    path = owner.folder / "keys.json"
    good = path.read_bytes()
    try:
        for bad in (b"", b"{}", b"[" * 100_000, b'{"keys": []}', b'{"keys": [{"kty": "oct", "k": "eA"}]}', good[:-20],
                    b"\xff\xfe" * 100, good.replace(b'"x"', b'"z"')):  # fmt: skip
            since = len(target.server.log)
            path.write_bytes(bad)
            owner.reload(target.server, lambda: any("event=tenants_refused" in line for line in target.server.log[since:]))
            assert known(target, token), bad[:40]
    finally:
        since = len(target.server.log)
        path.write_bytes(good)
        owner.reload(target.server, lambda: any("reloaded=true" in line for line in target.server.log[since:]))


@attack(name="token_forged_by_the_thousand", owned=True)
def forged_by_the_thousand(target):
    """Of forged tokens that one address sends, few are looked at; who is known already is served meanwhile, and somebody
    new soon after."""
    good = target.owner.token()
    assert known(target, good)
    head = good.rsplit(".", 1)[0]
    stub = wire.stub(target.channel, "DeviceService.List")
    request = wire.METHODS["DeviceService.List"].request()
    begin, said = time.monotonic(), []
    for first in range(0, 5000, 250):
        calls = [stub.future(request, timeout=TIMEOUT, metadata=[
            ("authorization", "Bearer %s.%s" % (head, base64url(number.to_bytes(64, "big"))))])
            for number in range(first + 1, first + 251)]  # fmt: skip
        assert known(target, good), "after %d forged ones" % first
        for call in calls:
            assert call.exception().code().name == "UNAUTHENTICATED", call.exception()
            said.append(call.exception().details())
    seconds = time.monotonic() - begin
    looked = sum("not looked at" not in text for text in said)
    assert 500 <= looked <= 500 * (seconds + 1), "%d of %d in %.1f s" % (looked, len(said), seconds)
    fresh = target.owner.token(nbf=int(time.time()) - 1)
    assert support.eventually(lambda: known(target, fresh)), "a new token is refused for others' that were"
