# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caches by LVM and bcache: what bcache reads on disks, that the origin keeps every byte, and that nothing is taken out before it has everything.

The host of tests/standins/cache_kernel.py ends a test itself when a step would lose data: a tier that is turned to its origin while
only the cache has something, LVM that looks at other devices or wipes what it finds, a device that goes while something holds it.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import cache_modes
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import (
    cache_bcache,
    cache_lvm,
    cache_provider,
    cache_tier,
)
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import cache_stamp
from cache_kernel import Kernel, apply, caches_on, planned, wanted
from unchanged import broken_off, refused

MIB = 1 << 20
TITLE = "storlab:embedded:e4"
BOTH = pytest.mark.parametrize("provider", ["lvm", "bcache"])


@pytest.fixture
def kernel(tmp_path):
    return Kernel(tmp_path / "root")


@pytest.fixture
def caches(kernel, tmp_path, monkeypatch):
    return caches_on(kernel, tmp_path / "run", monkeypatch)


def tier(provider: str, **more) -> dict:
    """Of the disks that are large enough for it: 56 and 40 MiB."""
    return wanted(**{"provider": provider, "origin": {"serial": "slow2"}, "fast": {"serial": "fast3"}, **more})


def stamp(kernel) -> dict | None:
    return cache_stamp.unpack(kernel.head("/dev/vdf", cache_stamp.BYTES))


def below(kernel) -> str:
    """What the tier's table is over."""
    (target,) = kernel.maps[TITLE]["table"]
    assert target["type"] == "linear" and target["length"] == 56 * 2048
    return target["text"].split()[0]


# ---- superblocks of bcache, as make-bcache of bcache-tools 1.0.8 writes them


def test_a_caches_superblock_is_that_of_make_bcache():
    own, of_set = uuid.UUID("0fc69d92-db4d-47bd-87c2-5fe4b4a17259"), uuid.UUID("76b92167-02e1-437c-92e3-370473423533")
    written = bytes.fromhex(
        "d793be346e1c7fc508000000000000000000000000000000c68573f64e1a45ca8265f57f48ba6d810fc69d92db4d47bd87c25fe4b4a17259"
        "76b9216702e1437c92e3370473423533" + "00" * 112 + "000400000000000001008000010000000000000001000000"
    )
    # -b 64k -w 512, of 64 MiB
    assert cache_bcache.of_cache(own, of_set, 64 * 2048, 128, 1) == written


def test_a_backing_devices_superblock_is_that_of_make_bcache_but_for_its_set():
    """make-bcache gives it a set that nobody has, and bytes of a bucket that nobody reads; the sum is over them."""
    read = cache_bcache.of_backing(uuid.UUID("cde98ad3-7f4c-460d-b635-44ee8031198b"), 2048, 8)
    written = bytes.fromhex(
        "a9998e1525c831a408000000000000000400000000000000c68573f64e1a45ca8265f57f48ba6d81cde98ad37f4c460db63544ee8031198b"
        "d708fa3796e3434aaf2b314f40615176" + "00" * 112 + "000800000000000008000004000000000000000000000000"
    )
    assert (len(read), len(written)) == (208, 208)
    assert int.from_bytes(written[:8], "little") == cache_bcache.checksum(written[8:])
    assert int.from_bytes(read[:8], "little") == cache_bcache.checksum(read[8:])
    assert read[8:56] == written[8:56] and read[56:72] == bytes(16) and read[72:194] == written[72:194]


@pytest.mark.parametrize(
    ("text", "count"),
    [("0.0k", 0), ("3.9M", 4089446), ("512", 512), ("1.5G", 3 << 29), ("", None), (None, None), ("much", None)],
)
def test_sizes_that_bcache_shows(text, count):
    assert cache_bcache.read_size(text) == count


@BOTH
@pytest.mark.parametrize(("size", "block"), [(40 * MIB, 64), (24 * MIB + 512, 32), (3 << 40, 256)])
def test_what_lies_on_a_fast_device_fits_and_does_not_overlap(provider, size, block):
    places = cache_modes.geometry(size, block, provider)
    assert places["front_start"] * 512 == MIB and places["front_sectors"] * 512 == MIB
    assert places["tail_start"] == places["front_start"] + places["front_sectors"]
    # Less than an extent of 4 MiB is what a volume can lack.
    assert places["blocks_start"] == places["tail_start"] + (8192 if provider == "lvm" else 0)
    assert places["blocks_start"] + places["blocks_sectors"] <= size // 512
    assert 0 < places["blocks"] * block * 1024 <= places["blocks_sectors"] * 512


