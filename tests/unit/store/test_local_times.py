# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Local times of IOMeter's files with the zone that the user names: the stamp after the results of a test is its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import iometer
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import import_files, importer, local_times

FIXTURE = Path(__file__).parents[1] / "fixtures" / "iometer" / "SYNTHETIC_1.1.0.csv"
MARK = "'Time Stamp\n"


def text_of(before: str, *after: str | None) -> str:
    """A run of two tests, of 30 and of 10 seconds, with these stamps; None leaves one out."""
    run = FIXTURE.read_text(encoding="utf-8").split("'End Test")[0]
    parts = run.split(MARK)
    assert len(parts) == 4, "one stamp before the first test, one after each of two"
    stamps = [before, *after]
    text = parts[0]
    for stamp, part in zip(stamps, parts[1:]):
        text += (f"{MARK}{stamp}\n" if stamp else "") + part.partition("\n")[2]
    return f"{text}'End Test\n"


def spans(text: str, zone: str | None) -> list[tuple[object, object]]:
    entries = import_files.read("host1/run.csv", text.encode())
    if zone is not None:
        entries = local_times.dated(entries, local_times.zone_of(zone))
    results, unread = importer.points(entries, "lab", "run", "array")
    assert unread == [] and [result["runtime_s"] for result in results] == [30, 10]
    return [(result.get("started_utc"), result.get("finished_utc")) for result in results]


TWO = text_of("2026-07-05 10:11:12:131", "2026-07-05 10:11:45:9", "2026-07-05 10:12:00:500")


@pytest.mark.parametrize(("zone", "hour"), [("UTC", "10"), ("+02:00", "08"), ("-05:00", "15"), ("Europe/Berlin", "08")])
def test_the_stamp_after_the_results_is_the_end_of_that_test(zone, hour):
    assert spans(TWO, zone) == [
        (f"2026-07-05T{hour}:11:15.009Z", f"2026-07-05T{hour}:11:45.009Z"),
        (f"2026-07-05T{hour}:11:50.500Z", f"2026-07-05T{hour}:12:00.500Z"),
    ]


def test_without_a_zone_no_test_has_a_time():
    assert spans(TWO, None) == [(None, None)] * 2


@pytest.mark.parametrize(
    "text",
    [
        text_of("2026-07-05 10:11:12:131", None, None),
        text_of("2026-07-05 10:11:12:131", "2026-07-05 10:11:20:131", "2026-07-05 10:11:22:131"),  # too early
        text_of("2026-07-05 10:11:12:131", "2026-13-05 10:11:45:131", "2026-13-05 10:12:45:131"),  # no month
        text_of("05.07.2026 10:11:12", "05.07.2026 10:11:45", "05.07.2026 10:12:00"),  # not IOMeter's
    ],
)
def test_what_the_stamps_do_not_say_is_absent(text):
    assert spans(text, "UTC") == [(None, None)] * 2


def test_a_test_that_begins_at_no_stamp_is_absent_and_the_next_has_its_time():
    text = text_of("2026-07-05 10:11:12:131", None, "2026-07-05 10:12:00:500")
    assert spans(text, "UTC")[1] == ("2026-07-05T10:11:50.500Z", "2026-07-05T10:12:00.500Z")
    lost_head = text_of("", "2026-07-05 10:11:45:131", "2026-07-05 10:12:00:500")
    assert spans(lost_head, "UTC")[0] == (None, None)


def test_an_hour_that_the_zone_has_twice_or_never_is_absent():
    autumn = text_of("2026-10-25 01:59:20:0", "2026-10-25 02:30:00:0", "2026-10-25 03:30:00:0")
    spring = text_of("2026-03-29 01:00:00:0", "2026-03-29 02:30:00:0", "2026-03-29 03:30:00:0")
    for text in (autumn, spring):
        assert spans(text, "Europe/Berlin") == [(None, None)] * 2
    assert spans(autumn, "+01:00") == [
        ("2026-10-25T01:29:30.000Z", "2026-10-25T01:30:00.000Z"),
        ("2026-10-25T02:29:50.000Z", "2026-10-25T02:30:00.000Z"),
    ]


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd", "+25:00", "+01:60", "", "Europe"])
def test_a_zone_that_there_is_not_is_refused(name):
    with pytest.raises(Failure) as caught:
        local_times.zone_of(name)
    assert caught.value.code == "bad_value" and "Europe/Berlin" in str(caught.value)


