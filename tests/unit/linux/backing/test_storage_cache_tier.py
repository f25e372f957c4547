# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache tiers: what the kernel says is read, the plan, what is refused, and that nothing is taken out before the origin has everything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import cache_modes
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import cache_provider, cache_tier
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import (
    cache_stamp,
    device_mapper,
    device_safety,
)
from cache_kernel import STATUS, Kernel, apply, caches_on, planned, wanted
from unchanged import refused

MIB = 1 << 20


@pytest.fixture
def kernel(tmp_path):
    return Kernel(tmp_path / "root")


@pytest.fixture
def caches(kernel, tmp_path, monkeypatch):
    return caches_on(kernel, tmp_path / "run", monkeypatch)


def stamp(kernel, disk: str = "vdc") -> dict | None:
    return cache_stamp.unpack(kernel.head(f"/dev/{disk}", cache_stamp.BYTES))


# ---- what the kernel says


def test_status_of_a_cache_is_read_by_its_documentation():
    text = STATUS.format(dirty=11, mode="writeback", policy="smq", check="-")
    assert device_mapper.cache_status(text) == {
        "block_bytes": 65536,
        "used": 31,
        "blocks": 272,
        "counts": [101, 17, 203, 19, 5, 36],
        "dirty": 11,
        "mode": "writeback",
        "policy": "smq",
        "migration_threshold": 2048,
        "metadata_mode": "rw",
        "needs_check": False,
    }
    text = STATUS.format(dirty=0, mode="writethrough", policy="cleaner", check="needs_check")
    read = device_mapper.cache_status(text)
    assert (read["mode"], read["policy"], read["needs_check"]) == ("writethrough", "cleaner", True)


@pytest.mark.parametrize("text", ["Fail", "Error", ""])
def test_a_cache_that_failed_has_no_status(text):
    assert device_mapper.cache_status(text) is None


