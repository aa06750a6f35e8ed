"""`swarmctl simulate --fleet` for the scripts of this folder."""
import json
import statistics
import subprocess
import tempfile


def text_of(shares):
    """Median and range, in percent."""
    middle, least, most = (100 * f(shares) for f in (statistics.median, min, max))
    return f"{middle:.1f} ({least:.1f} to {most:.1f})"


def simulate(build, fleet, seed=1):
    """What it says about `fleet`, the content of a fleet file (docs/fleet.md), as its --json."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(fleet, file)
        file.flush()
        output = subprocess.run([build / "bin" / "swarmctl", "simulate", "--fleet", file.name, "--seed", str(seed),
                                 "--json"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output)