# ---- in and out


@BOTH
@pytest.mark.parametrize("mode", ["writeback", "writethrough"])
def test_a_cache_is_put_in_taken_out_and_removed_and_the_origin_keeps_every_byte(
    kernel, caches, tmp_path, provider, mode
):
    with open(kernel.real("/dev/vdd"), "r+b") as stream:
        stream.write(b"what the origin holds" * 9999)
    before = Path(kernel.real("/dev/vdd")).read_bytes()
    aim = tier(provider, mode=mode)
    current = apply(caches, [aim])
    assert planned(caches, [aim]) == []
    assert below(kernel).startswith({"lvm": "253:", "bcache": "252:0"}[provider])
    assert (stamp(kernel)["provider"], stamp(kernel)["state"], stamp(kernel)["mode"]) == (provider, "cached", mode)
    facts = caches().layers([aim], current)[0]["detail"]["cache_tier"]
    assert (facts["provider"], facts["mode"], facts["cached"]) == (provider, mode, True)
    assert planned(caches, [tier(provider, mode=mode, cached=False)]) == [("take_out", "the origin alone")]
    apply(caches, [tier(provider, mode=mode, cached=False)])
    assert list(kernel.maps) == [TITLE] and below(kernel) == "254:48" and stamp(kernel)["state"] == "clean"
    kernel.dirty = 5 if mode == "writeback" else 0
    apply(caches, [aim])
    apply(caches, [], present=False)
    assert kernel.maps == {} and not kernel.names("/sys/block/bcache0")
    assert Path(kernel.real("/dev/vdd")).read_bytes() == before
    fast = Path(kernel.real("/dev/vdf")).read_bytes()
    assert fast == bytes(len(fast))
    caches().forget()
    assert not (tmp_path / "run").exists()


def test_the_superblock_before_the_origin_lies_on_the_fast_device(kernel, caches):
    apply(caches, [tier("bcache", mode="writearound")])
    backing, blocks = kernel.maps[f"{TITLE}:backing"]["table"], kernel.maps[f"{TITLE}:blocks"]["table"]
    assert [(item["length"], item["text"]) for item in backing] == [(2048, "254:80 2048"), (56 * 2048, "254:48 0")]
    assert [(item["length"], item["text"]) for item in blocks] == [(38 * 2048, "254:80 4096")]
    assert "writearound > /sys/block/dm-2/bcache/cache_mode" in kernel.done
    assert kernel.read("/sys/block/dm-2/bcache/state") == "clean"
    assert Path(kernel.real("/dev/vdd")).read_bytes() == bytes(56 * MIB)


def test_lvm_is_told_what_is_asked_for_and_wipes_nothing(kernel, caches):
    apply(caches, [tier("lvm", migration_kib=4096)])
    group = f"storlab_{stamp(kernel)['uuid']}"
    made = [line for line in kernel.done if line.startswith("lvm ")]
    assert [line.split()[1] for line in made] == [
        "pvcreate",
        "vgcreate",
        "lvcreate",
        "lvcreate",
        "lvconvert",
        "lvchange",
    ]
    assert (
        f"--cachemode writeback --chunksize 64k --cachepolicy smq --cachesettings migration_threshold=8192 {group}/device"
        in made[4]
    )


def test_an_origin_that_does_not_end_with_an_extent_gets_the_rest_from_the_fast_device(kernel, caches):
    kernel.write("/sys/devices/block/vdd/size", str(56 * 2048 - 1))
    apply(caches, [tier("lvm")])
    volume = kernel.maps[f"{TITLE}:volume"]["table"]
    ends = (0, 2048, 58 * 2048 - 2048 - 1)
    parts = ((2048, "254:80 2048"), (56 * 2048 - 1, "254:48 0"), (1, "254:80 4096"))
    assert [(item["start"], item["length"], item["text"]) for item in volume] == [
        (start, *part) for start, part in zip(ends, parts)
    ]
    # The tier is as long as its origin all the same.
    assert kernel.maps[TITLE]["table"][0]["length"] == 56 * 2048 - 1


