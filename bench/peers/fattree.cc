// ns-3: the K-ary fat tree, one TCP connection for every pair of hosts on standard input, equal
// paths shared by flow.
//   fattree K SECONDS RATE DELAY QUEUE_PACKETS
#include <iostream>

#include "network.h"

using namespace ns3;

namespace {

// Position of a host; also its address: 10.pod.edge.position.
struct Place {
  uint32_t pod, edge, position;

  explicit Place(Ipv4Address address)
      : pod(address.Get() >> 16 & 0xff),
        edge(address.Get() >> 8 & 0xff),
        position(address.Get() & 0xff) {}
};

Ipv4Address HostAddress(uint32_t pod, uint32_t edge, uint32_t position) {
  return Ipv4Address(10u << 24 | pod << 16 | edge << 8 | position);
}

Ipv4Address SwitchAddress(uint32_t index) { return Ipv4Address(11u << 24 | index); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "five arguments, please\n");
    return 2;
  }
  const uint32_t k = std::stoul(argv[1]), half = k / 2;
  const double seconds = std::stod(argv[2]);
  const std::string rate = argv[3], delay = argv[4], queue = std::string(argv[5]) + "p";
  Configure(6 << 20);
  Network network;
  const auto join = [&](Ptr<Node> a, Ptr<Node> b) { network.Join(a, b, rate, delay, queue); };
  // The lower interfaces of a switch come first, then the upper ones. The hash chooses an upper
  // interface; it is shifted by layer so that the layers choose independently.
  const auto up = [=](const Ipv4Header& header, Ptr<const Packet> packet, uint32_t shift) {
    return half + 1 + (FlowHash(header, packet) >> shift) % half;
  };
  uint32_t switches = 0;
  std::vector<Ptr<Node>> cores, hosts;
  for (uint32_t n = 0; n < half * half; ++n) {
    cores.push_back(network.Add(SwitchAddress(switches++), [](const Ipv4Header& header, auto) {
      return Place(header.GetDestination()).pod + 1;
    }));
  }
  for (uint32_t pod = 0; pod < k; ++pod) {
    std::vector<Ptr<Node>> edges, above;
    for (uint32_t n = 0; n < half; ++n) {
      edges.push_back(network.Add(
          SwitchAddress(switches++), [=](const Ipv4Header& header, Ptr<const Packet> packet) {
            const Place to(header.GetDestination());
            return to.pod == pod && to.edge == n ? to.position + 1 : up(header, packet, 0);
          }));
      above.push_back(network.Add(
          SwitchAddress(switches++), [=](const Ipv4Header& header, Ptr<const Packet> packet) {
            const Place to(header.GetDestination());
            return to.pod == pod ? to.edge + 1 : up(header, packet, 16);
          }));
    }
    for (uint32_t edge = 0; edge < half; ++edge) {
      for (uint32_t position = 0; position < half; ++position) {
        const auto address = HostAddress(pod, edge, position);
        hosts.push_back(network.Add(address, [=](const Ipv4Header& header, Ptr<const Packet>) {
          return header.GetDestination() == address ? 0 : 1;
        }));
        join(edges[edge], hosts.back());
      }
    }
    for (auto& upper : above) {
      for (auto& edge : edges) {
        join(upper, edge);
      }
    }
    for (uint32_t n = 0; n < half; ++n) {
      for (uint32_t core = 0; core < half; ++core) {
        join(above[n], cores[n * half + core]);
      }
    }
  }
  uint32_t from, to;
  while (std::cin >> from >> to) {
    network.Flow(hosts.at(from), hosts.at(to), Time(0));
  }
  network.Run(seconds);
}
