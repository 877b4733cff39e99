"""The README's table of verbs is that of the package."""

from docs.verb_table import README, rewritten


def test_the_table_of_verbs_is_up_to_date() -> None:
    page = README.read_text(encoding="utf-8")
    assert page == rewritten(page), "write it anew: python -m docs.verb_table"
