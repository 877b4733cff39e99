"""The page of `preview --html`, opened in a real browser: looks right, works, and runs nothing of the data."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.cli.browser import chromium
from tests.cli.running import run
from tests.recipes.prepared import png, prepare
from tests.storage.tars import write_tar

EVIL = '<script>document.title="owned"</script>'


def picture(mode: str, kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").convert(mode).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    """Sixty samples of a typed dataset, in two shards."""
    samples = {
        f"{number:03d}": {"png": png((4 * number, 80, 160), (60, 40)), "txt": f"colour number {number}".encode()}
        for number in range(60)
    }
    shards = {
        "0.tar": {key: parts for key, parts in samples.items() if key < "030"},
        "1.tar": {key: parts for key, parts in samples.items() if key >= "030"},
    }
    dataset = (
        "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\n"
        "field_map: {image: png, caption: txt}\n"
    )
    return prepare(tmp_path / "data", shards, dataset)


def open_page(browser, page: Path) -> None:
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(page.as_uri())


def visible(browser) -> list[str]:
    cards = browser.find_elements(By.CSS_SELECTOR, ".sample")
    return [card.find_element(By.CSS_SELECTOR, ".key").text for card in cards if card.is_displayed()]


def requests_of(browser) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    sent = [url for url in sent if not url.startswith("chrome")]  # the pages of the browser itself, as it starts
    return [url for url in sent if not url.startswith("data:")]


def test_pictures_are_loaded_and_nothing_is_fetched(browser, captions: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    assert "60 samples" in run("preview", captions, "--html", page).output
    open_page(browser, page)
    widths = browser.execute_script("return [...document.images].map((image) => image.naturalWidth)")
    assert widths == [60] * 60
    assert requests_of(browser) == [page.as_uri()]
    assert browser.get_log("browser") == []
    facts = browser.find_element(By.CSS_SELECTOR, ".facts").text
    assert "CaptioningSample: image ← png, caption ← txt" in facts
    card = browser.find_element(By.CSS_SELECTOR, ".sample")
    assert "#0 · 0.tar · byte 0" in card.text
    assert "60×40 PNG RGB" in card.text
    assert "float32 tensor 3×40×60" in card.text


def test_pages_are_turned_by_buttons_and_keys(browser, captions: Path, tmp_path: Path):
    run("preview", captions, "--html", tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    assert visible(browser) == [f"{number:03d}" for number in range(24)]
    assert browser.find_element(By.ID, "place").text == "1–24 of 60"
    assert not browser.find_element(By.ID, "previous").is_enabled()
    browser.find_element(By.ID, "next").click()
    assert visible(browser)[0] == "024"
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_RIGHT)
    assert visible(browser) == [f"{number:03d}" for number in range(48, 60)]
    assert not browser.find_element(By.ID, "next").is_enabled()
    browser.find_element(By.ID, "previous").click()
    assert visible(browser)[0] == "024"


def test_the_filter_hides_what_does_not_fit(browser, captions: Path, tmp_path: Path):
    run("preview", captions, "--html", tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    box = browser.find_element(By.ID, "filter")
    box.send_keys("NUMBER 1.tar")
    assert visible(browser) == [f"{number:03d}" for number in range(30, 54)]
    assert browser.find_element(By.ID, "place").text == "1–24 of 30"
    box.send_keys(" 059")
    assert visible(browser) == ["059"]
    box.send_keys(" nothing like that")
    assert visible(browser) == []
    assert browser.find_element(By.ID, "nothing").is_displayed()
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(Keys.DELETE)
    assert len(visible(browser)) == 24


def test_hostile_content_is_shown_and_does_nothing(browser, tmp_path: Path):
    members = [
        (f"{EVIL}.txt", f'{EVIL}<img src=x onerror="document.title=1">'.encode()),
        (f"{EVIL}.json", json.dumps({EVIL: "</script>" + EVIL}).encode()),
        ('"onmouseover="alert(1).<svg onload=alert(2)>', b"\x1b[31m\x00\xff\xfe"),
        ("long.txt", b"word " * 200_000),
        ("long.json", b"[" + b"1," * 600_000 + b"1]"),
        ("broken.jpg", picture("RGB", "JPEG")[:700]),
        ("broken.png", b"no picture"),
        ("broken.json", b"{"),
        ("broken.pkl", b"\x80\x04cos\nsystem\n(S'false'\ntR."),
        ("broken.txt.gz", gzip.compress(b"x")[:-6]),
        ("many.1.png", picture("RGBA", "PNG")),
        ("many.2.tif", picture("I;16", "TIFF")),
        ("many.3.jpg", picture("CMYK", "JPEG")),
        ("many.4.gif", picture("P", "GIF")),
        ("many.5.txt.gz", gzip.compress("Ünïcödé 日本語".encode())),
    ]
    write_tar(tmp_path / "data" / f"{EVIL.replace('/', ' ')}.tar", members)
    page = tmp_path / "page.html"
    run("preview", tmp_path / "data", "--html", page)
    assert page.stat().st_size < 500_000
    open_page(browser, page)
    assert browser.title == str(tmp_path / "data")
    assert browser.execute_script("return document.scripts.length") == 1
    assert requests_of(browser) == [page.as_uri()]
    assert browser.get_log("browser") == []
    assert len(visible(browser)) == 5
    articles = browser.find_elements(By.TAG_NAME, "article")
    cards = {card.find_element(By.CSS_SELECTOR, ".key").text: card for card in articles}
    assert f'{EVIL}<img src=x onerror="document.title=1">' in cards[EVIL].text
    assert "more)" in cards["long"].text
    assert len(cards["broken"].find_elements(By.CSS_SELECTOR, "dd.error")) == 4
    widths = browser.execute_script("return [...document.images].map((image) => image.naturalWidth)")
    assert widths == [256] * 4
    assert "Ünïcödé 日本語" in cards["many"].text


def test_the_page_fits_narrow_windows(browser, captions: Path, tmp_path: Path):
    run("preview", captions, "--html", tmp_path / "page.html", "--count", "3")
    browser.set_window_size(500, 800)
    try:
        open_page(browser, tmp_path / "page.html")
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        browser.set_window_size(1280, 900)