@BOTH
def test_a_cache_that_is_not_clean_in_time_stays_and_a_run_later_goes_on(kernel, caches, provider):
    apply(caches, [tier(provider)])
    kernel.cleans, over = False, below(kernel)
    with broken_off(match=r"After 0 s the cache of e4 still has .* that its origin lacks") as caught:
        apply(caches, [], present=False)
    assert caught.value.code == "cache_dirty"
    assert below(kernel) == over and stamp(kernel)["state"] == "cached"
    # Asked for again it is put in anew, for it only cleans.
    assert [op for op, _will in planned(caches, [tier(provider)])] == ["take_out", "put_in"]
    kernel.cleans = True
    apply(caches, [], present=False)
    assert kernel.maps == {} and stamp(kernel) is None and kernel.dirty == 0


def test_a_cache_goes_from_one_provider_to_another_beneath_its_device(kernel, caches):
    before = None
    for provider in ("dm_cache", "bcache", "lvm", "bcache", "dm_cache"):
        if before:
            ops = [("take_out", "the origin alone"), ("put_in", cache_modes.words(True, "writeback", 64, provider))]
            assert planned(caches, [tier(provider)]) == ops
        apply(caches, [tier(provider)])
        kernel.dirty = 3
        mapped = kernel.read("/sys/block/dm-0/dm/uuid")
        assert planned(caches, [tier(provider)]) == [] and before in (None, mapped)
        before = mapped
    apply(caches, [], present=False)
    assert kernel.maps == {}


@BOTH
@pytest.mark.parametrize("more", [{"mode": "writethrough"}, {"block_kib": 32}])
def test_another_mode_or_size_of_blocks_is_a_cache_made_anew(kernel, caches, provider, more):
    apply(caches, [tier(provider)])
    assert [op for op, _will in planned(caches, [tier(provider, **more)])] == ["take_out", "put_in"]
    apply(caches, [tier(provider, **more)])
    assert planned(caches, [tier(provider, **more)]) == []


# ---- interrupted, and after a boot


