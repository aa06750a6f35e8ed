"""The outcome of the cases: a table for people, JUnit's XML and JSON for programs."""
import json
import xml.etree.ElementTree as xml


class Outcome:
    """The outcome of one case: passed, failed or skipped."""

    def __init__(self, case, verdict, seconds, notes, reason=""):
        self.case, self.verdict, self.seconds, self.notes, self.reason = case, verdict, seconds, notes, reason

    def values(self):
        """The outcome as a dict for JSON."""
        return {"case": self.case.name, "title": self.case.title, "tags": sorted(self.case.tags),
                "verdict": self.verdict, "seconds": round(self.seconds, 1), "reason": self.reason,
                "checks": self.notes.checks, "notes": self.notes.lines}


def table(outcomes):
    """One line per case: its verdict, its time, the number of its checks, and why it failed."""
    lines = []
    for outcome in outcomes:
        lines.append(f"{outcome.verdict:8}{outcome.seconds:7.1f} s {len(outcome.notes.checks):4} checks  {outcome.case.title}")
        lines += [f"{'':20}! {line}" for line in outcome.reason.splitlines()]
    return "\n".join(lines)


def summary(outcomes):
    """The closing line, in the words of test runners."""
    counts = {verdict: sum(outcome.verdict == verdict for outcome in outcomes)
              for verdict in ("passed", "failed", "skipped")}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def write(outcomes, folder, figures):
    """Writes OUT/report.json and OUT/junit.xml."""
    (folder / "report.json").write_text(json.dumps(
        {"figures": figures, "cases": [outcome.values() for outcome in outcomes]}, indent=2) + "\n")
    suite = xml.Element("testsuite", name="e2e", tests=str(len(outcomes)),
                        failures=str(sum(outcome.verdict == "failed" for outcome in outcomes)),
                        skipped=str(sum(outcome.verdict == "skipped" for outcome in outcomes)))
    for outcome in outcomes:
        test = xml.SubElement(suite, "testcase", name=outcome.case.title, classname=outcome.case.name,
                              time=f"{outcome.seconds:.1f}")
        if outcome.verdict != "passed":
            kind = {"failed": "failure", "skipped": "skipped"}[outcome.verdict]
            xml.SubElement(test, kind, message=outcome.reason)
        xml.SubElement(test, "system-out").text = "\n".join(outcome.notes.lines)
    xml.ElementTree(suite).write(folder / "junit.xml", encoding="unicode")
