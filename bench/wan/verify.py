#!/usr/bin/env python3
"""Compares the wide-area network with its settings, using ping and iperf3.

Usage: bench/wan/verify.py [--build FOLDER] [--seconds N] [--rates 80,200,500] [--rtts 10,80,200] [--loss 0.01]

For each rate and round trip, measures ping's round trip on an idle link, and the rate of one TCP flow as a
share of the possible rate with full packets (1448 of 1500 bytes are neither IP nor TCP header). Then
measures the loss of UDP packets.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import wan  # noqa: E402

PAYLOAD = 1448 / 1500


def ping(network, count=20):
    """(median, largest) round trip in ms from a to b."""
    with network.popen("a", ["ping", "-c", count, "-i", "0.05", network.address("b")],
                       stdout=subprocess.PIPE, text=True) as process:
        output = process.communicate()[0]
    times = sorted(float(t) for t in re.findall(r"time=([\d.]+)", output))
    if len(times) < count:
        raise RuntimeError(f"verify: only {len(times)} of {count} pings were answered")
    return times[len(times) // 2], times[-1]


def iperf(network, seconds, *arguments):
    """The final part of iperf3's report on a flow from a to b."""
    server = network.popen("b", ["iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True)
    try:
        for line in server.stdout:
            if "listening" in line:
                break
        with network.popen("a", ["iperf3", "-c", network.address("b"), "-J", "-t", seconds, *arguments],
                           stdout=subprocess.PIPE, text=True) as client:
            report = json.loads(client.communicate(timeout=seconds + 60)[0])
        if "error" in report:
            raise RuntimeError(f"verify: iperf3: {report['error']}")
        return report["end"]
    finally:
        server.kill()
        server.wait()


def verify(rate, rtt, loss, seconds, build):
    """Prints one line of the table; returns whether the link matches its settings."""
    with wan.Wan(wan.uniform(["a", "b"], rate, rtt, loss), build) as network:
        if loss:
            udp = iperf(network, seconds, "-u", "-b", f"{0.1 * rate}M", "-l", "1400")["sum"]
            measured = udp["lost_packets"] / udp["packets"]
            print(f"{rate:6} {rtt:6}   UDP: {100 * measured:.2f} % of {udp['packets']} packets lost, "
                  f"asked {100 * loss:.2f} %", flush=True)
            return abs(measured / loss - 1) < 0.2
        median, largest = ping(network)
        tcp = iperf(network, seconds, "-O", "5")  # slow start does not count
    received = tcp["sum_received"]["bits_per_second"] / 1e6
    part = received / rate / PAYLOAD
    late = network.report
    print(f"{rate:6} {rtt:6} {median:9.2f} {largest:9.2f} {received:9.1f} {part:7.3f}"
          f" {tcp['sum_sent']['retransmits']:8} {late['meanLateUs']:8.0f} {late['maxLateUs'] / 1e3:8.2f}", flush=True)
    return abs(median - rtt) < 1 and part > 0.9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=wan.ROOT / "build" / "release")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rates", default="80,200,500")
    parser.add_argument("--rtts", default="10,80,200")
    parser.add_argument("--loss", type=float, default=0.01)
    options = parser.parse_args()
    wan.sandboxed()
    print("asked         ping, ms            one TCP flow               packets late\n"
          "  Mb/s RTT ms    median       max      Mb/s of link  retrans  mean us   max ms")
    rates, rtts = ([int(x) for x in text.split(",")] for text in (options.rates, options.rtts))
    good = [verify(rate, rtt, 0, options.seconds, options.build) for rate in rates for rtt in rtts]
    good.append(verify(rates[0], rtts[0], options.loss, options.seconds, options.build))
    if not all(good):
        print("verify: the network is not what was asked for", file=sys.stderr)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
