"""The changes from one release of Apache Kafka to the next."""

from __future__ import annotations

from tools.kafka_changes import changes, fields_of, read_definitions

SCHEMA = """\
// A licence.
{
  "apiKey": 42, "type": "response", "name": "DeleteGroupsResponse",
  // Version 3 has messages.
  "validVersions": "0-3", "flexibleVersions": "2+",
  "fields": [
    { "name": "Results", "type": "[]Result", "versions": "0+", "fields": [
      { "name": "ErrorMessage", "type": "string", "versions": "3+",
        "nullableVersions": "3+", "default": "null" }
    ]}
  ]
}
"""


def test_the_fields_of_a_message_have_paths_types_and_versions() -> None:
    assert fields_of(SCHEMA) == {
        ("message", "DeleteGroupsResponse"): "0-3, flexible 2+",
        ("field", "DeleteGroupsResponse.Results"): "[]Result, versions 0+",
        ("field", "DeleteGroupsResponse.Results.ErrorMessage"): (
            "string, versions 3+, nullableVersions 3+, default null"
        ),
    }


def test_a_struct_may_be_defined_once_for_several_fields() -> None:
    schema = """{"name": "A", "validVersions": "0", "flexibleVersions": "none",
      "fields": [{"name": "One", "type": "B", "versions": "0"}],
      "commonStructs": [{"name": "B", "versions": "0", "fields": [
        {"name": "C", "type": "int8", "versions": "0"}]}]}"""
    assert ("field", "A.One.C") in fields_of(schema)


def test_identities_of_objects_are_no_changes() -> None:
    one, other = (
        read_definitions(f"broker config\ta\tINT java.lang.Object@{identity}\n")
        for identity in ("f79e", "76c3e77a")
    )
    assert one == other


def test_what_is_new_gone_or_changed_is_a_line_and_what_we_lack_has_a_star() -> None:
    older = {
        ("api", "42 DELETE_GROUPS"): "0-2",
        ("error", "1 OFFSET_OUT_OF_RANGE"): "same",
        ("message", "DeleteGroupsResponse"): "0-2, flexible 2+",
        ("topic config", "retention.ms"): "LONG 604800000",
    }
    newer = {
        ("api", "42 DELETE_GROUPS"): "0-99",
        ("error", "1 OFFSET_OUT_OF_RANGE"): "same",
        ("error", "9999 NO_SUCH_ERROR"): "",
        ("field", "DeleteGroupsResponse.Results.ErrorMessage"): "string, versions 3+",
        ("field", "DeleteGroupsResponse.Results.Other"): "string, versions 4+",
        ("field", "NewMessage.Field"): "int8, versions 0+",
        ("message", "DeleteGroupsResponse"): "0-2, flexible 2+",
        ("message", "NewMessage"): "0, flexible 0+",
    }
    assert [*changes(older, newer)] == [
        "* changed api 42 DELETE_GROUPS: 0-2 -> 0-99",
        "* new error 9999 NO_SUCH_ERROR: ",
        "  new field DeleteGroupsResponse.Results.ErrorMessage: string, versions 3+",
        "* new field DeleteGroupsResponse.Results.Other: string, versions 4+",
        "* new message NewMessage: 0, flexible 0+",
        "  gone topic config retention.ms: LONG 604800000",
    ]
