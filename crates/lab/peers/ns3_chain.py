"""A UDP CBR chain in ns-3, the peer of `sinew bench sim`.

    python3 ns3_chain.py PACKETS BYTES INTERVAL_NS HOPS DELAY_NS RATE_BPS

Hosts in a row, point-to-point links between them, one client that sends PACKETS datagrams of BYTES
of payload at a constant rate from the first host to the last. Prints one line of JSON:
events, seconds of processor time in Simulator::Run, packets received.

Needs the package `ns3` of PyPI (pip install ns3), or ns-3's own Python bindings.
"""

import json
import sys
import time


def bindings():
    try:
        from ns import ns
    except ImportError:
        import ns
    return ns


def main():
    packets, size, interval_ns, hops, delay_ns, rate_bps = map(int, sys.argv[1:7])
    ns = bindings()
    # As few statistics and checks as its own benchmarks have.
    ns.Config.SetDefault("ns3::Ipv4GlobalRouting::RespondToInterfaceEvents", ns.BooleanValue(False))
    nodes = ns.NodeContainer()
    nodes.Create(hops + 1)
    link = ns.PointToPointHelper()
    link.SetDeviceAttribute("DataRate", ns.StringValue(f"{rate_bps}bps"))
    link.SetChannelAttribute("Delay", ns.StringValue(f"{delay_ns}ns"))
    stack = ns.InternetStackHelper()
    stack.Install(nodes)
    addresses = ns.Ipv4AddressHelper()
    last = None
    for i in range(hops):
        devices = link.Install(nodes.Get(i), nodes.Get(i + 1))
        addresses.SetBase(ns.Ipv4Address(f"10.1.{i}.0"), ns.Ipv4Mask("255.255.255.0"))
        last = addresses.Assign(devices).GetAddress(1)
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
    port = 9000
    server = ns.UdpServerHelper(port)
    servers = server.Install(ns.NodeContainer(nodes.Get(hops)))
    to = ns.InetSocketAddress(last, port)
    client = ns.UdpClientHelper(to.ConvertTo())
    client.SetAttribute("MaxPackets", ns.UintegerValue(packets))
    client.SetAttribute("Interval", ns.TimeValue(ns.NanoSeconds(interval_ns)))
    client.SetAttribute("PacketSize", ns.UintegerValue(size))
    client.Install(ns.NodeContainer(nodes.Get(0)))
    ns.Simulator.Stop(ns.NanoSeconds(packets * interval_ns + hops * delay_ns + 1_000_000_000))
    start = time.process_time()
    ns.Simulator.Run()
    seconds = time.process_time() - start
    received = servers.Get(0).GetObject[ns.UdpServer]().GetReceived()
    events = ns.Simulator.GetEventCount()
    ns.Simulator.Destroy()
    print(json.dumps({"events": int(events), "seconds": seconds, "received": int(received)}))


if __name__ == "__main__":
    main()
