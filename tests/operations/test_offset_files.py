import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.errors import SettingError
from coterie.files import decode_text
from coterie.operations.offset_files import CsvRow, read_csv, write_csv
from coterie.types import TopicPartition

ROWS = [
    CsvRow("g", TopicPartition("a.b_c-d", 0), 5),
    CsvRow("h", TopicPartition("t", 1), 0),
]


@pytest.mark.fact("C-63")
def test_one_group_has_three_columns_and_several_have_four() -> None:
    assert write_csv(ROWS[:1], with_group=False) == "a.b_c-d,0,5\n"
    assert write_csv(ROWS, with_group=True) == "g,a.b_c-d,0,5\nh,t,1,0\n"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a" * 24, "a" * 24),
        ("a" * 25, f'"{"a" * 25}"'),
        ("two words", '"two words"'),
        ('a"b', '"a""b"'),
        ("a,b", '"a,b"'),
        ("a\\b", '"a\\b"'),
        ("#a", '"#a"'),
    ],
)
def test_names_are_quoted_as_in_apache_kafka(name: str, written: str) -> None:
    row = CsvRow(name, TopicPartition("t", 0), 1)
    text = write_csv([row], with_group=True)
    assert text == f"{written},t,0,1\n"
    assert read_csv(text) == {name: {row.at: 1}}


@pytest.mark.fact("C-63")
def test_csv_files_with_and_without_a_group_column_are_parsed() -> None:
    assert read_csv("t,0,5\r\n\nt,1, 6\n", "g") == {
        "g": {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    }
    assert read_csv("t,2147483647,9223372036854775807\n", "g") == {
        "g": {TopicPartition("t", 2**31 - 1): 2**63 - 1}
    }
    assert read_csv("h,t,0,5\n", "g") == {"h": {TopicPartition("t", 0): 5}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,0,5\n", "line 1: a line without a group needs exactly one selected group"),
        ("g,t,0,5\ng,t,0\n", "line 2: a line without"),
        ("g,t,0,5\ng,t,0,6\n", "line 2: t-0 occurs twice"),
        ("g,t,x,5\n", "line 1: 'x' is not a valid partition"),
        ("g,t,2147483648,5\n", "line 1: '2147483648' is not a valid partition"),
        ("g,t,0,-1\n", "line 1: '-1' is not a valid offset"),
        ("g,t,0,9223372036854775808\n", "is not a valid offset"),
        ("g,,0,1\n", "the topic is empty"),
        ("nonsense\n", "line 1: 1 columns"),
        ('g,"t,0,5\n', "line 1: "),
    ],
)
def test_the_error_of_an_invalid_line_contains_its_number(
    text: str, message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        read_csv(text)


@given(st.lists(st.text(), unique=True, min_size=1))
@example(["a\nb"])
@example(["a\r\nb", "a\rb", "\n"])
@example(["\ufeffcg"])
@example(["a\x85b", "a\u2028b", "a\x1cb", "a\x0cb", '"', " a ", ""])
def test_offsets_of_every_group_id_are_read_as_they_were_written(
    group_ids: list[str],
) -> None:
    at = TopicPartition("t", 0)
    rows = [CsvRow(each, at, number) for number, each in enumerate(group_ids)]
    data = write_csv(rows, with_group=True).encode()
    assert read_csv(decode_text(data)) == {
        each.group_id: {at: each.offset} for each in rows
    }