def answer(*targets: tuple, flags: int = 0) -> bytes:
    """What the kernel answers with, written by the layout of include/uapi/linux/dm-ioctl.h."""
    body = b""
    for start, length, kind, text in targets:
        size = -(-(40 + len(text) + 1) // 8) * 8
        body += device_mapper.TARGET.pack(start, length, 0, len(body) + size, kind) + text.ljust(size - 40, b"\0")
    head = device_mapper.HEAD.pack(4, 0, 0, 312 + len(body), 312, len(targets), 0, flags, 0, 0, 0, b"n", b"u", b"")
    return head + body


def test_the_answer_of_the_kernel_is_taken_apart():
    read = device_mapper.parse(answer((0, 4096, b"linear", b"254:16 0"), (4096, 512, b"cache", b"a b c ")))
    assert read == [
        {"start": 0, "length": 4096, "type": "linear", "text": "254:16 0"},
        {"start": 4096, "length": 512, "type": "cache", "text": "a b c"},
    ]
    with pytest.raises(ValueError, match="of more than 16384 bytes"):
        device_mapper.parse(answer(flags=device_mapper.BUFFER_FULL))


def test_the_request_is_that_of_the_kernels_headers():
    """DM_TABLE_STATUS on x86-64 and arm64, as strace prints it."""
    assert device_mapper.TABLE_STATUS == 0xC138FD0C and device_mapper.HEAD.size == 312


def test_the_table_of_a_cache_without_a_mode_writes_back():
    read = cache_provider.parse_cache_table("253:1 253:2 254:16 128 1 metadata2 smq 0")
    assert (read["mode"], read["policy"], read["block_bytes"]) == ("writeback", "smq", 65536)


def test_metadata_and_blocks_fit_and_do_not_overlap():
    for size, block in ((24 * MIB, 64), (24 * MIB + 512, 32), (3 << 40, 256)):
        places = cache_modes.geometry(size, block)
        assert places["metadata_start"] * 512 == MIB
        assert places["blocks_start"] >= places["metadata_start"] + places["metadata_sectors"]
        assert places["metadata_sectors"] * 512 >= (4 << 20) + 16 * places["blocks"]
        end = places["blocks_start"] + places["blocks_sectors"]
        assert size - block * 1024 < end * 512 <= size and places["blocks_sectors"] == places["blocks"] * block * 2
    assert cache_modes.geometry(2 * MIB, 64)["blocks"] == 0


# ---- in and out


def test_a_tier_is_made_over_its_origin_and_the_cache_put_in(kernel, caches):
    apply(caches, [wanted(migration_kib=4096)])
    assert planned(caches, [wanted()]) == []
    tier, metadata, blocks = (kernel.maps[f"storlab:embedded:e4{part}"] for part in ("", ":metadata", ":blocks"))
    assert tier["table"][0]["length"] == 48 * 2048
    text = "253:{} 253:{} 254:16 128 2 metadata2 writeback smq 2 migration_threshold 8192"
    assert tier["table"][0]["text"] == text.format(metadata["block"][3:], blocks["block"][3:])
    assert (metadata["table"][0]["text"], blocks["table"][0]["text"]) == ("254:32 2048", "254:32 12288")
    assert kernel.done[:3] == ["modprobe dm_mod", "modprobe dm_cache", "modprobe dm_cache_smq"]
    assert (stamp(kernel)["state"], stamp(kernel)["name"]) == ("cached", "e4")


def test_nothing_is_taken_out_before_the_origin_has_everything(kernel, caches):
    apply(caches, [wanted()])
    kernel.done.clear()
    assert planned(caches, [wanted(cached=False)]) == [("take_out", "the origin alone")]
    apply(caches, [wanted(cached=False)])
    tables = [line.split("--table ")[1] for line in kernel.done if "reload" in line]
    # First a cache that writes through and cleans, then the origin.
    assert (
        len(tables) == 2 and tables[0].endswith("writethrough cleaner 0") and tables[1] == "0 98304 linear /dev/vdb 0"
    )
    assert list(kernel.maps) == ["storlab:embedded:e4"] and stamp(kernel)["state"] == "clean"
    assert planned(caches, [wanted(cached=False)]) == []


def test_a_cache_that_is_not_clean_in_time_stays_and_says_how_much_is_left(kernel, caches):
    apply(caches, [wanted()])
    kernel.cleans = False
    with pytest.raises(Failure, match="After 0 s the cache of e4 still has 7 blocks that its origin lacks") as caught:
        apply(caches, [], present=False)
    assert caught.value.code == "cache_dirty"
    assert kernel.maps["storlab:embedded:e4"]["table"][0]["type"] == "cache" and stamp(kernel)["state"] == "cached"
    # Run again it goes on; asked for again it is put in anew, for it only cleans.
    assert [op for op, _will in planned(caches, [wanted()])] == ["take_out", "put_in"]
    kernel.cleans = True
    apply(caches, [], present=False)
    assert kernel.maps == {} and stamp(kernel) is None


@pytest.mark.parametrize("more", [{"mode": "writethrough"}, {"block_kib": 128}])
def test_another_mode_or_size_of_blocks_is_a_cache_made_anew(kernel, caches, more):
    apply(caches, [wanted()])
    assert [op for op, _will in planned(caches, [wanted(**more)])] == ["take_out", "put_in"]
    apply(caches, [wanted(**more)])
    assert planned(caches, [wanted(**more)]) == []


def test_a_cache_that_is_put_in_again_begins_with_metadata_of_zeros(kernel, caches):
    apply(caches, [wanted()])
    apply(caches, [wanted(cached=False)])
    with open(kernel.real("/dev/vdc"), "r+b") as stream:
        stream.seek(MIB)
        stream.write(b"what the cache held" * 99)
    kernel.dirty = 0
    apply(caches, [wanted()])
    with open(kernel.real("/dev/vdc"), "rb") as stream:
        stream.seek(MIB)
        assert stream.read(cache_stamp.BYTES) == bytes(cache_stamp.BYTES)


def test_teardown_removes_what_was_made_and_leaves_the_origin(kernel, caches, tmp_path):
    with open(kernel.real("/dev/vdb"), "r+b") as stream:
        stream.write(b"not looked at by the guard" * 3)
    before = Path(kernel.real("/dev/vdb")).read_bytes()
    apply(caches, [wanted()])
    assert planned(caches, [], present=False) == [("take_out", "the origin alone"), ("remove", None)]
    apply(caches, [], present=False)
    assert kernel.maps == {}
    assert Path(kernel.real("/dev/vdb")).read_bytes() == before
    fast = Path(kernel.real("/dev/vdc")).read_bytes()
    assert fast == bytes(len(fast))
    caches().forget()
    assert not (tmp_path / "run").exists()


def test_an_absent_that_has_nothing_to_do_changes_nothing(kernel, caches):
    assert planned(caches, [wanted()], present=False) == []
    assert apply(caches, [], present=False) == {} and kernel.done == []


def test_another_testbeds_tier_is_not_touched(kernel, caches):
    apply(caches, [wanted()])
    other = caches("embedded-2")
    assert other.current([], False) == {} and other.current([wanted()], False)["e4"]["stamp"] is None


# ---- after a boot


def test_after_a_boot_a_write_back_cache_is_put_together_again_for_only_it_has_everything(kernel, caches, tmp_path):
    apply(caches, [wanted()])
    kernel.boot()
    os.unlink(tmp_path / "run/embedded/cache_tier.json")
    assert planned(caches, [wanted(cached=False)]) == [
        ("assemble", "write-back cache in blocks of 64 KiB"),
        ("take_out", "the origin alone"),
    ]
    uuid = stamp(kernel)["uuid"]
    apply(caches, [wanted()])
    assert kernel.maps["storlab:embedded:e4"]["table"][0]["type"] == "cache"
    assert caches().mappings().keys() >= {f"STORLAB-CACHE:embedded:e4:{uuid}"}


def test_after_a_boot_a_write_through_cache_begins_anew_for_the_origin_may_have_been_written(kernel, caches):
    apply(caches, [wanted(mode="writethrough")])
    kernel.boot()
    assert [op for op, _will in planned(caches, [wanted(mode="writethrough")])] == ["assemble", "put_in"]


def test_after_a_boot_teardown_writes_back_what_the_origin_lacks(kernel, caches, tmp_path):
    apply(caches, [wanted()])
    kernel.boot()
    os.unlink(tmp_path / "run/embedded/cache_tier.json")
    assert [op for op, _will in planned(caches, [wanted()], present=False)] == ["assemble", "take_out", "remove"]
    apply(caches, [wanted()], present=False)
    assert kernel.dirty == 0 and kernel.maps == {} and stamp(kernel) is None


def test_a_cache_that_may_have_what_its_origin_lacks_goes_with_no_other(kernel, caches):
    apply(caches, [wanted()])
    kernel.boot()
    other = wanted(origin={"serial": "slow2"})
    for described, present in (([other], True), ([other], False)):
        with refused(lambda: list(kernel.done), match="/dev/vdc may hold what the origin of cache e4 lacks") as caught:
            planned(caches, described, present)
        assert caught.value.code == "cache_origin_missing"


# ---- refused


def test_a_failed_cache_that_wrote_back_is_left_alone_and_one_that_wrote_through_is_replaced(kernel, caches):
    apply(caches, [wanted()])
    kernel.check = "needs_check"
    with refused(lambda: list(kernel.done)) as caught:
        planned(caches, [wanted()])
    assert caught.value.code == "cache_failed"
    kernel.check = "-"
    apply(caches, [wanted(mode="writethrough")])
    kernel.check = "needs_check"
    assert [op for op, _will in planned(caches, [wanted(mode="writethrough")])] == ["take_out", "put_in"]


def test_another_origin_is_no_change_that_is_followed(kernel, caches):
    apply(caches, [wanted()])
    with refused(lambda: list(kernel.done), match=r"its origin is 254:16 instead of /dev/vdd \(254:48\)") as caught:
        planned(caches, [wanted(origin={"serial": "slow2"})])
    assert caught.value.code == "cache_differs"


def test_another_fast_device_is_no_change_that_is_followed(kernel, caches):
    apply(caches, [wanted()])
    with refused(lambda: list(kernel.done), match=r"its fast device is 254:32 instead of /dev/vde \(254:64\)"):
        planned(caches, [wanted(fast={"serial": "fast2"})])


@pytest.mark.parametrize(("disk", "part"), [("vdb", "origin"), ("vdc", "fast device")])
def test_a_disk_that_holds_something_is_refused(kernel, caches, disk, part):
    kernel.signatures[f"/dev/{disk}"] = "ext4"
    with refused(lambda: list(kernel.done), match=f"Layer {part} of cache e4 .* carries a signature of ext4") as caught:
        apply(caches, [wanted()])
    assert caught.value.code == "signature_present"


@pytest.mark.parametrize("signature", [None, "ext4"])
def test_an_origin_that_the_testbed_published_may_hold_data(kernel, caches, signature):
    layer = {
        "name": "backing-slow",
        "kind": "backing",
        "host": "target01",
        "path": "/dev/vdb",
        "parent": None,
        "purpose": "data",
    }
    layer.update(size_bytes=48 * MIB, identity={"serial": "slow"}, detail={"generation": "g7"})
    if signature:
        kernel.signatures["/dev/vdb"] = signature
    described = [wanted(origin={"layer": "backing-slow"}, layer=layer)]
    current = apply(caches, described)
    published = caches().layers(described, current)[0]
    assert (published["parent"], published["detail"]["generation"]) == ("backing-slow", "g7")
    # Another disk of that name is not it.
    layer["identity"] = {"serial": "slow2"}
    apply(caches, described, present=False)
    with refused(lambda: list(kernel.done), match="/dev/vdb has serial slow, the layer has slow2") as caught:
        apply(caches, described)
    assert caught.value.code == "wrong_serial"


def test_the_stamp_is_a_signature_for_the_guard(kernel, caches):
    apply(caches, [wanted(cached=False)])
    kernel.boot()
    facts = device_safety.inspect("/dev/vdc", system=kernel)
    assert facts["signature"] == {"TYPE": "storlab_cache"}
    assert device_safety.inspect("/dev/vde", system=kernel)["signature"] == {}


def test_a_used_tier_is_not_removed_and_the_user_is_named(kernel, caches):
    apply(caches, [wanted()])
    kernel.write(
        "/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n30 21 253:0 / /srv/x rw - ext4 /dev/dm-0 rw\n"
    )
    with refused(
        lambda: list(kernel.done), match=r"Cache e4 \(/dev/dm-0\) cannot be removed: it is mounted on /srv/x"
    ) as caught:
        apply(caches, [], present=False)
    assert caught.value.code == "device_mounted"
    # What is mounted stays, while the cache beneath it goes.
    apply(caches, [wanted(cached=False)])
    assert kernel.maps["storlab:embedded:e4"]["table"][0]["type"] == "linear"


def test_a_fast_device_too_small_for_its_blocks_is_refused(kernel, caches):
    with refused(lambda: list(kernel.done), match="too few for 16 blocks of 2048 KiB"):
        apply(caches, [wanted(block_kib=2048)])


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"block_kib": 48},
            "cache_tier_caches e4 block is '48KiB', but a block is a multiple of 32KiB, up to 1GiB: write one",
        ),
        ({"block_kib": 0}, "but a block is a multiple of 32KiB"),
        ({"migration_kib": 256}, "cache_tier_caches e4 migration is '256KiB', but the kernel moves no blocks of 64KiB"),
        ({"origin": {}}, "Say its layer, or its serial, naa, wwid or uuid."),
        ({"origin": {"layer": "backing-x", "serial": "s"}}, "Say its layer, or its serial, naa, wwid or uuid."),
        ({"fast": {"serial": None}}, "Say which disk is meant"),
        ({"name": "e 4"}, "cache_tier_caches name is 'e 4'."),
    ],
)
def test_bad_caches(more, sentence):
    with pytest.raises(Failure) as caught:
        cache_tier.check_caches([wanted(**more)], {})
    assert caught.value.code == "bad_value" and sentence in str(caught.value)