@BOTH
def test_what_an_interrupted_step_left_is_taken_apart_first(kernel, caches, provider, monkeypatch):
    apply(caches, [tier(provider, cached=False)])
    with monkeypatch.context() as patched:
        patched.setattr(cache_tier.Caches, "turn", lambda *_words: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            apply(caches, [tier(provider)])
    # The device is there, and the tier does not go through it.
    assert len(kernel.maps) >= 3 and below(kernel) == "254:48"
    assert [op for op, _will in planned(caches, [tier(provider)])] == ["put_in"]
    kernel.dirty = 0
    apply(caches, [tier(provider)])
    assert planned(caches, [tier(provider)]) == []
    apply(caches, [], present=False)
    assert kernel.maps == {} and not kernel.names("/sys/block/bcache0")


@BOTH
def test_after_a_boot_a_write_back_cache_is_put_together_again_for_only_it_has_everything(
    kernel, caches, tmp_path, provider
):
    apply(caches, [tier(provider)])
    kernel.boot()
    os.unlink(tmp_path / "run/embedded/cache_tier.json")
    kernel.done.clear()
    assert planned(caches, [tier(provider)]) == [("assemble", cache_modes.words(True, "writeback", 64, provider))]
    apply(caches, [tier(provider)])
    # Not made anew: what it holds is what the origin lacks.
    assert not [line for line in kernel.done if "pvcreate" in line or "attach" in line]
    assert planned(caches, [tier(provider)]) == [] and kernel.dirty == 7
    kernel.boot()
    assert [op for op, _will in planned(caches, [tier(provider)], present=False)] == ["assemble", "take_out", "remove"]
    apply(caches, [tier(provider)], present=False)
    assert kernel.dirty == 0 and kernel.maps == {} and stamp(kernel) is None


@pytest.mark.parametrize(
    ("provider", "mode"), [("lvm", "writethrough"), ("bcache", "writethrough"), ("bcache", "writearound")]
)
def test_after_a_boot_a_cache_without_anything_of_its_own_begins_anew(kernel, caches, provider, mode):
    apply(caches, [tier(provider, mode=mode)])
    kernel.boot()
    assert [op for op, _will in planned(caches, [tier(provider, mode=mode)])] == ["assemble", "put_in"]
    apply(caches, [tier(provider, mode=mode)])
    assert planned(caches, [tier(provider, mode=mode)]) == []


# ---- refused


@BOTH
def test_a_cache_that_the_kernel_gave_up_is_left_alone_when_only_it_may_have_what_was_written(kernel, caches, provider):
    def gives_up() -> None:
        if provider == "bcache":
            kernel.write("/sys/block/dm-2/bcache/state", "inconsistent")
        kernel.check = "needs_check"

    apply(caches, [tier(provider)])
    gives_up()
    with refused(lambda: list(kernel.done)) as caught:
        planned(caches, [tier(provider)])
    assert caught.value.code == "cache_failed"
    with refused(lambda: list(kernel.done)):
        planned(caches, [], present=False)


@BOTH
def test_one_that_wrote_through_and_failed_is_replaced(kernel, caches, provider):
    apply(caches, [tier(provider, mode="writethrough")])
    kernel.dirty, kernel.check = 0, "needs_check"
    if provider == "bcache":
        kernel.write("/sys/block/dm-2/bcache/state", "inconsistent")
    assert [op for op, _will in planned(caches, [tier(provider, mode="writethrough")])] == ["take_out", "put_in"]
    kernel.check = "-"
    apply(caches, [tier(provider, mode="writethrough")])
    assert planned(caches, [tier(provider, mode="writethrough")]) == []


def test_a_bcache_that_the_kernel_stopped_with_what_only_it_has_is_left_alone(kernel, caches):
    apply(caches, [tier("bcache")])
    for name in kernel.names("/sys/block/dm-2/bcache"):
        os.unlink(kernel.real(f"/sys/block/dm-2/bcache/{name}"))
    with refused(lambda: list(kernel.done)) as caught:
        planned(caches, [], present=False)
    assert caught.value.code == "cache_failed"


def test_a_bcache_that_the_kernel_does_not_take_fails_in_a_sentence_and_the_tier_stays_on_its_origin(
    kernel, caches, monkeypatch
):
    def full(path: str, text: str) -> None:
        if path == cache_bcache.REGISTER:
            raise OSError(22, "Invalid argument")
        kernel.attribute(path, text)

    apply(caches, [tier("bcache", cached=False)])
    monkeypatch.setattr(cache_bcache, "write_text", full)
    with broken_off(match="bcache does not take /dev/dm-1 of cache e4: Invalid argument") as caught:
        apply(caches, [tier("bcache")])
    assert caught.value.code == "cache_missing" and below(kernel) == "254:48" and stamp(kernel)["state"] == "clean"
    monkeypatch.setattr(cache_bcache, "write_text", kernel.attribute)
    apply(caches, [], present=False)
    assert kernel.maps == {}


def test_a_device_that_udev_registered_first_is_taken_as_it_is(kernel, caches, monkeypatch):
    def quicker(path: str, text: str) -> None:
        kernel.attribute(path, text)
        if path == cache_bcache.REGISTER:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(cache_bcache, "write_text", quicker)
    apply(caches, [tier("bcache")])
    assert planned(caches, [tier("bcache")]) == []


def test_a_bcache_that_does_not_go_is_said_and_nothing_is_lost(kernel, caches, monkeypatch):
    apply(caches, [tier("bcache")])
    stops = lambda path, text: None if path.endswith("/stop") else kernel.attribute(path, text)  # noqa: E731
    monkeypatch.setattr(cache_bcache, "write_text", stops)
    with broken_off(match="bcache does not let go of the backing of cache e4") as caught:
        apply(caches, [], present=False)
    assert caught.value.code == "cache_in_use" and below(kernel) == "254:48"
    monkeypatch.setattr(cache_bcache, "write_text", kernel.attribute)
    apply(caches, [], present=False)
    assert kernel.maps == {}


def test_lvm_that_activates_nothing_is_said(kernel, caches, monkeypatch):
    quiet = lambda argv, **more: None if "--activate" in argv and argv[1] == "lvchange" else kernel.lvm(argv, **more)  # noqa: E731
    monkeypatch.setattr(cache_lvm, "run", quiet)
    with broken_off(match="Cache e4 is not there, although LVM said that it was activated") as caught:
        apply(caches, [tier("lvm")])
    assert caught.value.code == "cache_missing" and below(kernel) == "254:48"


@pytest.mark.parametrize(
    ("provider", "block", "sentence"),
    [
        ("bcache", 128, "too few for 513 blocks of 128 KiB with bcache"),
        ("lvm", 2048, "too few for 16 blocks of 2048 KiB with lvm"),
    ],
)
def test_a_fast_device_too_small_for_its_provider_is_refused(kernel, caches, provider, block, sentence):
    with refused(lambda: list(kernel.done), match=sentence):
        apply(caches, [tier(provider, block_kib=block)])


@BOTH
@pytest.mark.parametrize(("disk", "part"), [("vdd", "origin"), ("vdf", "fast device")])
def test_a_disk_that_holds_something_is_refused(kernel, caches, provider, disk, part):
    kernel.signatures[f"/dev/{disk}"] = "ext4"
    with refused(lambda: list(kernel.done), match=f"Layer {part} of cache e4 .* carries a signature of ext4"):
        apply(caches, [tier(provider)])


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"mode": "writearound"},
            "cache_tier_caches e4 mode is 'writearound', but dm_cache has no write-around: write writethrough or writeback",
        ),
        ({"mode": "writearound", "provider": "lvm"}, "but lvm has no write-around"),
        ({"block_kib": 96, "provider": "bcache"}, "but a bucket of bcache is a power of two from 32KiB to 16MiB"),
        ({"block_kib": 32 << 10, "provider": "bcache"}, "but a bucket of bcache is a power of two from 32KiB to 16MiB"),
        ({"block_kib": 16, "provider": "bcache"}, "but a block is a multiple of 32KiB"),
        ({"migration_kib": 4096, "provider": "bcache"}, "but bcache moves nothing that this could hold back"),
    ],
)
def test_bad_caches(more, sentence):
    with pytest.raises(Failure) as caught:
        cache_tier.check_caches([wanted(**more)], {})
    assert caught.value.code == "bad_value" and sentence in str(caught.value)


