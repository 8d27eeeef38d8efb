"""A party file is read as it was meant, or the error names the field, the value and the choices."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.party_files import NAMES, blocks, credentials, write_parties

from tacit.crypto import certificate_to_der, create_credentials
from tacit.errors import ConfigError
from tacit.runtime.deploy.addresses import parse_address
from tacit.runtime.deploy.member_blocks import snippet
from tacit.runtime.deploy.party_file import read_party_file

PORTS = [7000, 7001, 7002]


def read(folder, head="", parts=None):
    path = folder / "parties.toml"
    path.write_text("\n".join([head, *(blocks(PORTS) if parts is None else parts)]))
    return read_party_file(path)


def test_the_least_file_has_the_defaults(tmp_path):
    made = read(tmp_path)
    assert made.names == NAMES
    assert [entry.address for entry in made.parties] == [f"127.0.0.1:{port}" for port in PORTS]
    assert [entry.certificate for entry in made.parties] == [
        credentials(name).certificate for name in NAMES
    ]
    assert (made.config.protocol, made.config.ring, made.reveals) == ("trio", 64, None)
    assert (made.limits.deadline, made.limits.connect_deadline) == (30.0, 300.0)
    assert made.rank_of("carol") == 2


def test_everything_that_can_be_set_is(tmp_path):
    head = """
    protocol = "replicated"
    ring = 32
    fraction_bits = 8
    truncation = "probabilistic"
    range_bits = 10
    memory_limit = 2000000
    placement = "linear"
    reveals = ["carol", "bob"]
    deadline = 5
    connect_deadline = 60.5
    patience = 90
    stripes = 3
    """
    made = read(tmp_path, head, blocks(PORTS, bob='device = "cuda:1"\n'))
    config = made.config
    assert (config.protocol, config.ring, config.fraction_bits) == ("replicated", 32, 8)
    assert (config.truncation, config.range_bits) == ("probabilistic", 10)
    assert config.memory_limit == 2000000
    assert config.cipher == "aes128-ctr"  # bob has a GPU, but only products are made there
    assert made.reveals == config.reveals == (1, 2)
    limits = made.limits
    assert (limits.deadline, limits.connect_deadline, limits.patience) == (5.0, 60.5, 90.0)
    assert limits.stripes == 3
    assert (made.placement, made.parties[1].device) == ("linear", "cuda:1")


def test_reveals_may_name_nobody(tmp_path):
    assert read(tmp_path, "reveals = []").reveals == ()


HEADS = [
    ('protocol = "magic"', r"protocol='magic': allowed are 'trio'"),
    ('protocol = "cleartext"', r"cleartext"),
    ("ring = 16", r"ring=16: allowed are 32, 64"),
    ("ring = 64.0", r"ring=64\.0"),
    ("ring = [64]", r"ring=\[64\]"),
    ("fraction_bits = 40", r"fraction_bits=40: .* 0 to 28"),
    ('placement = "sky"', r"placement='sky': allowed are 'gpu', 'linear'"),
    ('reveals = ["dave"]', r"reveals=\['dave'\]: allowed is a list of 'alice', 'bob', 'carol'"),
    ('reveals = "bob"', r"reveals='bob'"),
    ("reveals = [1]", r"reveals=\[1\]"),
    ('reveals = ["bob", "bob"]', r"twice"),
    ("deadline = 0", r"deadline=0: allowed is a number of seconds"),
    ("deadline = true", r"deadline=True"),
    ("stripes = 0", r"stripes is 0: 1 to 32"),
    ('stripes = "many"', r"stripes is 'many'"),
    ("deadline = nan", r"deadline=nan"),
    ('connect_deadline = "long"', r"connect_deadline='long'"),
    ("rings = 64", r"'rings' is not a known field: allowed are 'protocol', 'ring'"),
    ("debug = true", r"'debug' is not a known field"),
    ("ring = ", r"not TOML.*line 1"),
    ("a = " + "[" * 5000, r"not TOML"),
    ("a = " + "9" * 5000, r"not TOML"),
]


@pytest.mark.parametrize(("head", "message"), HEADS)
def test_a_bad_setting_names_file_field_value_and_choices(tmp_path, head, message):
    with pytest.raises(ConfigError, match=message) as found:
        read(tmp_path, head)
    assert str(found.value).startswith(f"{tmp_path}/parties.toml: ")


def changed(old: str, new: str):
    return lambda parts: [parts[0], re.sub(old, new, parts[1], flags=re.DOTALL), parts[2]]


OTHER = credentials("dave").certificate
BAD_PARTIES = [
    (changed('"bob"', '"b ob"'), r"party 1: name='b ob': allowed are a letter"),
    (changed('"bob"', "7"), r"party 1: name=7"),
    (changed('"bob"', '"alice"'), r"party 0 \(alice\) and party 1 \(alice\) have the same name"),
    (changed("7001", "7000"), r"party 0 \(alice\) and party 1 \(bob\) have the same address"),
    (changed("7001", "70010"), r"party 1 \(bob\): address='127.0.0.1:70010': allowed"),
    (changed(":7001", ""), r"party 1 \(bob\): address='127.0.0.1'"),
    (changed('address = "[^"]*"', "address = 5"), r"address=5"),
    (changed("address", "adress"), r"party 1: 'adress' is not a known field: allowed are 'name'"),
    (changed("address = [^\n]*\n", ""), r"party 1: address is missing"),
    (changed("'''.*'''", '"MIIB"'), r"party 1 \(bob\): certificate: it is not a certificate"),
    (changed("'''.*'''", '"?!"'), r"party 1 \(bob\): certificate: allowed is the base64"),
    (changed("'''.*'''", "5"), r"party 1 \(bob\): certificate: allowed is the base64"),
    (changed(r"\Z", 'device = "tpu"'), r"device='tpu': allowed are 'cpu', 'cuda'"),
    (lambda parts: parts[:1], r"party: 1 blocks"),
    (lambda parts: parts[:2], r"parties=2: protocol='trio' has 3 parties"),
    (lambda parts: [], r"party: 0 blocks"),
    (lambda parts: ["party = 3"], r"party: allowed is a block"),
    (
        lambda parts: [*parts[:2], parts[0].replace("alice", "carol").replace("7000", "7002")],
        r"party 0 \(alice\) and party 2 \(carol\) have the same public key",
    ),
]


@pytest.mark.parametrize(("change", "message"), BAD_PARTIES)
def test_a_bad_party_is_named(tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, parts=change(blocks(PORTS)))


def with_certificate(der: bytes) -> list[str]:
    text = base64.b64encode(der).decode()
    return changed("'''.*'''", f'"{text}"')(blocks(PORTS))


def made_by_hand(since: datetime, until: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bob")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, since, until)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def test_an_expired_certificate_says_since_when(tmp_path, monkeypatch):
    made = create_credentials("bob", valid_for=timedelta(days=1))
    day = datetime.now(UTC) + timedelta(days=1)

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return day + timedelta(days=300)

    monkeypatch.setattr("tacit.crypto.identity.datetime", Later)
    with pytest.raises(ConfigError, match=rf"certificate: it has expired on {day:%Y-%m-%d}"):
        read(tmp_path, parts=with_certificate(certificate_to_der(made.certificate)))


def test_a_certificate_of_another_kind_is_refused(tmp_path):
    now = datetime.now(UTC)
    der = made_by_hand(now - timedelta(days=1), now + timedelta(days=1))
    with pytest.raises(ConfigError, match="another kind than Ed25519"):
        read(tmp_path, parts=with_certificate(der))


def test_a_missing_or_huge_file_is_told(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_party_file(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match="Is a directory"):
        read_party_file(tmp_path)
    (tmp_path / "huge.toml").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(ConfigError, match="more than"):
        read_party_file(tmp_path / "huge.toml")


def test_the_digest_is_of_what_the_file_says(tmp_path):
    plain = read(tmp_path)
    assert plain.digest() == read(tmp_path, "# agreed on Monday\nring = 64\n").digest()
    others = [
        read(tmp_path, "fraction_bits = 12"),
        read(tmp_path, "deadline = 31"),
        read(tmp_path, 'reveals = ["bob"]'),
        read(tmp_path, parts=changed("7001", "7009")(blocks(PORTS))),
        read(tmp_path, parts=changed(r"\Z", 'device = "cuda"')(blocks(PORTS))),
        read(tmp_path, parts=with_certificate(certificate_to_der(OTHER))),
    ]
    assert len({made.digest() for made in [plain, *others]}) == 7


def test_the_snippet_checks_what_it_is_given():
    with pytest.raises(ConfigError, match="name"):
        snippet('eve"\n', "10.0.0.1:1", OTHER)
    with pytest.raises(ConfigError, match="address"):
        snippet("eve", "10.0.0.1", OTHER)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1:7000", "10.0.0.1", 7000),
        ("[::1]:65535", "::1", 65535),
        ("alice.example-1.org:1", "alice.example-1.org", 1),
    ],
)
def test_addresses(text, host, port):
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1",
        "a:0",
        "a:65536",
        "a:b",
        "::1:70",
        "a b:7",
        "a:7\n",
        "a..b:7",
        "[1.2.3.4]:7",
        "[::g]:7",
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(ConfigError, match="allowed are a host and a port"):
        parse_address(text)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_damaged_file_is_read_or_refused(tmp_path, data):
    """Bytes changed, cut and doubled at random: a party file, or ConfigError, of bounded length."""
    path = write_parties(tmp_path, 'reveals = ["bob"]\nring = 64', PORTS)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=40))
    path.write_bytes(content)
    message = ""
    try:
        read_party_file(path)
    except ConfigError as error:
        message = str(error)
    assert len(message) < 4000