def test_a_layer_that_nobody_published_is_refused_unless_all_goes():
    described = [wanted(origin={"layer": "backing-x"})]
    with pytest.raises(Failure, match="which was never published on this host") as caught:
        cache_tier.check_caches(described, {})
    assert caught.value.code == "layer_missing"
    assert cache_tier.check_caches(described, {}, present=False)[0]["layer"] is None


# ---- the layer


def test_the_layer_says_what_the_figures_depend_on(kernel, caches):
    described = [wanted(emulated_delay={"iops": 300})]
    current = apply(caches, described)
    layer = caches().layers(described, current)[0]
    assert layer["detail"]["emulated_delay"] == {"iops": 300} and layer["path"] == "/dev/dm-0"
    assert layer["detail"]["cache_tier"] == {
        "cached": True,
        "provider": "dm_cache",
        "origin": {"device": "/dev/vdb", "serial": "slow"},
        "mode": "writeback",
        "policy": "smq",
        "block_bytes": 65536,
        "blocks": 288,
        "migration_bytes": MIB,
        "fast": {"device": "/dev/vdc", "serial": "fast"},
    }
    facts = device_safety.inspect("/dev/dm-0", system=kernel)
    assert device_safety.refusals(facts, {**layer, "host": "target01"}) == []
    stale = {**layer, "host": "target01", "identity": {**layer["identity"], "uuid": "STORLAB-CACHE:embedded:e4:0"}}
    assert [item.code for item in device_safety.refusals(facts, stale)] == ["device_mapped"]
    out = [wanted(cached=False)]
    assert caches().layers(out, apply(caches, out))[0]["detail"]["cache_tier"] == {
        "cached": False,
        "origin": {"device": "/dev/vdb", "serial": "slow"},
    }


def test_tiers_that_are_not_there_yet_are_predicted(caches):
    described = [wanted(), wanted(name="two", origin={"serial": "slow2"}, fast={"serial": "fast2"})]
    layers = caches().layers(described, caches().current(described))
    assert [(layer["path"], layer["size_bytes"] >> 20) for layer in layers] == [("/dev/dm-0", 48), ("/dev/dm-1", 56)]


def test_a_stamp_fits_into_a_sector_whatever_the_names():
    fields = {"testbed_id": "t" * 32, "name": "n" * 32, "uuid": "f" * 32, "state": "cached", "mode": "writethrough"}
    fields.update(block_kib=1 << 20, origin="d" * 32, origin_bytes=1 << 60)
    packed = cache_stamp.pack(fields)
    assert len(packed) == 4096 and packed[512:] == bytes(3584) and cache_stamp.unpack(packed) == fields
    assert cache_stamp.unpack(bytes(4096)) is None and cache_stamp.unpack(cache_stamp.MAGIC + b"{") == {}
    with pytest.raises(ValueError, match="a stamp of"):
        cache_stamp.pack({**fields, "more": "x" * 512})