# ---- what stamps say, and what is put back


def test_a_stamp_of_an_older_release_is_one_of_dm_cache(kernel, caches):
    apply(caches, [wanted()])
    older = {
        key: value for key, value in cache_stamp.unpack(kernel.head("/dev/vdc", 4096)).items() if key != "provider"
    }
    caches().write("/dev/vdc", cache_stamp.pack(older))
    assert planned(caches, [wanted()]) == []
    kernel.boot()
    assert planned(caches, [wanted()]) == [("assemble", "write-back cache in blocks of 64 KiB")]


def test_a_cache_that_only_cleans_keeps_what_it_was_made_with():
    made = "253:5 253:4 253:6 128 2 metadata2 writeback mq 2 migration_threshold 8192"
    assert cache_provider.emptied(made) == "253:5 253:4 253:6 128 2 metadata2 writethrough cleaner 0"
    assert cache_provider.emptied("1:1 1:2 1:3 64 0 smq 0") == "1:1 1:2 1:3 64 1 writethrough cleaner 0"


def test_facts_say_what_each_provider_has_and_nothing_else(kernel, caches):
    common = {"cached", "origin", "provider", "mode", "block_bytes", "fast", "policy", "blocks"}
    for provider, own in (("bcache", {"sequential_cutoff_bytes"}), ("lvm", {"migration_bytes"})):
        aim = tier(provider)
        current = apply(caches, [aim])
        facts = caches().layers([aim], current)[0]["detail"]["cache_tier"]
        assert facts.keys() == common | own
        kernel.dirty = 0
        apply(caches, [], present=False)
    # Before it is made nobody knows what LVM takes for itself, nor what bcache does by itself.
    aim = tier("lvm")
    assert "blocks" not in caches().layers([aim], caches().current([aim]))[0]["detail"]["cache_tier"]
