"use strict";
(() => {
  const perPage = 24;
  const samples = [...document.querySelectorAll(".sample")];
  const texts = samples.map((sample) => sample.textContent.toLowerCase());
  const [filter, previous, next, place, nothing] = ["filter", "previous", "next", "place", "nothing"].map((id) =>
    document.getElementById(id),
  );
  let page = 0;
  let fitting = samples;

  const show = () => {
    const pages = Math.max(1, Math.ceil(fitting.length / perPage));
    page = Math.min(Math.max(page, 0), pages - 1);
    const shown = new Set(fitting.slice(page * perPage, (page + 1) * perPage));
    for (const sample of samples) sample.hidden = !shown.has(sample);
    const first = page * perPage + 1;
    place.textContent = shown.size ? `${first}–${first + shown.size - 1} of ${fitting.length}` : "0 of 0";
    previous.disabled = page === 0;
    next.disabled = page === pages - 1;
    nothing.hidden = fitting.length > 0;
  };
  const turn = (by) => {
    const before = page;
    page += by;
    show();
    if (page !== before) window.scrollTo(0, 0);
  };
  const choose = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    fitting = samples.filter((_, number) => words.every((word) => texts[number].includes(word)));
    page = 0;
    show();
  };

  filter.addEventListener("input", choose);
  previous.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  document.addEventListener("keydown", (event) => {
    if (event.target === filter || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") turn(-1);
    if (event.key === "ArrowRight") turn(1);
    if (event.key === "/") {
      event.preventDefault();
      filter.focus();
    }
  });
  choose();
})();
