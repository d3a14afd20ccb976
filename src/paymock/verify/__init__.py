"""The judge of an integration: it drives a backend through scenarios and faults, and checks whether the
backend handles money safely. `verify` plans the trials, runs them side by side in one sandbox, and reports
what broke a rule. See docs/verify.md.
"""

from paymock.verify.campaign import verify
from paymock.verify.report import Finding, Report, Verdict

__all__ = ["Finding", "Report", "Verdict", "verify"]
