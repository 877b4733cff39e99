"""Settings of the whole test run."""

import os

import hypothesis

# Deadlines measure the machine, not the code. Under CI the examples are the same in every run, so a red build means a
# change; elsewhere they differ from run to run, and the failing ones are kept in .hypothesis/.
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))