def of_run(text: str, began: str, ended: str) -> list[tuple[object, object]]:
    spans = local_times.of_run(iometer.results(text), began, ended)
    return [(span.get("started_utc"), span.get("finished_utc")) for span in spans]


@pytest.mark.parametrize(
    ("hours", "began", "ended"),
    [
        ("UTC", "2026-07-05T10:11:08.000Z", "2026-07-05T10:12:03.250Z"),
        ("Berlin", "2026-07-05T08:11:08.000Z", "2026-07-05T08:12:03.250Z"),
        ("Kathmandu", "2026-07-05T04:26:08.000Z", "2026-07-05T04:27:03.250Z"),
        ("Honolulu", "2026-07-05T20:11:08.000Z", "2026-07-05T20:12:03.250Z"),
    ],
)
def test_a_host_that_knows_when_the_run_was_shows_the_zone_of_its_stamps(hours, began, ended):
    hour = {"UTC": "10:11", "Berlin": "08:11", "Kathmandu": "04:26", "Honolulu": "20:11"}[hours]
    later = f"{hour[:3]}{int(hour[3:]) + 1}"
    assert of_run(TWO, began, ended) == [
        (f"2026-07-05T{hour}:15.009Z", f"2026-07-05T{hour}:45.009Z"),
        (f"2026-07-05T{hour}:50.500Z", f"2026-07-05T{later}:00.500Z"),
    ]


@pytest.mark.parametrize(
    ("began", "ended"),
    [
        ("2026-07-05T10:11:08.000Z", "2026-07-05T10:11:50.000Z"),  # ended before its last stamp
        ("2026-07-05T10:11:20.000Z", "2026-07-05T10:12:03.250Z"),  # began after its first stamp
        (
            "2026-07-05T10:11:08.000Z",
            "2026-07-05T10:27:00.000Z",
        ),  # ended so late that it may have begun a quarter of an hour later
        (
            "2026-07-05T09:56:12.000Z",
            "2026-07-05T10:12:03.250Z",
        ),  # began so early that it may have ended a quarter of an hour earlier
        ("2026-07-05T10:11:08.000Z", "2026-07-05T11:28:40.000Z"),  # six zones fit
        ("2026-07-05T10:16:00.000Z", "2026-07-05T10:24:00.000Z"),  # none does: they are apart by a quarter of an hour
        ("2026-07-01T10:11:08.000Z", "2026-07-01T10:12:03.250Z"),  # no zone is four days away
        ("", ""),
    ],
)
def test_stamps_that_do_not_fit_the_run_give_no_test_a_time(began, ended):
    assert of_run(TWO, began, ended) == [(None, None)] * 2


@pytest.mark.parametrize(("hour", "ended"), [("10", "10:12:03"), ("10", "10:26:40"), ("08", "08:26:40")])
def test_a_run_that_broke_off_gives_the_tests_their_times_that_it_had_finished(hour, ended):
    """The second has no stamp after it; the run may have been ended minutes later, as long as one zone alone fits."""
    text = text_of("2026-07-05 10:11:12:131", "2026-07-05 10:11:45:9", None)
    assert of_run(text, f"2026-07-05T{hour}:11:08.000Z", f"2026-07-05T{ended}.000Z") == [
        (f"2026-07-05T{hour}:11:15.009Z", f"2026-07-05T{hour}:11:45.009Z"),
        (None, None),
    ]


@pytest.mark.parametrize("ended", ["10:26:50", "12:00:00", "10:11:40"])
def test_a_run_that_broke_off_gives_no_time_where_several_zones_fit_or_none_does(ended):
    text = text_of("2026-07-05 10:11:12:131", "2026-07-05 10:11:45:9", None)
    assert of_run(text, "2026-07-05T10:11:08.000Z", f"2026-07-05T{ended}.000Z") == [(None, None)] * 2


def test_stamps_that_go_back_give_no_test_a_time():
    """Between the tests the clock was set, or the zone changed, so that the stamps are of two zones."""
    text = text_of("2026-10-25 02:59:12:131", "2026-10-25 02:59:45:9", "2026-10-25 02:00:00:500")
    assert of_run(text, "2026-10-25T00:59:08.000Z", "2026-10-25T01:00:03.250Z") == [(None, None)] * 2
