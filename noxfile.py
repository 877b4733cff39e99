"""Everything that CI checks. `nox` runs the default sessions; `nox -s tests -- -k shuffle` one of them, with arguments.

Each session has its own environment, so it also proves that its extra in `pyproject.toml` is complete. What it
installs is held to tested versions, by `constraints.txt` or, for `bench`, by a file of its own: pip alone would choose
the newest torch.
"""

import os
import shutil

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "virtualenv"
# Quick ones first: an error in form shows before a long run.
nox.options.sessions = ["lint", "types", "docs", "interop", "tests"]


def install(session: nox.Session, *what: str) -> None:
    """Install `what` at the tested versions."""
    session.install("-c", "constraints.txt", *what)


def project(session: nox.Session, extra: str) -> None:
    """Install the package, editable, with one of its extras."""
    install(session, "-e", f".[{extra}]")


def requirements(extra: str) -> list[str]:
    """Return what an extra asks for, to install it without the package and so without torch."""
    return nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"][extra]


def browser(session: nox.Session) -> None:
    """Install the browser that the preview page is tested in, where that can be done."""
    if shutil.which("chromium") and shutil.which("chromedriver"):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        packages = ("chromium", "chromium-driver")
        session.run("apt-get", "update", "-qq", external=True, silent=True)
        session.run("apt-get", "install", "-y", "-qq", *packages, external=True, silent=True)
    else:
        session.warn("the tests of the preview page need chromium and chromedriver on the PATH")


@nox.session
def lint(session: nox.Session) -> None:
    """Check form, and that imports point down."""
    install(session, *requirements("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")  # reads sources in this folder and imports nothing of ours


@nox.session
def types(session: nox.Session) -> None:
    """Check the package's types in strict mode."""
    project(session, "types")
    session.run("pyright", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    project(session, "docs")
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-E", "docs", "docs/_build/html")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, doctests and the code blocks of the documentation; arguments go to pytest."""
    project(session, "tests")
    browser(session)
    # Two processes, however many cores there are: some tests start four workers of their own.
    session.run("pytest", "--ignore=tests/interop", *(session.posargs or ["-n", "2", "--dist", "worksteal"]))


@nox.session
def interop(session: nox.Session) -> None:
    """Read and write datasets together with the real Megatron-Energon."""
    project(session, "tests")
    install(session, "megatron-energon")
    session.run("pytest", *(session.posargs or ["tests/interop"]))


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Print the benchmark tables: ratios against plain loops and peers, measured side by side in one run."""
    # One environment with all peers, at versions of their own: see the file.
    session.install("-r", "tests/benchmarks/requirements.txt", "-e", ".[fast]")
    session.run("python", "tests/benchmarks/run.py", *session.posargs)
