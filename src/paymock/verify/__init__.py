"""Verification of an integration: runs the user's backend through scenarios and faults, and decides from its
requests and deliveries whether it handles money safely. `verify` plans the trials, runs them concurrently in
one sandbox, and reports which rules were broken. See docs/verify.md.
"""

from paymock.verify.report import Finding, Report, Verdict
from paymock.verify.verifier import verify

__all__ = ["Finding", "Report", "Verdict", "verify"]
