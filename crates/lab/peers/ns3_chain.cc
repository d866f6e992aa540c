// A UDP CBR chain in ns-3, the peer of `sinew bench sim`: the program of ns3_chain.py, compiled.
//
//     g++ -O2 -o ns3_chain ns3_chain.cc -lns3-core -lns3-network -lns3-internet -lns3-point-to-point -lns3-applications
//     ./ns3_chain PACKETS BYTES INTERVAL_NS HOPS DELAY_NS RATE_BPS
//
// Needs Debian's libns3-dev. Prints the same line of JSON.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>

using namespace ns3;

int
main(int argc, char** argv)
{
    if (argc != 7)
    {
        std::cerr << "usage: ns3_chain PACKETS BYTES INTERVAL_NS HOPS DELAY_NS RATE_BPS\n";
        return 2;
    }
    const uint64_t packets = std::strtoull(argv[1], nullptr, 10);
    const uint64_t bytes = std::strtoull(argv[2], nullptr, 10);
    const uint64_t intervalNs = std::strtoull(argv[3], nullptr, 10);
    const uint32_t hops = std::strtoul(argv[4], nullptr, 10);
    const uint64_t delayNs = std::strtoull(argv[5], nullptr, 10);
    const std::string rate = std::string(argv[6]) + "bps";

    NodeContainer nodes;
    nodes.Create(hops + 1);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(delayNs)));
    InternetStackHelper stack;
    stack.Install(nodes);
    Ipv4AddressHelper addresses;
    Ipv4Address last;
    for (uint32_t i = 0; i < hops; ++i)
    {
        NetDeviceContainer devices = link.Install(nodes.Get(i), nodes.Get(i + 1));
        const std::string base = "10.1." + std::to_string(i) + ".0";
        addresses.SetBase(base.c_str(), "255.255.255.0");
        last = addresses.Assign(devices).GetAddress(1);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    const uint16_t port = 9000;
    UdpServerHelper server(port);
    ApplicationContainer servers = server.Install(nodes.Get(hops));
    UdpClientHelper client(last, port);
    client.SetAttribute("MaxPackets", UintegerValue(packets));
    client.SetAttribute("Interval", TimeValue(NanoSeconds(intervalNs)));
    client.SetAttribute("PacketSize", UintegerValue(bytes));
    client.Install(nodes.Get(0));
    Simulator::Stop(NanoSeconds(packets * intervalNs + hops * delayNs + 1000000000));

    const std::clock_t start = std::clock();
    Simulator::Run();
    const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
    const uint64_t received = servers.Get(0)->GetObject<UdpServer>()->GetReceived();
    const uint64_t events = Simulator::GetEventCount();
    Simulator::Destroy();
    std::cout << "{\"events\": " << events << ", \"seconds\": " << seconds
              << ", \"received\": " << received << "}\n";
    return 0;
}
